"""Meta-strategies on games with known solutions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.evaluation.meta_games import META_STRATEGIES, alpharank, nash, uniform

ROCK = np.array([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]])
"""Rock, paper, scissors."""
BIASED = np.array([[0, -0.25, 0.5], [0.25, 0, -0.05], [-0.5, 0.05, 0]])
"""Rock-paper-scissors with the gains 0.25, 0.5 and 0.05 (OpenSpiel's `matrix_brps`, scaled)."""
# Han et al. 2013, as in the tests of OpenSpiel's alpharank, with their result.
COMMITMENT = np.array(
    [[0.875, 0.75, 0, 2.75, 0.75], [1, 1, -1, -1, -1], [0, 2, 0, 0, 0], [-2, 2, 0, 0, 0],
     [1, 2, 0, 0, 0]]
)  # fmt: skip


def test_uniform():
    assert uniform(ROCK).tolist() == [1 / 3] * 3


def test_nash_of_small_games():
    assert nash(ROCK) == pytest.approx([1 / 3] * 3)
    assert nash(BIASED) == pytest.approx([1 / 16, 10 / 16, 5 / 16])
    dominated = np.array([[0.0, 1, 2], [-1, 0, 5], [-2, -5, 0]])
    assert nash(dominated) == pytest.approx([1, 0, 0])
    assert nash(np.zeros((1, 1))).tolist() == [1.0]


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 8), st.integers(0, 2**31), st.booleans())
def test_no_agent_gains_against_the_nash_mixture(size: int, seed: int, ties: bool):
    payoffs = np.random.default_rng(seed).normal(size=(size, size))
    payoffs = np.round(payoffs) if ties else payoffs
    payoffs -= payoffs.T
    mixture = nash(payoffs)
    assert mixture.min() >= 0 and mixture.sum() == pytest.approx(1)
    assert (payoffs @ mixture).max() <= 1e-7


def test_alpharank_of_small_games():
    for alpha in (None, 0.1, 100.0):
        assert alpharank(ROCK, alpha=alpha) == pytest.approx([1 / 3] * 3)
    expected = [0.40966787, 0.07959841, 0.20506998, 0.08505983, 0.2206039]
    assert alpharank(COMMITMENT, alpha=0.1, population=20) == pytest.approx(expected, abs=1e-4)
    # Only the order of payoffs counts: a biased cycle is a cycle.
    assert alpharank(BIASED) == pytest.approx([1 / 3] * 3)
    assert alpharank(np.array([[0.0, 1], [-1, 0]]), noise=0.01) == pytest.approx([0.99, 0.01])
    assert alpharank(np.zeros((1, 1))).tolist() == [1.0]
    with pytest.raises(ValueError, match="noise must be above 0"):
        alpharank(ROCK, noise=0)


@pytest.mark.parametrize("alpha", [0.1, 1.0, 5.0, 100.0])
def test_alpharank_selects_the_better_of_two_conventions(alpha: float):
    """With two agents, the ratio of shares is exp(24 alpha) here, by the fixation probabilities."""
    found = alpharank(np.array([[2.0, 0], [0, 1]]), alpha=alpha)
    assert found[0] == pytest.approx(1 / (1 + np.exp(-24 * alpha)))
    assert found[1] == pytest.approx(np.exp(-24 * alpha) / (1 + np.exp(-24 * alpha)))


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(sorted(META_STRATEGIES)), st.integers(2, 6), st.integers(0, 2**31))
def test_meta_strategies_follow_the_order_of_agents(name: str, size: int, seed: int):
    """Renumbering the agents renumbers the probabilities, which sum to 1."""
    rng = np.random.default_rng(seed)
    payoffs = rng.normal(size=(size, size))
    payoffs -= payoffs.T
    order = rng.permutation(size)
    solve = META_STRATEGIES[name]
    assert solve(payoffs).sum() == pytest.approx(1)
    assert solve(payoffs[np.ix_(order, order)]) == pytest.approx(solve(payoffs)[order], abs=1e-6)
