"""Recipes of state graphs in runs: warnings, the expert's distances, and a resumed run."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentgym.trainers import train
from agentgym.trainers.run.logger import read_metrics

from .test_recipes import train_quickly, whole_and_resumed

LAKE: dict[str, Any] = {
    "model": "nano", "context": "current", "instructions": False, "constrain": True,
    "iterations": 1, "episodes_per_iteration": 16, "group_size": 8, "num_envs": 16, "epochs": 1,
    "minibatches": 1, "eval_episodes": 0, "log_with": (), "transcripts": 0, "device": "cpu",
    "threads": 1,
}  # fmt: skip


@pytest.mark.usefixtures("without_files")
@pytest.mark.parametrize(("slippery", "warned"), [(True, 1), (False, 0)])
def test_chance_is_reported_once(
    slippery: bool, warned: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    settings = LAKE | {"iterations": 2, "env_kwargs": {"slippery": slippery}}
    train("graphgpo", env_id="FrozenLake-v0", **settings, run_dir=str(tmp_path))
    assert capsys.readouterr().out.count("may then be a gamble") == warned
    [*_, row] = read_metrics(tmp_path)
    assert (row["credit/graph/forked"] > 0) == slippery


@pytest.mark.usefixtures("without_files")
def test_the_expert_tells_more_turns_apart_than_the_graph_and_its_steps_count(tmp_path: Path):
    seldom: dict[str, Any] = {"env_kwargs": {"size": 16, "max_turns": 10}, "seed": 11}
    rows = {}
    for distance in ("graph", "expert"):
        folder = tmp_path / distance
        few: dict[str, Any] = {"iterations": 1, "bc_demonstrations": 0, **seldom}
        rows[distance] = train_quickly("graphgpo", folder, distance=distance, **few)[-1]
    alone, helped = rows["graph"], rows["expert"]
    assert alone["rollout/success"] == helped["rollout/success"]
    assert helped["credit/anchor/all_equal"] < alone["credit/anchor/all_equal"]
    assert helped["env_steps"] > alone["env_steps"]


@pytest.mark.slow
@pytest.mark.usefixtures("without_files")
@pytest.mark.parametrize("distance", ["graph", "expert"])
def test_a_resumed_run_repeats_the_rest(distance: str, tmp_path: Path):
    run = partial(train_quickly, "graphgpo", distance=distance)
    whole, resumed = whole_and_resumed(tmp_path, run, 3, at=1)
    assert whole == resumed
