"""Planted credit gets the expected row of the table."""

from __future__ import annotations

import numpy as np
import pytest

from agentgym.trainers.audit.measures import (
    Exact,
    Floats,
    advantages,
    correlation,
    critic_error,
    quality,
    ranks,
    steps,
)

EPISODES, TURNS, CONTINUATIONS = 200, 6, 64


@pytest.fixture(scope="module")
def exact() -> Exact:
    """Episodes in which one turn decides, and the others do not matter."""
    rng = np.random.default_rng(0)
    values = np.zeros((EPISODES, TURNS))
    success = rng.random(EPISODES) < 0.5
    for number in range(EPISODES):
        decisive = rng.integers(TURNS - 1)
        values[number, : decisive + 1] = 0.5
        values[number, decisive + 1 :] = 0.95 if success[number] else 0.05
    rewards = np.zeros((EPISODES, TURNS))
    rewards[:, -1] = values[:, -1]  # the last turn does as expected
    returns = rng.random((EPISODES * TURNS, CONTINUATIONS)) < values.reshape(-1, 1)
    episodes = np.repeat(np.arange(EPISODES), TURNS)
    found = advantages(rewards.ravel(), returns.astype(float), episodes, 1.0)
    return Exact(*found, episodes, np.repeat(success, TURNS))


def uniform(exact: Exact) -> Floats:
    """The same credit for all turns of an episode, by its success."""
    return np.where(exact.success, 1.0, -1.0)


def shifted(exact: Exact) -> Floats:
    """The credit of the turn before, in each episode."""
    moved = np.roll(exact.advantages.reshape(EPISODES, TURNS), 1, axis=1)
    return moved.ravel()


def test_exact_credit_has_no_errors(exact: Exact):
    found = quality(exact.advantages, exact)
    assert (found.sign_errors, found.place, found.first) == (0, 0, 1)
    assert found.correlation == pytest.approx(1) and found.ranks == pytest.approx(1)


def test_a_little_noise_changes_little(exact: Exact):
    noise = np.random.default_rng(1).normal(0, 0.02, len(exact.advantages))
    found = quality(exact.advantages + noise, exact)
    assert found.sign_errors < 0.02 and found.place < 0.02 and found.correlation > 0.95


def test_credit_of_the_other_sign_is_always_wrong(exact: Exact):
    found = quality(-exact.advantages, exact)
    assert (found.sign_errors, found.place, found.first) == (1, 1, 0)
    assert found.correlation == pytest.approx(-1)


def test_credit_per_episode_is_exactly_at_chance_and_spread_evenly(exact: Exact):
    found, contributions = quality(uniform(exact), exact), steps(exact)
    assert found.place == 0.5
    assert found.first == pytest.approx(contributions.chance) == pytest.approx(1 / TURNS)
    assert found.moot_credit == pytest.approx(contributions.moot)


def test_credit_of_the_turn_before_misses_the_decisive_turn(exact: Exact):
    found = quality(shifted(exact), exact)
    assert found.place > 0.3 and found.first < 0.2 and 0.2 < found.sign_errors < 0.8
    assert found.moot_credit > quality(exact.advantages, exact).moot_credit + 0.3


def test_no_credit_is_a_sign_error_without_correlation(exact: Exact):
    found = quality(np.zeros(len(exact.advantages)), exact)
    assert found.sign_errors == 1 and np.isnan(found.correlation) and np.isnan(found.moot_credit)


def test_most_turns_of_these_episodes_do_not_matter(exact: Exact):
    found = steps(exact)
    assert found.decided > 0.95 * EPISODES and found.moot > 0.7
    assert found.useful_in_failures < 0.05 and 0.7 < found.useless_in_successes < 0.9


def test_values_end_with_the_episode_and_are_discounted():
    returns = np.array([[1.0, 1.0], [0.5, 0.5], [0.2, 0.4]])
    found, errors = advantages(np.array([0.0, 1.0, 0.3]), returns, np.array([0, 0, 1]), 0.5)
    assert found.tolist() == pytest.approx([0.25 - 1.0, 1.0 - 0.5, 0.3 - 0.3])
    assert errors.tolist() == pytest.approx([0, 0, 0.1])


def test_equal_values_share_their_rank():
    assert ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist() == [3.5, 1, 3.5, 2]
    assert np.isnan(correlation(np.ones(3), np.arange(3.0)))


def test_a_perfect_critic_has_no_error_and_a_constant_one_explains_nothing():
    values = np.array([0.0, 0.5, 1.0])
    assert (critic_error(values, values).absolute, critic_error(values, values).explained) == (0, 1)
    constant = critic_error(np.full(3, 0.5), values)
    assert constant.absolute == pytest.approx(1 / 3) and constant.explained == pytest.approx(0)
