"""Lower bounds of exploitability from games, against exact values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.agents import ScriptedAgent, View
from agentgym.errors import ConfigError
from agentgym.evaluation import nashconv
from agentgym.evaluation.best_response import ITSELF, exploitability_bound

KUHN = "KuhnPoker-v0", {"hands": 1}
EXACT: tuple[tuple[str, dict[str, Any]], ...] = (
    KUHN,
    ("LeducPoker-v0", {"hands": 1}),
    ("Gops-v0", {"cards": 3}),
    ("RockPaperScissors-v0", {"max_turns": 1}),
    ("Chicken-v0", {"max_turns": 1}),
)
"""Games with an exact evaluation, from starts that their tasks have too."""


class Fixed:
    """Plays action probabilities that depend on the observation, and counts how often it is asked.

    Args:
        seed: seed of the probabilities.
    """

    name, memoryless, constrain = "fixed", True, True

    def __init__(self, seed: int):
        self.seed, self.asked = seed, 0

    def probabilities(self, views: Sequence[View]) -> list[np.ndarray]:
        self.asked += len(views)
        rows = []
        for view in views:
            letters = sum(map(ord, view.observation))
            count = len(view.info["admissible"])
            rows.append(np.random.default_rng([self.seed, letters]).dirichlet(np.full(count, 0.5)))
        return rows

    def act(self, views: Sequence[View]) -> list[str]:
        rows = zip(views, self.probabilities(views), strict=True)
        return [str(view.rng.choice(np.array(view.info["admissible"]), p=p)) for view, p in rows]


@pytest.mark.parametrize(("env", "kwargs"), EXACT, ids=lambda x: x if isinstance(x, str) else "")
@pytest.mark.parametrize("seed", [0, 1])
def test_the_bound_is_not_above_the_exact_value(env: str, kwargs: dict[str, Any], seed: int):
    agent = Fixed(seed)
    exact = nashconv(env, agent, env_kwargs=kwargs).exploitability
    found = exploitability_bound(env, agent, games=400, env_kwargs=kwargs).exploitability
    assert found.low is not None and found.low <= exact


@pytest.mark.parametrize("level", ["random", "caller", "maniac", "tight"])
def test_the_bound_is_near_the_exact_value_in_kuhn_poker(level: str):
    env, kwargs = KUHN
    exact = nashconv(env, level, env_kwargs=kwargs).exploitability
    found = exploitability_bound(env, level, games=2000, env_kwargs=kwargs).exploitability
    assert found.low is not None and found.low <= exact
    assert found.mean >= 0.8 * exact


def test_an_equilibrium_has_no_gain_beyond_the_interval():
    env, kwargs = KUHN
    found = exploitability_bound(env, "equilibrium", games=1000, env_kwargs=kwargs)
    low, high = found.exploitability.low, found.exploitability.high
    assert low is not None and high is not None and low <= 0 <= high


def test_choosing_and_valuing_on_the_same_games_would_be_biased():
    """Means over many seeds: of uniform play in one round, in which no deviation gains."""
    env, kwargs = "RockPaperScissors-v0", {"max_turns": 1}
    means = [
        exploitability_bound(env, "random", games=96, seed=seed, env_kwargs=kwargs)
        .exploitability.mean
        for seed in range(20)
    ]  # fmt: skip
    error = np.std(means) / len(means) ** 0.5
    assert abs(np.mean(means)) < 3 * error


def test_a_given_agent_is_a_deviation_if_it_gains_most():
    """Against a player that always bets, the best deviation calls with a king alone, or so."""
    env, kwargs = KUHN
    member = ScriptedAgent("equilibrium")
    member.name = "iteration 5"
    found = exploitability_bound(env, "maniac", games=640, against=[member], env_kwargs=kwargs)
    margin = found.margins["iteration 5"]
    exact = [nashconv(env, pair, env_kwargs=kwargs).values for pair in
             (["equilibrium", "maniac"], ["maniac", "equilibrium"])]  # fmt: skip
    expected = (exact[0][0] + exact[1][1]) / 2
    assert margin.low is not None and margin.high is not None
    assert margin.low <= expected <= margin.high
    assert len(found.deviations) == 2 and found.scale == 4  # from -2 to 2 chips


def test_perfect_play_has_no_deviation():
    found = exploitability_bound("Gops-v0", "equilibrium", games=64, env_kwargs={"cards": 3})
    assert found.exploitability.mean == 0
    assert ITSELF in found.deviations or found.exploitability.low == 0


def test_an_agent_is_asked_once_per_information_set():
    agent = Fixed(0)
    env, kwargs = KUHN
    exploitability_bound(env, agent, games=400, env_kwargs=kwargs)
    assert agent.asked <= 12


def test_a_bound_is_repeated_exactly():
    env, kwargs = KUHN
    first, again = (
        exploitability_bound(env, Fixed(3), games=64, num_games=n, env_kwargs=kwargs)
        for n in (5, 64)
    )
    assert first == again


@settings(deadline=None, max_examples=5)
@given(seed=st.integers(0, 2**20))
def test_any_policy_of_kuhn_poker_is_bounded(seed: int):
    env, kwargs = KUHN
    exact = nashconv(env, Fixed(seed), env_kwargs=kwargs).exploitability
    found = exploitability_bound(env, Fixed(seed), games=400, env_kwargs=kwargs).exploitability
    assert found.low is not None and found.high is not None
    wide = found.high - found.low  # twice the interval: hypothesis looks for exceptions
    assert found.low - wide <= exact


def test_wrong_arguments_are_explained():
    with pytest.raises(ConfigError, match="games must be at least 32 for the 2 seats"):
        exploitability_bound("KuhnPoker-v0", "random", games=10)
    with pytest.raises(ConfigError, match="Unknown agent 'nobody'"):
        exploitability_bound("KuhnPoker-v0", "nobody")
    with pytest.raises(ConfigError, match="leave split out of env_kwargs"):
        exploitability_bound("KuhnPoker-v0", "random", games=64, env_kwargs={"split": "train"})
