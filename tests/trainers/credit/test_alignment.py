"""Advantage alignment by hand, and its limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from agentgym.trainers.credit.alignment import AdvantageAlignment
from agentgym.trainers.credit.group import rloo
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Trajectory

from ...helpers.worlds import generators, random_batch
from .test_joint import agent


def episodes(rewards: np.ndarray) -> list[Trajectory]:
    """Simultaneous games with rewards [episode, agent, turn]."""
    return [
        agent("abc"[i], mine.tolist(), [*range(len(mine))], episode=e)
        for e, each in enumerate(rewards)
        for i, mine in enumerate(each)
    ]


@pytest.mark.parametrize("average", [True, False])
def test_the_advantages_of_others_count_as_much_as_the_own_past_was_good(average: bool):
    rewards = np.random.default_rng(0).normal(size=(3, 2, 3))
    beta, gamma = 0.7, 0.9
    returns = rewards.copy()
    for t in (1, 0):
        returns[:, :, t] += gamma * returns[:, :, t + 1]
    own = (returns - returns.mean(0)) * 3 / 2
    expected = own.copy()
    for t in range(3):
        past = sum(gamma ** (t - k) * own[:, :, k] for k in range(t))
        weight = gamma * past / (1 + t if average else 1)
        expected[:, :, t] += beta * weight * own[:, ::-1, t]
    batch = Batch.of(episodes(rewards))
    found = AdvantageAlignment(beta, gamma, average)(batch)
    assert found.advantages == pytest.approx(expected.reshape(-1), abs=1e-5)
    assert found.metrics["alignment"] > 0


@given(rng=generators)
@settings(deadline=None, max_examples=20)
def test_a_single_agent_learns_independently(rng: np.random.Generator):
    batch = random_batch(rng)
    one, two = (AdvantageAlignment(beta)(batch).advantages for beta in (0.0, 5.0))
    assert np.array_equal(one, two)
    single = random_batch(rng, max_turns=1)
    expected = rloo()(single).advantages
    assert np.allclose(AdvantageAlignment()(single).advantages, expected, atol=1e-5)


@given(rng=generators)
@settings(deadline=None, max_examples=40)
def test_in_alternating_turns_the_others_do_nothing(rng: np.random.Generator):
    """A game of alternating turns has the advantages of one in which all act at once."""
    agents, turns = int(rng.integers(2, 4)), int(rng.integers(3, 8))
    rewards = rng.normal(size=(3, agents, turns)) * rng.integers(0, 2, (3, agents, turns))
    found = AdvantageAlignment(0.7, 0.9)
    expected = found(Batch.of(episodes(rewards))).advantages.reshape(rewards.shape)
    alternating, kept = [], []
    for e, i in np.ndindex(3, agents):
        times = np.arange(i, turns, agents)
        # The reward of a step lasts to the next one. That before the first belongs to it.
        step = np.maximum(np.searchsorted(times, np.arange(turns), side="right") - 1, 0)
        sums = np.bincount(step, rewards[e, i], len(times))
        one = agent("abc"[i], sums.tolist(), times.tolist(), episode=e)
        for number, turn in enumerate(one.turns):
            apart = [t for t in range(turns) if step[t] == number and t != turn.clock]
            turn.delayed = tuple((t, r, "") for t in apart if (r := float(rewards[e, i, t])))
        alternating.append(one)
        kept.append(expected[e, i, times])
    credit = found(Batch.of(alternating))
    assert credit.advantages == pytest.approx(np.concatenate(kept), abs=1e-5)
    alone = AdvantageAlignment(0.0, 0.9)(Batch.of(alternating))
    assert credit.metrics["alignment"] > 0 or np.array_equal(credit.advantages, alone.advantages)


def test_a_good_past_rewards_what_is_good_for_the_other_and_a_bad_one_punishes_it():
    """The first turn is good for agent a in one pair of episodes and bad in the other."""
    rewards = np.zeros((4, 2, 2))
    rewards[:2, 0, 0], rewards[2:, 0, 0] = 1.0, -1.0
    rewards[::2, 1, 1] = 1.0  # b gains in the second turn of the first episode of each pair
    batch = Batch.of(episodes(rewards))
    found = AdvantageAlignment(1.0, 1.0)(batch).advantages.reshape(4, 2, 2)
    assert found[0, 0, 1] > 0 > found[1, 0, 1]
    assert found[2, 0, 1] < 0 < found[3, 0, 1]
