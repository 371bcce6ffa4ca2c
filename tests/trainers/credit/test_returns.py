"""Observed returns: the ones that a critic would know if it were perfect."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from agentgym.trainers.credit.group import grpo
from agentgym.trainers.credit.returns import observed_returns
from agentgym.trainers.credit.two_clock import TwoClockGAE, ntpo, poad, turn
from agentgym.trainers.data.batch import Batch, Values
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.run.metrics import error_of_values

from ...helpers.worlds import generators, random_batch, trajectory, values
from .estimators import every_estimator

NOISE = np.random.default_rng(0)
CRITICS = {
    name: estimator
    for name, estimator in every_estimator().items()
    if estimator(b := random_batch(NOISE, min_tokens=1), values(b, NOISE)).targets is not None
}


@pytest.mark.parametrize("name", CRITICS)
@given(rng=generators)
def test_a_critic_that_knows_them_has_no_advantages_and_no_error(name, rng):
    batch = random_batch(rng, trajectories=6, min_tokens=1)
    returns = observed_returns(CRITICS[name], batch)
    assert returns is not None
    per_token = len(returns) == batch.num_tokens
    firsts = batch.token_offsets[:-1]
    known = Values(
        tokens=returns if per_token else np.repeat(returns, np.diff(batch.token_offsets)),
        turns=returns[firsts] if per_token else returns,
        bootstrap=np.zeros(len(batch.trajectories), np.float32),
    )
    credit = CRITICS[name](batch, known)
    assert credit.targets is not None
    assert np.allclose(credit.targets, returns, atol=1e-4)
    assert np.allclose(credit.advantages, 0.0, atol=1e-4)


@pytest.mark.parametrize("name", CRITICS)
@settings(deadline=None, max_examples=10)
@given(rng=generators)
def test_values_that_equal_them_in_every_state_have_no_error(name, rng):
    """With its discounts, and in a game with the rewards of all agents that it counts."""
    lengths, rewards = rng.integers(1, 9, 3).tolist(), rng.normal(size=(2, 3))
    batch = Batch.of(
        [
            seated(trajectory(lengths, own.tolist(), agent=agent), number, place)
            for number in range(2)  # of equal episodes
            for place, (agent, own) in enumerate(zip("xy", rewards, strict=True))
        ]
    )
    returns = observed_returns(CRITICS[name], batch)
    assert returns is not None
    per_token = len(returns) == batch.num_tokens != batch.num_turns
    known = Values(
        tokens=returns if per_token else None,
        turns=returns[batch.token_offsets[:-1]] if per_token else returns,
        bootstrap=np.zeros(4, np.float32),
    )
    assert error_of_values(known, returns, batch) == pytest.approx(0.0, abs=1e-6)


def seated(each: Trajectory, number: int, place: int) -> Trajectory:
    """An agent that acts in turns of a game, after those before it."""
    for n, action in enumerate(each.turns):
        action.order, action.clock = 2 * n + place, n
    return replace(each, episode=(number,))


def test_they_are_discounted_per_turn_and_per_token():
    batch = Batch.of([trajectory([1, 2], [1.0, 8.0])])
    gae = TwoClockGAE(0.5, 0.3, 0.25, 0.3)
    assert observed_returns(gae, batch) == pytest.approx([1 + 0.25 * 4, 4, 8])
    assert observed_returns(turn(0.25, 0.3), batch) == pytest.approx([1 + 0.25 * 8, 8])


def test_nothing_is_added_after_a_truncation():
    cut, won = trajectory([1, 1], [0.5, 0.0], terminated=False), trajectory([1], [1.0])
    assert observed_returns(poad(1.0), Batch.of([cut, won])) == pytest.approx([0.5, 0.0, 1.0])


@pytest.mark.parametrize("reward", [0.0, 1.0, 0.1])
@pytest.mark.parametrize("estimator", [poad(), ntpo(), turn()])
def test_equal_rewards_at_the_end_leave_nothing_to_explain(estimator, reward: float):
    """Discounts alone make a difference between long and short episodes."""
    lengths = ([2], [1, 3], [1, 1, 4])
    some = [trajectory(each, [0.0] * (len(each) - 1) + [reward]) for each in lengths]
    assert observed_returns(estimator, Batch.of(some)) is None
    some.append(trajectory([2], [reward + 1]))
    assert observed_returns(estimator, Batch.of(some)) is not None


def test_without_a_discounted_difference_there_is_nothing_to_explain():
    batch = Batch.of([trajectory([1, 1], [1.0, 1.0])])
    assert observed_returns(turn(0.0), batch) is None
    assert observed_returns(turn(0.5), batch) is not None


def test_a_function_or_an_estimator_without_targets_has_none():
    batch = random_batch(NOISE, min_tokens=1)
    assert observed_returns(grpo(), batch) is None
    assert observed_returns(lambda batch, _: turn()(batch, values(batch, NOISE)), batch) is None
