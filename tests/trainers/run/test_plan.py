"""The first lines of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentgym.trainers.recipes import grpo
from agentgym.trainers.run.plan import plan
from agentgym.trainers.trainer import Trainer

from ...helpers.echo import Echo


@pytest.mark.parametrize(("kind", "packs"), [("llama", True), ("mistral", False)])
def test_the_plan_says_that_rows_do_not_pack(
    make_policy: Any, kind: str, packs: bool, tmp_path: Path
):
    make_policy(kind).save(tmp_path / "model")
    config = grpo.Config.of(
        env_id="NumberLine-v0", model=str(tmp_path / "model"), max_new_tokens=4, iterations=0,
        eval_episodes=0, device="cpu", quiet=True, run_dir=str(tmp_path / "run"),
    )  # fmt: skip
    trainer = Trainer("grpo", config, grpo.build(config))
    trainer.run()
    assert ("do not pack" in plan(trainer)) != packs


@pytest.mark.parametrize(("iterations", "words"), [(0, "0 iterations of"), (1, "1 iteration of")])
def test_the_plan_counts_iterations(iterations: int, words: str, tmp_path: Path):
    config = grpo.Config.of(
        env_id="NumberLine-v0", model="nano", max_new_tokens=4, iterations=iterations,
        episodes_per_iteration=8, eval_episodes=0, device="cpu", quiet=True,
        run_dir=str(tmp_path / "run"),
    )  # fmt: skip
    trainer = Trainer("grpo", config, grpo.build(config))
    trainer.run()
    assert f"Plan: {words} 8 episodes" in plan(trainer)


@pytest.mark.parametrize(
    ("changes", "says"),
    [({}, True), ({"iterations": 0}, False), ({"bc_demonstrations": 1, "bc_epochs": 1}, False)],
)
def test_a_model_with_random_weights_is_named_unless_it_clones(
    changes: dict[str, Any], says: bool, tmp_path: Path, capsys: Any
):
    config = grpo.Config.of(
        **{
            "env_id": "NumberLine-v0", "model": "nano", "max_new_tokens": 4, "iterations": 1,
            "episodes_per_iteration": 8, "eval_episodes": 0, "device": "cpu",
            "run_dir": str(tmp_path / "run"),
        } | changes
    )  # fmt: skip
    Trainer("grpo", config, grpo.build(config)).run()
    assert ("random weights" in capsys.readouterr().out) == says


@pytest.mark.parametrize("env", [None, Echo])
def test_the_expert_is_suggested_only_where_there_is_one(env: Any, tmp_path: Path, capsys: Any):
    config = grpo.Config.of(
        model="nano", max_new_tokens=4, iterations=1, episodes_per_iteration=8, eval_episodes=0,
        horizons=(2,), device="cpu", run_dir=str(tmp_path / "run"),
    )  # fmt: skip
    Trainer("grpo", config, grpo.build(config), env=env).run()
    shown = " ".join(capsys.readouterr().out.split())
    assert "random weights" in shown
    assert ("--bc-demonstrations" in shown) == (env is None)
    assert ("--data FILE" in shown) == (env is Echo)
