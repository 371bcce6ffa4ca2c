# A None where an array is needed is a failing test.
# pyright: reportOptionalMemberAccess=false, reportOptionalSubscript=false
# pyright: reportArgumentType=false, reportCallIssue=false
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from agentgym.trainers.credit.turn_rewards import (
    StepBaseline,
    attribute_progress,
    implicit_process_rewards,
    monte_carlo_values,
    value_gains,
)
from agentgym.trainers.data.batch import Batch

from ...helpers.worlds import generators, random_batch, trajectory


@given(generators)
def test_attributed_progress_adds_up_to_the_return(rng):
    batch = random_batch(rng)
    shaped = attribute_progress(batch, rng.normal(size=batch.num_turns))
    totals = np.add.reduceat(shaped.rewards, batch.turn_offsets[:-1])
    assert np.allclose(totals, [t.episode_return for t in batch.trajectories])
    assert shaped.trajectories is batch.trajectories


def test_golden_progress():
    batch = Batch.of([trajectory([1, 1], [0.0, 1.0])])
    assert attribute_progress(batch, [0.2, 0.4]).rewards.tolist() == pytest.approx([0.2, 0.8])
    valid = attribute_progress(batch, [0.2, 0.4], valid_bonus=0.5)
    assert valid.rewards.tolist() == pytest.approx([0.7, 1.3])


def test_golden_implicit_rewards():
    batch = Batch.of([trajectory([2, 0, 1], [9, 9, 9])])  # behaviour log-probabilities are -1
    shaped = implicit_process_rewards(batch, [-0.5, -2.0, 0.0], beta=0.1)
    assert np.allclose(shaped.rewards, [-0.05, 0.0, 0.1])


def test_golden_step_baseline():
    batch = Batch.of([trajectory([1, 1], [0.0, 1.0]), trajectory([1], [0.0])])
    process = batch.with_rewards([0.3, 0.6, 0.0])
    advantages = StepBaseline(omega=2.0)(process).advantages
    assert np.allclose(advantages, [1 + 2 * 0.0, 1 + 2 * 0.45, -1 - 2 * 0.45])


def test_step_baseline_divides_by_standard_deviations_and_compares_successes():
    played = [trajectory([1, 1], [0.0, 3.0]), trajectory([1], [2.0], success=True)]
    process = Batch.of(played).with_rewards([0.3, 0.6, 0.0])
    episode, step = [1, 1, -1], [0.0, 0.45, -0.45]
    plain = StepBaseline()(process).advantages
    assert np.allclose(plain, np.add(episode, step))
    scaled = StepBaseline(scale=True)(process).advantages
    std = np.std([3.0, 2.0], ddof=1), np.std([0.3, 0.6, 0.0], ddof=1)
    assert np.allclose(scaled, np.divide(episode, std[0]) + np.divide(step, std[1]), atol=1e-4)
    solved = StepBaseline(outcome="success")(process).advantages
    assert np.allclose(solved, np.subtract(step, episode))


def test_golden_monte_carlo_values():
    batch = Batch.of(
        [
            trajectory([1, 1], [0, 1], keys=["s", "x"], actions=["go", "take"]),
            trajectory([1, 1, 1], [0, 0, 1], keys=["s", "s", "x"], actions=["wait", "go", "take"]),
            trajectory([1], [0], keys=["s"], actions=["go"], task="another"),
        ]
    )
    q = monte_carlo_values(batch, gamma=0.5)
    # (s, go): one turn before the end both times; (x, take): at the end; (s, wait): two before.
    assert q.tolist() == [0.5, 1.0, 0.25, 0.5, 1.0, 0.0]


def test_golden_value_gains():
    # One group of two: both first states are worth (0.4 + 0.8) / 2; a later state Q_{t-1} / gamma.
    batch = Batch.of([trajectory([1, 1], [0, 1]), trajectory([1], [0])])
    gains = value_gains(batch, [0.4, 1.0, 0.8], gamma=0.5)
    assert gains.tolist() == pytest.approx([-0.2, 1.0 - 0.8, 0.2])
    with pytest.raises(ValueError, match="gamma"):
        value_gains(batch, [0.4, 1.0, 0.8], gamma=0.0)


def test_gains_of_exact_values_are_advantages():
    # After "left" every second episode succeeds, after "right" none does.
    batch = Batch.of(
        [
            trajectory([1, 1], [0, r], keys=["s", said], actions=[said, "wait"])
            for said, r in [("left", 1), ("left", 0), ("right", 0), ("right", 0)]
        ]
    )
    gains = value_gains(batch, monte_carlo_values(batch, 1.0), 1.0)
    assert gains.tolist() == pytest.approx([0.25, 0, 0.25, 0, -0.25, 0, -0.25, 0])


def test_mistakes_are_named():
    batch = Batch.of([trajectory([1, 1], [0, 1], terminated=False)])
    with pytest.raises(ValueError, match="2 rewards"):
        batch.with_rewards([1.0])
    with pytest.raises(ValueError, match="2 contributions"):
        attribute_progress(batch, [1.0])
