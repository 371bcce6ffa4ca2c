"""The credit of a recipe of one's own: a wrong shape is refused with the expected one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.trainers import make_trainer
from agentgym.trainers.algorithm import PolicyGradient
from agentgym.trainers.data.batch import Batch, Credit

K, M = "one per action token", "one per turn"


def wrong(batch: Batch, kind: str) -> Any:
    """Returns a credit with one fault."""
    tokens, turns = np.zeros(batch.num_tokens, np.float32), np.zeros(batch.num_turns, np.float32)
    return {
        "array": tokens,
        "torch": Credit(torch.from_numpy(tokens)),  # type: ignore[arg-type]
        "turns": Credit(turns),
        "column": Credit(tokens[:, None]),
        "targets": Credit(tokens, targets=tokens[:-1]),
        "returns": Credit(tokens, returns=np.zeros(batch.num_turns + 1)),
        "chunks": Credit(tokens, chunks=np.zeros(batch.num_turns + 1, np.int64)),
    }[kind]


@pytest.mark.usefixtures("without_files")
@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        ("array", TypeError, "must return a Credit, got ndarray"),
        ("torch", TypeError, "advantages must be a NumPy array, got Tensor"),
        ("turns", ValueError, rf"{K}\).*advantages\[batch.token_turn\]"),
        ("column", ValueError, rf"advantages must have shape .*{K}"),
        ("targets", ValueError, rf"targets must have shape .*{K}\) or .*{M}"),
        ("returns", ValueError, rf"returns must have shape .*{M}"),
        ("chunks", ValueError, rf"chunks must have shape .*{M}"),
    ],
)
def test_a_credit_that_does_not_fit_is_refused(kind: str, error: Any, message: str, tmp_path: Path):
    trainer = make_trainer(
        "rloo", env_id="NumberLine-v0", model="nano", iterations=1, episodes_per_iteration=8,
        eval_episodes=0, device="cpu", threads=1, quiet=True, log_with=(), run_dir=str(tmp_path),
    )  # fmt: skip
    object.__setattr__(
        trainer.algorithm, "signal", PolicyGradient(lambda batch, _: wrong(batch, kind))
    )
    with pytest.raises(error, match=message):
        trainer.run()
