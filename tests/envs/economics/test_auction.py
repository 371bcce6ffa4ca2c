"""Auction: gains by hand, exact expected gains, equilibria, the expert, hidden values."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentgym
from agentgym.envs.economics.auction import (
    BIDDERS,
    Auction,
    bid_chances,
    expected_gains,
    outcome,
    scripted_bid,
)
from agentgym.errors import ConfigError
from agentgym.evaluation.exploitability import nashconv

ID = "Auction-v0"


def test_gains_by_hand():
    assert outcome([80, 60, 10], [50, 40, 5], "first") == ([30, 0, 0], 50)
    assert outcome([80, 60, 10], [50, 40, 5], "second") == ([40, 0, 0], 40)
    assert outcome([80, 60, 10], [40, 40, 5], "first") == ([20, 10, 0], 40)
    assert outcome([80, 60, 10], [40, 40, 5], "second") == ([20, 10, 0], 40)
    assert outcome([3, 60, 10], [40, 4, 5], "first") == ([-37, 0, 0], 40)


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(["first", "second"]), st.integers(0, 5), st.integers(1, 3), st.randoms())
def test_expected_gains_are_sums_over_all_bids(price: str, value: int, rivals: int, random):
    chances = []
    for _ in range(rivals):
        row = np.array([0.01 + random.random() for _ in range(6)])
        chances.append(row / row.sum())
    direct = np.zeros(6)
    for others in itertools.product(range(6), repeat=rivals):
        weight = np.prod([row[bid] for row, bid in zip(chances, others, strict=True)])
        for bid in range(6):
            gains, _ = outcome([value, *[0] * rivals], [bid, *others], price)
            direct[bid] += weight * gains[0]
    assert expected_gains(value, chances, price) == pytest.approx(direct)


@pytest.mark.parametrize("players", [2, 3, 5])
def test_the_equilibrium_is_one_up_to_rounding(players: int):
    rivals = [bid_chances("equilibrium", 100, players, "first")] * (players - 1)
    for value in range(101):
        gains = expected_gains(value, rivals, "first")
        assert gains[scripted_bid("equilibrium", value, players, "first")] >= gains.max() - 0.5


@pytest.mark.parametrize("level", BIDDERS)
def test_to_bid_the_value_is_dominant_at_the_second_price(level: str):
    rivals = [bid_chances(level, 30, 3, "second")] * 2
    for value in range(31):
        gains = expected_gains(value, rivals, "second")
        assert gains[value] == pytest.approx(gains.max())


def test_exploitability_of_a_small_auction():
    small = {"largest": 3, "num_players": 2, "rounds": 1}
    assert nashconv(
        ID, "truthful", env_kwargs={**small, "price": "second"}
    ).nashconv == pytest.approx(0, abs=1e-9)
    assert nashconv(ID, "truthful", env_kwargs=small).nashconv > 0.1
    with pytest.raises(ConfigError, match="largest"):
        next(iter(Auction().starts()))


def gained(env, agent: str, episodes: int = 20) -> float:
    total = 0.0
    for seed in range(episodes):
        _, _ = env.reset(seed=seed)
        rng, over = np.random.default_rng(seed), False
        while not over:
            script = (
                env.unwrapped.game.script(agent, env.unwrapped.agent, rng)
                if agent != "expert"
                else env.unwrapped.expert()
            )
            _, reward, over, _, _ = env.step(script)
            total += reward / episodes
    return total


@pytest.mark.parametrize("opponents", ["half", "equilibrium", "truthful", "unknown"])
def test_the_expert_gains_more_than_the_equilibrium(opponents: str):
    env = agentgym.make_env(ID, opponents=opponents)
    assert gained(env, "expert") >= gained(env, "equilibrium") - 0.002


def test_values_of_others_stay_hidden():
    game = Auction()
    game.reset(0, "train/0")
    before = game.seen("player_0").observation
    for row in game.state.values:
        row[1:] = [0, 0]
    game._unseen.update(game.possible_agents)
    assert game.seen("player_0").observation == before


@pytest.mark.parametrize("wrong", [{"largest": 1}, {"rounds": 0}, {"price": "third"}])
def test_arguments_are_checked(wrong: dict):
    with pytest.raises((ConfigError, TypeError, ValueError)):
        Auction(**wrong)
