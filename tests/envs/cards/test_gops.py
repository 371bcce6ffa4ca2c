"""GOPS: the rules, and exact solutions checked against independent calculations."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentgym
from agentgym.envs.cards.gops import CARDS, ORDERS, TIES, responses, scripted, solver
from agentgym.envs.cards.gops_solver import solve_games
from agentgym.errors import ConfigError


def game(prizes=(2, 3, 1), **kwargs):
    game = agentgym.make_parallel("Gops-v0", cards=len(prizes), **kwargs).game
    game.reset(seed=0)
    game.state.prizes = list(prizes)
    return game


def bid(game, first, second):
    game.play({"player_0": str(first), "player_1": str(second)})
    return [game.reward(agent) for agent in game.possible_agents]


def test_the_higher_bid_wins_the_prize_and_every_card_is_used_once():
    g = game()
    assert bid(g, 3, 1) == pytest.approx([2 / 6, -2 / 6])
    assert g.seen("player_0").admissible == ("1", "2")
    assert bid(g, 3, 2)[1] == 0 and not g.seen("player_0").valid  # the card is used
    assert bid(g, 1, 2) == pytest.approx([-3 / 6, 3 / 6])
    bid(g, 2, 3)
    assert g.state.points == (2, 4) and not g.acting
    assert [g.seen(agent).success for agent in g.possible_agents] == [False, True]
    assert g.seen("player_0").progress == pytest.approx(0.5 - 2 / 12)


def test_a_tied_prize_is_lost_or_carried():
    lost, carried = game(), game(ties="carry")
    for g in (lost, carried):
        bid(g, 2, 2)
        bid(g, 3, 1)
    assert lost.state.points == (3, 0) and carried.state.points == (5, 0)
    for g in (lost, carried):
        assert g.state.pot == 0
    last = game(ties="carry")
    for card in (1, 2, 3):
        assert bid(last, card, card) == [0, 0]
    assert last.state.points == (0, 0) and not last.seen("player_0").success
    assert "carried over: 5" in game_text(game(ties="carry"))


def game_text(g):
    bid(g, 2, 2)
    return g.seen("player_0").text


@pytest.mark.parametrize("order", ["ascending", "descending"])
def test_a_fixed_order(order):
    g = agentgym.make_parallel("Gops-v0", order=order).game
    g.reset(seed=3)
    assert g.state.prizes == sorted(g.state.prizes, reverse=order == "descending")


def test_all_orders_of_the_prizes_are_dealt():
    g = agentgym.make_parallel("Gops-v0", cards=3).game
    seen = set()
    for i in range(60):
        for split in ("train", "test"):
            g.begin(f"{split}/{i}")
            seen.add(tuple(g.state.prizes))
    assert seen == set(permutations((1, 2, 3)))


@settings(max_examples=60)
@given(st.integers(1, 4).flatmap(
    lambda m: st.lists(st.lists(st.integers(-6, 6), min_size=m, max_size=m),
                       min_size=m, max_size=m)
))  # fmt: skip
def test_solutions_of_matrix_games_certify_themselves(payoffs):
    table = np.array([payoffs], float)
    (value,), (row,), (column,) = solve_games(table)
    for strategy in (row, column):
        assert strategy.min() >= 0 and strategy.sum() == pytest.approx(1)
    assert (row @ table[0]).min() == pytest.approx(value, abs=1e-9)
    assert (table[0] @ column).max() == pytest.approx(value, abs=1e-9)


def test_known_matrix_games():
    pennies, rps = [[1, -1], [-1, 1]], [[0, -1, 1], [1, 0, -1], [-1, 1, 0]]
    for table in (pennies, rps):
        (value,), (row,), _ = solve_games(np.array([table], float))
        assert value == pytest.approx(0)
        assert row == pytest.approx(np.full(len(table), 1 / len(table)))
    (value,), (row,), (column,) = solve_games(np.array([[[3, 0], [1, 2]]], float))
    assert value == pytest.approx(1.5)
    assert row == pytest.approx([0.25, 0.75]) and column == pytest.approx([0.5, 0.5])


def exploit(found, carry, mine, theirs, left, pot=0):
    """Returns the best response's gain against the equilibrium, by full enumeration."""
    if not left:
        return 0.0
    total = 0.0
    for prize in left:
        chances = found.equilibrium(theirs, mine, left, prize, pot)
        rest, best = tuple(p for p in left if p != prize), -np.inf
        for card in mine:
            gain = 0.0
            for other, chance in zip(theirs, chances, strict=True):
                sign = (card > other) - (card < other)
                kept = tuple(c for c in mine if c != card)
                theirs_kept = tuple(c for c in theirs if c != other)
                pot_left = (pot + prize) * carry * (sign == 0)
                later = exploit(found, carry, kept, theirs_kept, rest, pot_left)
                gain += chance * (sign * (pot + prize) + later)
            best = max(best, gain)
        total += best / len(left)
    return total


