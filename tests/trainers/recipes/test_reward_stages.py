"""Rewards in stages: demonstrations, graded actions, and whole tasks, each run after the last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentgym.trainers import train
from agentgym.trainers.run.logger import read_metrics

NOTHING: dict[str, Any] = {"bc_demonstrations": 0, "iterations": 2, "episodes_per_iteration": 64}
SHARED: dict[str, Any] = {
    "env_id": "NumberLine-v0", "env_kwargs": {"size": 5, "max_turns": 6}, "context": "current",
    "instructions": False, "eval_episodes": 64, "eval_every": 0, "max_new_tokens": 24,
    "device": "cpu", "threads": 1, "quiet": True, "log_with": (), "seed": 1,
}  # fmt: skip


@pytest.mark.slow
def test_stages_go_from_the_format_to_actions_to_tasks(tmp_path: Path):
    form = "ExtractAction:format=tags"
    start = train(
        "bc", **SHARED, model="nano", wrap=(form,), dataset_demonstrations=64, dataset_episodes=0,
        iterations=20, lr=3e-3, run_dir=str(tmp_path / "format"),
    )  # fmt: skip
    wrap = ("RewardFunction:function=expert", "ExpertStart", f"{form},format_reward=0.1")
    graded = train(
        "turn", **SHARED | NOTHING, model=str(tmp_path / "format/policy"), gamma=0.0,
        lambda_turn=0.0, wrap=wrap, lr=1e-3, run_dir=str(tmp_path / "action"),
    )  # fmt: skip
    whole = train(
        "grpo", **SHARED | NOTHING, model=str(tmp_path / "action/policy"), group_size=8,
        wrap=(form,), lr=1e-3, run_dir=str(tmp_path / "task"),
    )  # fmt: skip
    assert all(reports for reports in (start, graded, whole))
    grades = [row for row in read_metrics(tmp_path / "action") if "rollout/turns" in row]
    found = {name: value for row in grades for name, value in row.items() if "custom" in name}
    assert found and all(value > 0 for value in found.values()), sorted(grades[0])
    assert not any("custom" in name for row in read_metrics(tmp_path / "task") for name in row)
