"""Recipes that learn from searches: their data, beyond the tests that all recipes share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym.agents import SearchAgent, View
from agentgym.errors import ConfigError
from agentgym.trainers.api import make_trainer
from agentgym.trainers.recipes import load
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.trajectory import Batch


def trained(recipe: str, folder: Path, **changes: Any) -> Any:
    """Returns a trainer after an iteration of few episodes."""
    trainer = make_trainer(
        recipe, env_id="NumberLine-v0", env_kwargs={"size": 6, "max_turns": 8}, model="nano",
        context="current", instructions=False, constrain=True, iterations=1, eval_episodes=0,
        episodes_per_iteration=4, threads=1, device="cpu", quiet=True, log_with=(), transcripts=0,
        bc_demonstrations=0, run_dir=str(folder), **changes,
    )  # fmt: skip
    trainer.run()
    return trainer


def test_exit_imitates_the_search_from_the_policys_own_states(tmp_path: Path):
    trainer = trained("exit", tmp_path, teacher="search:best_first,budget=40", guided=True)
    hooks = trainer.hooks
    assert isinstance(hooks.teacher, SearchAgent)
    assert hooks.teacher.settings.policy.policy is trainer.policy
    own = trainer.play([EpisodeSpec(f"train/{i}", i, (1, i)) for i in range(6)])
    taught = hooks.on_rollout_end(own, 5, np.random.default_rng(0))
    assert len(taught) == 6 and all(each.success for each in taught)
    weights = hooks.credit(Batch.of(taught), None, 5, np.random.default_rng(0)).advantages
    batch, steps = Batch.of(taught), 0
    for number, (before, after) in enumerate(zip(own, taught, strict=True)):
        turn = after.extras["taught_from"]
        assert (before.task, before.seed) == (after.task, after.seed)
        acted = [each.action for each in before.turns]
        assert [each.action for each in after.turns[:turn]] == acted[:turn]
        assert after.turns[turn].observation == before.turns[turn].observation
        mine = weights[batch.turn_trajectory[batch.token_turn] == number]
        assert set(mine) <= {0.0, 1.0} and mine[-1] == 1 and (mine[0] == 0) == (turn > 0)
        steps += len(after.turns) - turn + after.extras["costs"]["search_steps"]
    assert hooks.env_steps == steps
    assert any(each.extras["taught_from"] for each in taught)


def test_exit_learns_nothing_from_a_teacher_that_fails(tmp_path: Path):
    class Lost:
        name = "lost"

        def act(self, views: Sequence[View]) -> list[str]:
            return ["?"] * len(views)

    trainer = trained("exit", tmp_path, teacher="random")
    hooks = trainer.hooks
    hooks.teacher = Lost()
    own = trainer.play([EpisodeSpec(f"train/{i}", i, (1, i)) for i in range(3)])
    taught = hooks.on_rollout_end(own, 5, np.random.default_rng(0))
    assert taught == own[:1] and hooks.metrics["imitated"] == 0
    weights = hooks.credit(Batch.of(taught), None, 5, np.random.default_rng(0)).advantages
    assert not weights.any()


def test_a_teacher_that_cannot_be_made_is_explained(tmp_path: Path):
    with pytest.raises(ConfigError, match="Unknown search 'mtcs'"):
        trained("exit", tmp_path, teacher="search:mtcs")
    assert load("exit").Config().teacher == "search:mcts,budget=64"
