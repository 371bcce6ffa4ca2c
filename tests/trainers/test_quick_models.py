"""Models that tests copy in place of opening them: each is of its own files, and nobody else's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from agentgym.registration.making import make_env
from agentgym.trainers.policy.tiny import tiny_policy

from ..helpers import quick


def test_a_copied_model_is_as_the_files_say_whatever_an_earlier_test_did(tmp_path: Path):
    tiny_policy(lambda: make_env("NumberLine-v0"), seed=0, size="nano", folder=tmp_path)
    expected, _ = quick.open_model(str(tmp_path), "float32", False)
    for _ in range(2):
        state = torch.get_rng_state()
        model, _ = quick.copied_model(str(tmp_path), "float32", False)
        assert torch.equal(state, torch.get_rng_state())
        assert not model.training and model.dtype == torch.float32
        pairs = zip(expected.parameters(), model.parameters(), strict=True)
        assert all(torch.equal(one, other) for one, other in pairs)
        with torch.no_grad():
            next(model.parameters()).add_(1.0)


def test_models_without_a_folder_are_not_taken_for_each_other(monkeypatch: pytest.MonkeyPatch):
    def opened(name: str, *_: Any) -> tuple[Any, Any]:
        return torch.nn.Module(), name

    monkeypatch.setattr(quick, "open_model", opened)
    names = ("someone/one", "someone/other")
    assert [quick.copied_model(name, "auto", False)[1] for name in names] == [*names]
