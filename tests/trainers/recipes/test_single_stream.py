"""Single-stream: a running estimate of each task's success rate as its baseline."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trainers import train
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.recipes.single_stream import Counts, TaskBaselines
from agentgym.trainers.run.logger import read_metrics
from agentgym.trainers.update.learner import ForwardPass

from ...helpers.worlds import trajectory

RNG = np.random.default_rng(0)


def baselines(moved: float = 0.0) -> TaskBaselines:
    """The hooks of a run whose policy moves by so many nats per token between two episodes."""

    def evaluate_actions(batch: Batch, reference: bool) -> ForwardPass:
        return ForwardPass(batch.logprobs - np.float32(moved))

    updater: Any = SimpleNamespace(evaluate_actions=evaluate_actions)
    return TaskBaselines(SimpleNamespace(updater=updater), {})  # type: ignore[arg-type]


def episode(reward: float, task: str = "a") -> Trajectory:
    return trajectory([2, 1], [0.0, reward], task=task)


def test_golden_estimates():
    """arXiv 2509.13232, from counts of 4 and 4: drift and outcome, advantage, next estimate."""
    counts, found = Counts(4.0, 4.0), []
    for moved, outcome in ((0.0, 1.0), (0.03, 1.0), (0.06, 0.0)):
        advantage = outcome - counts.mean
        counts = counts.after(outcome, moved)
        found.append((advantage, counts.mean))
    golden = [(0.5, 0.5576), (0.4424, 0.6091), (-0.6091, 0.5376)]
    assert np.allclose(found, golden, atol=5e-5)


def test_a_new_task_starts_at_the_mean_of_the_others():
    hooks = baselines()
    first = hooks.on_rollout_end([episode(1.0, "a")], 0, RNG)
    second = hooks.on_rollout_end([episode(1.0, "b")], 1, RNG)
    assert first.weights is not None and second.weights is not None
    assert np.allclose(first.weights, 1 - 0.5)
    assert np.allclose(second.weights, 1 - 0.75)  # (1 + .5) / 2


@pytest.mark.parametrize(("moved", "kept"), [(0.0, 0.96), (0.006, 2**-0.1), (1.0, 0.875)])
def test_what_is_kept_depends_on_how_far_the_policy_has_moved(moved: float, kept: float):
    hooks = baselines(moved)
    hooks.on_rollout_end([episode(1.0)], 0, RNG)
    before = hooks.counts[next(iter(hooks.counts))]
    hooks.on_rollout_end([episode(0.0)], 1, RNG)
    [after] = hooks.counts.values()
    assert after == pytest.approx((kept * before.wins, kept * before.losses + 1))
    assert hooks.metrics == {"seen_tasks": 1.0, "moved": pytest.approx(moved, abs=1e-6)}


outcomes = st.lists(
    st.tuples(st.sampled_from("abc"), st.floats(-1, 2, allow_nan=False)), min_size=1, max_size=8
)


@given(first=outcomes, second=outcomes, place=st.integers(0, 7), other=st.floats(-1, 2))
def test_a_baseline_does_not_depend_on_its_own_episode(
    first: list[tuple[str, float]],
    second: list[tuple[str, float]],
    place: int,
    other: float,
):
    """It is unbiased, and an estimate of a success rate whatever the returns are."""

    def subtracted(changed: list[tuple[str, float]]) -> np.ndarray:
        hooks = baselines(0.01)
        hooks.on_rollout_end([episode(reward, task) for task, reward in first], 0, RNG)
        learn = hooks.on_rollout_end([episode(reward, task) for task, reward in changed], 1, RNG)
        return np.array([reward for _, reward in changed]) - np.asarray(learn.weights)[::2]

    place %= len(second)
    changed = [*second]
    changed[place] = second[place][0], other
    one, two = subtracted(second), subtracted(changed)
    assert np.allclose(one[: place + 1], two[: place + 1])
    assert ((one >= 0) & (one <= 1)).all()


def test_agents_with_the_same_role_in_a_game_are_no_baseline_of_each_other():
    """Their game counts once in the estimate of its task, and once in that of all tasks."""
    hooks, other = baselines(), baselines()
    pair = [replace(episode(1.0), agent=name, role="villager", episode=(0,)) for name in "ab"]
    learn = hooks.on_rollout_end(pair, 0, RNG)
    other.on_rollout_end(pair[:1], 0, RNG)
    assert learn.weights is not None and np.allclose(learn.weights, 0.5)
    assert hooks.counts == other.counts
    unseen = [replace(episode(1.0, "b"), role="villager")]
    one, two = (each.on_rollout_end(unseen, 1, RNG).weights for each in (hooks, other))
    assert one is not None and two is not None and np.array_equal(one, two)


def test_a_run_that_is_resumed_goes_on_exactly(tmp_path: Path):
    settings: dict[str, Any] = {
        "env_id": "NumberLine-v0", "env_kwargs": {"size": 6, "max_turns": 6}, "model": "nano",
        "context": "current", "instructions": False, "constrain": True, "eval_episodes": 0,
        "episodes_per_iteration": 8, "train_tasks": 6, "device": "cpu", "threads": 1,
        "quiet": True, "log_with": (), "transcripts": 0,
    }  # fmt: skip
    run = partial(train, "single_stream", **settings)
    run(run_dir=str(tmp_path / "whole"), iterations=3)
    run(run_dir=str(tmp_path / "parts"), iterations=2)
    run(run_dir=str(tmp_path / "parts"), iterations=3, resume=True)
    whole, parts = (
        [{k: v for k, v in row.items() if not k.startswith("time/")} for row in read_metrics(each)]
        for each in (tmp_path / "whole", tmp_path / "parts")
    )
    assert whole == parts
    assert whole[-1]["credit/seen_tasks"] > 0 < whole[-1]["credit/moved"]
