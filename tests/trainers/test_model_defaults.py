"""Defaults by kind of model: given settings win, new models keep theirs, a run records them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given as some
from hypothesis import settings
from hypothesis import strategies as st

from agentgym.errors import CheckpointError, ConfigError
from agentgym.trainers import train
from agentgym.trainers.policy.lora import LoraSettings
from agentgym.trainers.policy.model_defaults import DEFAULTS, Kind, kind_of
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.recipes import poad

# Those of every version before there were defaults by kind of model.
NEW = {
    "dtype": "float32", "max_new_tokens": 32, "lr": 3e-4, "adam_eps": 1e-5, "critic_lr": 1e-3,
    "bc_lr": 1e-3, "save_minutes": 0.0,
}  # fmt: skip


def chosen(config: poad.Config) -> dict[str, Any]:
    return {name: config.values()[name] for name in DEFAULTS}


@pytest.fixture(scope="module")
def nano(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("nano")
    tiny_policy("NumberLine-v0", size="nano", episodes=2, folder=path)
    return path


@pytest.fixture(scope="module")
def loaded(nano: Path, tmp_path_factory) -> Path:
    """A model of other origin: its config.json has no mark."""
    path = tmp_path_factory.mktemp("loaded")
    policy = Policy.load(nano)
    del policy.model.config.agentgym_new_model
    policy.save(path)
    return path


@pytest.mark.parametrize("size", ["nano", "tiny", "small", "reader"])
def test_new_models_keep_their_numbers(size: str):
    assert chosen(poad.Config.of(model=size)) == NEW == poad.Config().by_kind


def test_a_loaded_model_and_an_adapter_have_their_own(loaded: Path, monkeypatch):
    for model in ("Qwen/Qwen2.5-1.5B-Instruct", str(loaded)):
        kinds: dict[int, Kind] = {0: "loaded", 8: "adapter"}
        for rank, kind in kinds.items():
            config = poad.Config.of(model=model, lora_rank=rank, device="cpu")
            assert config.kind == kind
            expected = {name: values[kind] for name, values in DEFAULTS.items()}
            assert chosen(config) == expected | {"dtype": "float32"}  # no GPU
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
    assert poad.Config.of(model="Qwen/Qwen3-8B").model.dtype == "bfloat16"
    for changes in ({"device": "cpu"}, {"mixed_precision": "bf16"}, {"model": "nano"}):
        assert poad.Config.of(**{"model": "Qwen/Qwen3-8B"} | changes).model.dtype == "float32"


def test_a_saved_new_model_is_still_one(nano: Path, loaded: Path, tmp_path: Path):
    assert kind_of(str(nano)) == kind_of(str(nano), 4) == "new"
    assert kind_of(str(tmp_path / "missing")) == kind_of(str(loaded)) == "loaded"
    for base, kind in ((nano, "new"), (loaded, "adapter")):
        folder = tmp_path / kind
        Policy.load(base, lora=LoraSettings(2)).save(folder)
        assert kind_of(str(folder)) == kind
    (tmp_path / "config.json").write_text("[1")
    assert kind_of(str(tmp_path)) == "loaded"


@settings(deadline=None, max_examples=30)
@some(
    st.fixed_dictionaries(
        {},
        optional={
            "lr": st.sampled_from([3e-4, 1e-6, 0.5]), "adam_eps": st.sampled_from([1e-5, 1e-8]),
            "dtype": st.just("float32"), "max_new_tokens": st.sampled_from([32, 256, 7]),
            "critic_lr": st.just(1e-3), "bc_lr": st.just(1e-3),
        },
    ),
    st.sampled_from(["nano", "Qwen/Qwen3-8B"]),
    st.sampled_from(["nano", "Qwen/Qwen3-8B"]),
)  # fmt: skip
def test_givensettings_win_and_the_others_follow_the_model(given: dict, first: str, then: str):
    config = poad.Config.of(model=first, **given).with_changes(model=then)
    assert config == poad.Config.of(model=then, **given)
    for name, value in given.items():
        assert config.values()[name] == value and name not in config.by_kind


def test_a_run_prints_and_records_its_defaults_and_resumes(loaded: Path, tmp_path: Path, capsys):
    few: dict[str, Any] = {
        "env_id": "NumberLine-v0", "model": str(loaded), "constrain": True, "context": "current",
        "episodes_per_iteration": 2, "eval_episodes": 0, "device": "cpu", "threads": 1,
        "run_dir": str(tmp_path / "run"), "iterations": 1,
    }  # fmt: skip
    train("poad", **few, lr=1e-5)
    shown = capsys.readouterr().out
    assert shown.startswith(f"poad on NumberLine-v0, model {loaded}, in {tmp_path / 'run'}\n")
    assert "Defaults for a loaded model: dtype float32, max_new_tokens 256, adam_eps 1e-08" in shown
    saved = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
    assert (saved["lr"], saved["adam_eps"], saved["max_new_tokens"]) == (1e-5, 1e-8, 256)
    few["iterations"] = 2
    train("poad", **few, lr=1e-5, adam_eps=1e-8, resume=True)
    with pytest.raises(CheckpointError, match="adam_eps: 1e-08 -> 1e-05"):
        train("poad", **few, lr=1e-5, adam_eps=1e-5, resume=True)


def test_optimiser_settings_that_cannot_work_are_refused():
    for changes, match in [
        ({"adam_betas": (0.9, 1.0)}, "adam_betas"),
        ({"adam_betas": (0.9,)}, "adam_betas"),
        ({"weight_decay": -0.1}, "weight_decay"),
        ({"bc_lr": -1e-3}, "bc_lr"),
        ({"lora_alpha": 0.0}, "lora_alpha"),
        ({"critic_layers": (16, 0)}, "critic_layers"),
        ({"adam_eps": -1.0}, "adam_eps"),
        ({"lr_warmup": -1}, "lr_warmup"),
        ({"model": "Qwen/Qwen3-8B", "dtype": "float16"}, "bfloat16"),
    ]:
        with pytest.raises(ConfigError, match=match):
            poad.Config.of(**changes)
