from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given

from agentgym.trainers.credit.bilevel import BilevelGAE
from agentgym.trainers.credit.chunk import ChunkGAE
from agentgym.trainers.credit.normalize import reliability
from agentgym.trainers.credit.two_clock import TwoClockGAE, ntpo, poad, turn
from agentgym.trainers.data.batch import Batch, Credit, Values

from ...helpers.worlds import generators, random_batch, trajectory, values

CRITICS = [poad(), ntpo(), turn(), TwoClockGAE(0.9, 0.8, 0.7, 0.6), BilevelGAE(), ChunkGAE(2)]


def trust(credit: Credit, batch: Batch) -> float:
    assert credit.returns is not None
    return reliability(credit.advantages, credit.returns, batch)


@pytest.mark.parametrize("estimator", CRITICS)
@given(rng=generators)
def test_a_noisy_critic_of_equal_episodes_is_not_reliable(estimator, rng):
    batch = Batch.of([trajectory([2, 3, 1], [0, 0.5, 1])] * 4)
    credit = estimator(batch, values(batch, rng))
    assert credit.advantages.std() > 0
    assert trust(credit, batch) < 1e-6


@pytest.mark.parametrize("estimator", CRITICS)
@given(rng=generators)
def test_it_is_a_fraction_that_units_do_not_change(estimator, rng):
    batch = random_batch(rng, trajectories=8, min_tokens=1)
    critic = values(batch, rng)
    found = trust(estimator(batch, critic), batch)
    assert 0 <= found <= 1
    assert critic.tokens is not None
    large = (100 * x for x in (critic.tokens, critic.turns, critic.bootstrap))
    scaled = Values(*(x.astype(np.float32) for x in large))
    again = estimator(batch.with_rewards(batch.rewards * 100), scaled)
    assert np.isclose(found, trust(again, batch), rtol=1e-4)


def coin(values_of: float) -> tuple[Batch, Values]:
    """Episodes of one turn and one token that succeed half of the time, with a constant critic."""
    batch = Batch.of([trajectory([1], [won]) for won in (0, 1) * 50])
    same = np.full(100, values_of, np.float32)
    return batch, Values(same, same, same)


def test_exact_values_are_reliable():
    assert trust(poad()(*coin(0.5)), coin(0.5)[0]) == 1
    # Normalisation subtracts a constant error.
    assert trust(poad()(*coin(3.0)), coin(3.0)[0]) == 1


@pytest.mark.parametrize("end", ["size", "valid"])
def test_exact_values_of_chunks_are_reliable(end: Literal["size", "valid"]):
    """The last turn of a chunk has the advantage of its first, which luck decides."""
    some = [trajectory([1, 1], [won, 0.0]) for won in (0.0, 1.0) * 50]
    for each in some:
        each.turns[0].valid = False
    batch, expected = Batch.of(some), np.tile([0.5, 0.0], 100).astype(np.float32)
    critic = Values(None, expected, np.zeros(100, np.float32))
    assert trust(ChunkGAE(2, 1.0, 1.0, end)(batch, critic), batch) == 1


@pytest.mark.parametrize("reward", [0.0, 0.1, -3.0])
def test_equal_advantages_of_equal_episodes_are_not_reliable(reward: float):
    """A full step would be that of the value loss alone."""
    batch = Batch.of([trajectory([2, 1], [reward, reward])] * 3)
    same = np.full(9, 0.7, np.float32)
    critic = Values(same, same[:6], same[:3])
    for estimator in (turn(1.0, 1.0), poad(1.0)):
        assert trust(estimator(batch, critic), batch) == 0


def test_it_falls_with_the_error_of_the_critic():
    batch, critic = coin(0.5)
    rng = np.random.default_rng(0)
    found = []
    for error in (0.1, 1.0, 10.0):
        noise = (error * rng.normal(size=100)).astype(np.float32)
        noisy = Values(critic.turns + noise, critic.turns + noise, critic.bootstrap)
        found.append(trust(poad()(batch, noisy), batch))
    # Two spreads that are independent: 0.5 / sqrt(0.25 + error^2).
    assert np.allclose(found, [0.98, 0.45, 0.05], atol=0.05)


def test_golden_spread_of_returns_in_each_turn():
    # Returns from turns 0 and 1: (1, 1) and (3, 2). The third turn of one episode is not compared.
    batch = Batch.of([trajectory([1, 1], [0, 1]), trajectory([1, 1, 1], [1, 2, 0])])
    returns = np.array([1, 1, 3, 2, 0], np.float64)
    signal = (2.0 + 0.5) / 2  # sample variances of the two turns
    advantages = np.array([5, -5, 5, -5, 99], np.float32)
    assert np.isclose(reliability(advantages, returns, batch), (signal / 25) ** 0.5)


@pytest.mark.parametrize("name", ["role", "env_id"])
def test_roles_and_environments_are_not_compared_with_each_other(name: str):
    """One always wins against the other: both returns can be foreseen."""
    ends = [("first", 1.0), ("second", -1.0)] * 8
    batch = Batch.of([replace(trajectory([2], [end]), **{name: who}) for who, end in ends])
    noisy = values(batch, np.random.default_rng(0))
    assert trust(poad()(batch, noisy), batch) < 1e-6
    alike = Batch.of([trajectory([2], [end]) for _, end in ends])
    assert trust(poad()(alike, noisy), alike) > 0.1


def test_speed_counts_where_all_succeed():
    """Discounted returns differ between a short and a long success."""
    batch = Batch.of([trajectory([1] * n, [0] * (n - 1) + [1]) for n in (2, 6)])
    rng = np.random.default_rng(0)
    assert trust(poad(gamma=0.9)(batch, values(batch, rng)), batch) > 0.01
    assert trust(poad(gamma=1.0)(batch, values(batch, rng)), batch) < 1e-6


def test_episodes_that_nothing_compares_with_are_trusted():
    rng = np.random.default_rng(0)
    batch = Batch.of([trajectory([1, 2], [0, 1])])
    assert trust(poad()(batch, values(batch, rng)), batch) == 1
    silent = Batch.of([trajectory([0], [1]), trajectory([0], [0])])
    assert trust(poad()(silent, values(silent, rng)), silent) == 1
