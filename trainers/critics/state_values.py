"""Values of prompts by the critic of a checkpoint, outside of training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from agentgym.errors import CheckpointError
from agentgym.trainers.critics.heads import ValueHead
from agentgym.trainers.critics.transitions import one_turn
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.policy.collate import collate
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sample
from agentgym.trainers.update.microbatches import TokenBudget
from agentgym.trainers.update.rows import Rows


@torch.no_grad()
def state_values(
    policy: Policy, head: ValueHead, prompts: Sequence[NDArray[np.int32]], tokens: int = 16384
) -> list[float]:
    """Returns the value of each prompt, read at its last token.

    Args:
        policy: the policy whose hidden states the critic reads.
        head: the critic.
        prompts: the prompts, at least one.
        tokens: number of tokens per forward pass, including padding.
    """
    end = np.array([policy.end_token], np.int32)
    nothing = Sample(end, np.zeros(1, np.float32), None, "", True)
    batch = Batch.of([one_turn(i, prompt, (), nothing) for i, prompt in enumerate(prompts)])
    values, rows = np.zeros(len(prompts)), Rows.of(batch)

    def step(part: NDArray[np.int64]) -> None:
        collated = collate(batch, [rows.rows[i] for i in part], policy.pad_token)
        hidden, _ = policy.hidden(collated.to(policy.device))
        values[collated.index.cpu().numpy()] = head(hidden).cpu().numpy()

    TokenBudget(tokens).each(rows, np.arange(len(rows.rows)), step)
    return values.tolist()


def load_head(file: Path, policy: Policy) -> ValueHead:
    """Returns a critic on the policy's hidden states from a file of a checkpoint.

    Raises:
        CheckpointError: if the file is damaged or holds another kind of critic.
    """
    try:
        weights = torch.load(file, map_location="cpu", weights_only=True)
        layers = [weight.shape[0] for name, weight in weights.items() if name.endswith("weight")]
        bias = any(name.endswith("bias") for name in weights)
        head = ValueHead(policy.hidden_size, layers[:-1], bias=bias)
        head.load_state_dict(weights)
    except Exception as error:
        raise CheckpointError(
            f"{file} is not a critic on the policy's hidden states ({error!r:.200})."
        ) from error
    return head.to(policy.device).requires_grad_(False)
