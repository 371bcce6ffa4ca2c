"""Episodes of `chunk` that begin at a chunk within a success of their group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym.errors import ConfigError
from agentgym.trainers import make_trainer
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.recipes import chunk
from agentgym.trainers.recipes.chunk import Resampling
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.trainer import Trainer

SETTINGS: dict[str, Any] = {
    "env_id": "NumberLine-v0", "env_kwargs": {"size": 6, "max_turns": 8}, "model": "nano",
    "context": "current", "instructions": False, "constrain": True, "iterations": 0,
    "group_size": 8, "eval_episodes": 0, "device": "cpu", "threads": 1, "quiet": True,
    "log_with": (), "resampled": 3,
}  # fmt: skip


def made(folder: Path, **changes: Any) -> Trainer:
    config = chunk.Config.of(**SETTINGS | changes, run_dir=str(folder))
    trainer = Trainer("chunk", config, chunk.build(config))
    trainer.run()  # makes the hooks
    return trainer


def groups_of(trainer: Trainer) -> list[Trajectory]:
    """Eight groups of eight episodes of a random policy."""
    return trainer.play([EpisodeSpec(f"train/{i // 8}", i // 8, (0, i)) for i in range(64)])


@pytest.mark.parametrize(("end", "size"), [("size", 2), ("valid", 9)])
def test_more_episodes_begin_at_chunks_within_successes(tmp_path: Path, end: str, size: int):
    trainer = made(tmp_path, chunk_end=end, chunk_size=size)
    hooks, fresh = trainer.hooks, groups_of(trainer)
    assert isinstance(hooks, Resampling)
    for each in fresh:
        for turn in each.turns[::2]:
            turn.valid = False  # so that chunks by meaning have two turns
    found = [*hooks.on_rollout_end(fresh, 0, np.random.default_rng(0)).trajectories]
    assert found[: len(fresh)] == fresh
    added = found[len(fresh) :]
    by_group: dict[Any, list[Trajectory]] = {}
    for each in fresh:
        by_group.setdefault(each.group, []).append(each)
    mixed = [
        group
        for group, members in by_group.items()
        if 0 < sum(each.success for each in members) < len(members)
        and any(each.success and len(each.turns) > 2 for each in members)
    ]
    assert len(mixed) > 1
    assert [each.group for each in added] == [group for group in mixed for _ in range(3)]
    assert hooks.metrics["resampled"] == len(added)
    for each in added:
        taken = [turn.weight for turn in each.turns].count(0.0)
        assert taken and taken % 2 == 0
        assert [turn.weight for turn in each.turns] == [0.0] * taken + [1.0] * (
            len(each.turns) - taken
        )
        actions = [turn.action for turn in each.turns[:taken]]
        assert any(
            won.success and [turn.action for turn in won.turns[:taken]] == actions
            for won in by_group[each.group]
        )
    assert all(turn.weight == 1 for each in fresh for turn in each.turns)


def test_groups_of_equal_outcomes_have_no_more_episodes(tmp_path: Path):
    trainer = made(tmp_path)
    hooks, fresh = trainer.hooks, groups_of(trainer)
    for success in (False, True):
        for each in fresh:
            each.success = success
        assert hooks is not None
        found = hooks.on_rollout_end(fresh, 0, np.random.default_rng(0)).trajectories
        assert list(found) == fresh and hooks.metrics == {"resampled": 0.0}


def test_it_needs_groups_and_one_agent(tmp_path: Path):
    with pytest.raises(ConfigError, match="group_size"):
        chunk.Config.of(**SETTINGS | {"group_size": 1})
    game = {"env_id": "StagHunt-v0", "env_kwargs": {}, "opponents": "mirror"}
    with pytest.raises(ConfigError, match=r"seats|agent|opponents"):
        make_trainer("chunk", **SETTINGS | game, run_dir=str(tmp_path)).run()
