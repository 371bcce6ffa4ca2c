"""GuessTwoThirds: prizes by hand, equilibria, levels of reasoning, the expert."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentgym
from agentgym.envs.economics.guess_two_thirds import (
    GuessTwoThirds,
    best_share,
    equilibria,
    level_of,
    scripted,
    shares,
)
from agentgym.errors import ConfigError

ID = "GuessTwoThirds-v0"


def test_prizes_by_hand():
    assert shares([50, 33, 22], 2 / 3) == [0, 0, 1]  # target 23.3
    assert shares([30, 30, 90], 2 / 3) == [0.5, 0.5, 0]
    assert shares([0, 0, 0, 0], 2 / 3) == [0.25] * 4


def test_symmetric_equilibria_of_a_round():
    assert equilibria(2, 100, 2 / 3) == [0]
    assert equilibria(3, 100, 2 / 3) == [0]
    assert equilibria(4, 100, 2 / 3) == [0, 1]  # 0 is as close to 0.5 as 1 is
    assert equilibria(10, 20, 2 / 3) == [0, 1]
    assert equilibria(10, 20, 1 / 2) == [0]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=5), st.floats(0.1, 0.9))
def test_the_prize_is_shared_out(guesses: list[int], factor: float):
    assert sum(shares([*guesses, 3], factor)) == pytest.approx(1)
    guess, share = best_share(guesses, 20, factor)
    assert share == shares([guess, *guesses], factor)[0] > 0


def test_levels_by_hand():
    levels = ("level_0", "level_1", "level_2", "level_3", "equilibrium", "adaptive")
    assert [scripted(level, [], 100, 2 / 3) for level in levels] == [50, 33, 22, 15, 0, 33]
    assert scripted("adaptive", [[50, 40]], 100, 2 / 3) == 30
    rounds = [[50, 33], [50, 28]]
    assert level_of(rounds, 0, 100, 2 / 3) == "level_0"
    assert level_of(rounds, 1, 100, 2 / 3) == "adaptive"
    assert level_of([], 1, 100, 2 / 3) == "level_1"


@pytest.mark.parametrize("level", ["level_0", "level_1", "level_2", "level_3"])
def test_the_expert_wins_against_a_known_level(level: str):
    env = agentgym.make_env(ID, opponents=level)
    for seed in range(5):
        env.reset(seed=seed)
        total, over, info = 0.0, False, {}
        while not over:
            _, reward, over, _, info = env.step(env.unwrapped.expert())  # type: ignore[attr-defined]
            total += float(reward)
        assert total == pytest.approx(1) and info["success"]


def test_levels_are_inferred_from_numbers():
    env = agentgym.make_env("GuessTwoThirds-Unknown-v0")
    totals = []
    for seed in range(12):
        env.reset(seed=seed, options={"task": "rounds/10"})
        total, over = 0.0, False
        while not over:
            _, reward, over, _, _ = env.step(env.unwrapped.expert())  # type: ignore[attr-defined]
            total += float(reward)
        totals.append(total)
    assert sum(totals) / len(totals) > 0.4  # an equal share is 0.25


def test_random_numbers_are_rarely_a_success():
    env, won = agentgym.make_env(ID), 0
    for seed in range(40):
        env.reset(seed=seed)
        rng, over, info = np.random.default_rng(seed), False, {}
        while not over:
            _, _, over, _, info = env.step(str(rng.integers(101)))
        won += info["success"]
    assert won <= 8


def test_nothing_beats_the_equilibrium():
    game = GuessTwoThirds()
    game.reset(0, "rounds/4")
    while game.acting:
        game.play(
            {agent: game.script("equilibrium", agent, game.np_random) for agent in game.acting}
        )
    assert game.state.prizes == [1.0] * 4
    assert not any(step.success for step in game.steps.values())


@pytest.mark.parametrize("wrong", [{"largest": 1}, {"factor": 1.0}, {"num_players": 11}])
def test_arguments_are_checked(wrong: dict):
    with pytest.raises(ConfigError):
        GuessTwoThirds(**wrong)


def test_a_number_out_of_range_is_invalid():
    env = agentgym.make_env(ID)
    env.reset(seed=0)
    observation, _, _, _, info = env.step("101")
    assert not info["valid"] and "from 0 to 100" in observation
