"""Checkpoints hold what changes, and no more often than asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import agentgym.trainers
from agentgym.errors import CheckpointError
from agentgym.trainers.critics.transitions import pack_prompts, unpack_prompts
from agentgym.trainers.critics.value_model import action_model
from agentgym.trainers.policy.adapters import add_adapter
from agentgym.trainers.policy.lora import LoraSettings
from agentgym.trainers.policy.model_defaults import NEW_MODEL_KEY
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.run.logger import read_metrics


def train(recipe: str, folder: Path, **changes: Any) -> list[dict[str, Any]]:
    settings = {
        "env_id": "NumberLine-v0", "env_kwargs": {"size": 4, "max_turns": 3}, "model": "nano",
        "context": "current", "instructions": False, "constrain": True, "iterations": 3,
        "episodes_per_iteration": 8, "eval_episodes": 0, "device": "cpu", "threads": 1,
        "quiet": True, "run_dir": str(folder), "keep": 9,
    }  # fmt: skip
    agentgym.trainers.train(recipe, **settings | changes)
    return read_metrics(folder)


def losses(rows: list[dict[str, Any]]) -> list[dict[str, float]]:
    return [{k: v for k, v in row.items() if k.startswith(("losses", "credit"))} for row in rows]


FEW = {"replayed": 8, "critic_steps": 3, "utterance_layers": (4,)}


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["archer", "sac_glam"])
def test_a_frozen_encoder_is_written_once(tmp_path: Path, recipe: str):
    few = FEW | ({"encoder": "frozen"} if recipe == "archer" else {})
    straight = train(recipe, tmp_path / "straight", **few)
    folder = tmp_path / "resumed"
    train(recipe, folder, **few, iterations=1)
    written = folder / "frozen" / "hooks.pt"
    before = written.stat().st_mtime_ns
    resumed = train(recipe, folder, **few, resume=True)
    assert losses(resumed) == losses(straight)
    assert written.stat().st_mtime_ns == before
    weights = (folder / "policy" / "model.safetensors").stat().st_size
    hooks = sorted(folder.glob("checkpoints/*/hooks.pt"))
    assert len(hooks) == 4
    assert all(file.stat().st_size < weights for file in hooks[:2])
    written.write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"frozen models.*damaged"):
        train(recipe, folder, **few, iterations=4, resume=True)


@pytest.mark.slow
@pytest.mark.parametrize(("minutes", "saved"), [(1e6, 2), (0.0, 4), (None, 4)])
def test_minutes_between_checkpoints(tmp_path: Path, minutes: float | None, saved: int):
    train("rloo", tmp_path / "run", save_minutes=minutes, group_size=2)
    names = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert len(names) == saved
    assert (names[0], names[-1]) == ("000000", "000003")


@pytest.mark.slow
def test_loaded_models_are_saved_every_ten_minutes(tmp_path: Path):
    train("rloo", tmp_path / "first", iterations=0, group_size=2)
    model = tmp_path / "first" / "policy"
    config = json.loads((model / "config.json").read_text())
    del config[NEW_MODEL_KEY]
    (model / "config.json").write_text(json.dumps(config))
    train("rloo", tmp_path / "run", model=str(model), group_size=2)
    names = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert names == ["000000", "000003"]


def test_the_base_of_an_adapter_is_not_saved(make_model, tokenizer):
    policies = [
        Policy(add_adapter(make_model(), LoraSettings(rank=2), seed=seed), tokenizer)
        for seed in (0, 1)
    ]
    one, other = policies
    weights = one.own_weights()
    trained = {name for name, parameter in one.named_parameters() if parameter.requires_grad}
    assert weights.keys() == trained
    other.load_own_weights(weights)
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name])
    with pytest.raises(KeyError, match="not those of the policy"):
        other.load_own_weights({})
    states = action_model(one, seed=0).states()
    assert states["trunk"].keys() == trained
    action_model(other, seed=1).restore(states)


def test_prompts_are_packed_exactly():
    rng = np.random.default_rng(0)
    prompts = [
        (rng.integers(0, 9, size=n).astype(np.int32), ("a", "b")[:n]) if n else None
        for n in (3, 0, 1, 5, 0)
    ]
    for kept in (prompts, []):
        packed = pack_prompts(kept)
        got = unpack_prompts(packed)
        assert len(got) == len(kept)
        for a, b in zip(got, kept, strict=True):
            assert (a is None) == (b is None)
            if a is not None and b is not None:
                np.testing.assert_array_equal(a[0], b[0])
                assert a[0].dtype == np.int32
                assert a[1] == b[1]