@pytest.mark.parametrize("carry", [False, True])
def test_nobody_gains_against_the_equilibrium(carry):
    cards = (1, 2, 3)
    assert exploit(solver(3, "random", carry), carry, cards, cards, cards) == pytest.approx(0)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("ties", TIES)
def test_positions_are_antisymmetric_and_the_start_is_even(order, ties):
    found = solver(4, order, ties == "carry")
    assert found._values == pytest.approx(-found._values.swapaxes(0, 1))
    full = (1, 2, 3, 4)
    for prize in found._next(full):
        payoffs = found.game(full, full, full, prize)
        row = found.equilibrium(full, full, full, prize)
        assert (row @ payoffs).min() == pytest.approx(0, abs=1e-9)


def test_one_position_by_hand():
    # Two cards each, both prizes left: bidding the 2 for the 2 is dominant.
    assert solver(2).equilibrium((1, 2), (1, 2), (1, 2), 2) == pytest.approx([0, 1])
    # The last card decides: 2 against 1 for a prize of 2.
    assert solver(2).game((2,), (1,), (2,), 2) == pytest.approx(np.array([[2.0]]))


def mean_gain(first, second, games=60):
    env = agentgym.make_parallel("Gops-v0")
    g, rng, total = env.game, np.random.default_rng(0), 0.0
    for i in range(games):
        g.begin(f"train/{i}")
        while g.acting:
            levels = zip(g.possible_agents, (first, second), strict=True)
            g.play({agent: g.script(level, agent, rng) for agent, level in levels})
        total += g.state.points[0] - g.state.points[1]
    return total / games


@pytest.mark.slow
def test_levels_are_graded():
    assert mean_gain("match", "random") > 1.5
    assert mean_gain("raise", "match") == pytest.approx(5)  # 1 to 4 are won, 5 is lost
    assert mean_gain("equilibrium", "random") > 1
    assert mean_gain("equilibrium", "raise") > 0


@pytest.mark.parametrize("level", ["random", "highest", "match", "raise"])
def test_the_expert_is_a_best_response(level):
    env: Any = gymnasium.make("AgentGym/Gops-v0", opponents=level).unwrapped
    total = 0.0
    for seed in range(30):
        env.reset(seed=seed)
        over = False
        while not over:
            _, reward, terminated, truncated, _ = env.step(env.expert())
            total += reward
            over = terminated or truncated
    least = {"random": 0.15, "highest": 0.3, "match": 5 / 15, "raise": 0.15}[level]
    assert total / 30 >= least - 1e-9


def test_matching_the_prize_is_a_best_response_to_random_bids():
    """Ross (1971)."""
    gains = responses(4, "random", False, "random")
    for left in ((1, 2, 3, 4), (1, 3, 4), (2, 3)):
        theirs = (1, 2, 3, 4)[: len(left)]
        for prize in left:
            found = gains(left, theirs, left, prize, 0)
            assert found[left.index(prize)] == pytest.approx(max(found))


@given(st.sets(st.integers(1, 6), min_size=1), st.integers(1, 6))
def test_scripted_bids_are_distributions(hand, prize):
    hand = tuple(sorted(hand))
    for level in ("random", "highest", "match", "raise"):
        chances = scripted(level, hand, prize)
        assert chances.shape == (len(hand),) and chances.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    "kwargs", [{"cards": CARDS[-1] + 1}, {"cards": 1}, {"order": "odd"}, {"ties": "both"}]
)
def test_invalid_arguments(kwargs):
    with pytest.raises(ConfigError, match=f"{next(iter(kwargs))} must be"):
        agentgym.make_parallel("Gops-v0", **kwargs)
