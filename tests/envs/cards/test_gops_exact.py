"""GOPS: NashConv against own brute force and against OpenSpiel 2.0.2.

OpenSpiel's figures are of `open_spiel.python.algorithms.exploitability.nash_conv` for goofspiel as
a turn-based game, with `imp_info=False` and `returns_type="point_difference"`. It counts half of
the difference of points, not divided by the sum of the prizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import agentgym
from agentgym.agents import MixedAgent, ScriptedAgent, View
from agentgym.envs.cards.gops import MOST_INFOSETS, infosets
from agentgym.errors import ConfigError
from agentgym.evaluation import nashconv
from agentgym.evaluation.exploitability import action_probabilities
from agentgym.evaluation.game_tree import GameTree
from agentgym.multiagent.game import TextGame

ID = "Gops-v0"
LEVELS = ("random", "highest", "match", "raise", "equilibrium")


class Weighted:
    """Bids in proportion to the cards, or to equal weights. It is no scripted player."""

    name = "weighted"
    memoryless = True

    def __init__(self, equal: bool = False):
        self.equal = equal

    def act(self, views: Sequence[View]) -> list[str]:
        raise NotImplementedError

    def probabilities(self, views: Sequence[View]) -> list[np.ndarray]:
        hands = [np.array(view.info["admissible"], float) ** (not self.equal) for view in views]
        return [hand / hand.sum() for hand in hands]


def by_tree(level: str, **kwargs) -> tuple[np.ndarray, np.ndarray, GameTree]:
    """Returns values and best responses of a scripted player with all bids remembered."""
    tree = GameTree.of(agentgym.make_parallel(ID, **kwargs).game)
    return *tree.solve(action_probabilities(ScriptedAgent(level), tree.views)), tree


def best_gain(deck: Sequence[int], carry: bool, played: int, mine: set, theirs: set, pot: int):
    """Returns the gain of a best response to random bids if the order of the prizes is known."""
    if not mine:
        return 0.0
    stake, rest = deck[played] + pot, (deck, carry, played + 1)
    return max(
        sum(
            stake * np.sign(a - b)
            + best_gain(*rest, mine - {a}, theirs - {b}, stake * (carry and a == b))
            for b in theirs
        )
        / len(theirs)
        for a in mine
    )


@pytest.mark.parametrize("cards", [2, 3])
@pytest.mark.parametrize("order", ["ascending", "descending"])
@pytest.mark.parametrize("carry", [False, True])
def test_the_best_response_to_random_bids_is_that_of_full_search(cards, order, carry):
    deck = sorted(range(1, cards + 1), reverse=order == "descending")
    gain = best_gain(deck, carry, 0, set(deck), set(deck), 0) / sum(deck)
    rules = {"cards": cards, "order": order, "ties": "carry" if carry else "discard"}
    for agent in ("random", Weighted(equal=True)):
        found = nashconv(ID, agent, env_kwargs=rules)
        assert found.best_responses == pytest.approx((gain, gain))
        assert found.values == pytest.approx((0, 0), abs=1e-12)


@pytest.mark.parametrize(
    ("cards", "order", "random", "weighted"),
    [
        (2, "random", 1 / 6, 1 / 6),
        (2, "ascending", 1 / 6, 2 / 9),
        (2, "descending", 1 / 6, 1 / 9),
        (3, "random", 2 / 9, 0.23611111111111108),
        (3, "ascending", 2 / 9, 0.32222222222222224),
        (3, "descending", 2 / 9, 0.1611111111111111),
        (4, "ascending", 0.25, 0.34787301587301594),
        (4, "descending", 0.25, 0.17456349206349206),
    ],
)
def test_values_are_those_of_openspiel(cards, order, random, weighted):
    rules = {"cards": cards, "order": order}
    for agent, value in (("random", random), (Weighted(True), random), (Weighted(), weighted)):
        assert nashconv(ID, agent, env_kwargs=rules).nashconv == pytest.approx(2 * value)


def test_four_cards_in_random_order_as_in_openspiel():
    assert nashconv(ID, "random", env_kwargs={"cards": 4}).nashconv == pytest.approx(2 * 0.25)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rules", [{}, {"ties": "carry"}, {"order": "descending"}])
def test_positions_of_scripted_players_stand_for_all_their_histories(level, rules):
    values, best, tree = by_tree(level, cards=3, **rules)
    found = nashconv(ID, level, env_kwargs={"cards": 3, **rules})
    assert found.infosets < len(tree.views) == infosets(3, rules.get("order", "random"))
    assert found.values == pytest.approx(values, abs=1e-12)
    assert found.best_responses == pytest.approx(best, abs=1e-12)


def test_different_players():
    found = nashconv(ID, ["raise", "match"], env_kwargs={"cards": 4})
    assert found.values == pytest.approx((0.2, -0.2))  # 1 to 3 are won, 4 is lost
    equal = nashconv(ID, ["raise", Weighted(equal=True)], env_kwargs={"cards": 3})
    again = nashconv(ID, ["raise", "random"], env_kwargs={"cards": 3})
    assert equal.values == pytest.approx(again.values)
    assert equal.best_responses == pytest.approx(again.best_responses)
    mixed = nashconv(ID, MixedAgent([ScriptedAgent("match")], [1]), env_kwargs={"cards": 3})
    assert mixed.nashconv == pytest.approx(0, abs=1e-12)  # a bid of the prize's value, Ross (1971)


@pytest.mark.parametrize(
    "rules",
    [
        {"cards": 3},
        {"cards": 4},
        {"cards": 4, "ties": "carry"},
        {"order": "ascending"},
        {"order": "descending", "ties": "carry"},
        pytest.param({}, marks=pytest.mark.slow),
    ],
)
def test_the_equilibrium_cannot_be_exploited(rules):
    found = nashconv(ID, "equilibrium", env_kwargs=rules)
    assert found.values == pytest.approx((0, 0), abs=1e-9)
    assert found.nashconv == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("level", LEVELS)
def test_a_scripted_player_plays_its_probabilities(level):
    game: Any = agentgym.make_parallel(ID).game
    game.reset(seed=0)
    game.play({"player_0": "2", "player_1": "4"})
    given = game.script_probabilities(level, "player_1")
    counted = TextGame.script_probabilities(game, level, "player_1")
    assert given == pytest.approx(counted, abs=0.1)
    assert given.sum() == pytest.approx(1)


def test_all_orders_are_starts():
    game: Any = agentgym.make_parallel(ID, cards=3).game
    starts = [(chance, tuple(state.prizes)) for chance, state in game.starts()]
    assert sorted(starts) == [(1 / 6, order) for order in sorted(permutations((1, 2, 3)))]
    for order in ("ascending", "descending"):
        game = agentgym.make_parallel(ID, cards=3, order=order).game
        ((chance, state),) = game.starts()
        game.reset(seed=0)
        assert chance == 1 and state == game.state


def test_games_that_are_too_large_are_refused():
    message = r"needs 4,369,010 information sets, more than 100,000: .* cards=4 or order="
    with pytest.raises(ConfigError, match=message):
        nashconv(ID, Weighted())
    with pytest.raises(ConfigError, match=r"choose fewer cards, for example cards=4\. "):
        nashconv(ID, Weighted(), env_kwargs={"cards": 6, "order": "ascending"})
    with pytest.raises(ConfigError, match=r"more than 100 information sets .* raise max_infosets"):
        nashconv(ID, "random", env_kwargs={"cards": 4}, max_infosets=100)
    assert infosets(4, "random") < infosets(5, "ascending") < MOST_INFOSETS
