"""Hanabi: the rules of the Hanabi Learning Environment, hints and scripted players."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentgym
from agentgym.envs.cards.hanabi import Hanabi
from agentgym.envs.cards.hanabi_players import View, after, discard_useless, tell_playable
from agentgym.envs.cards.hanabi_rules import COLORS, Card, Sizes, moves
from agentgym.errors import ConfigError


def cards(*names, sizes):
    """Returns cards such as "red 1", unknown to their holder."""
    found = []
    for name in names:
        color, rank = name.split()
        everything = [*range(sizes.colors)], [*range(sizes.ranks)]
        found.append(Card(COLORS.index(color), int(rank) - 1, *everything))
    return found


def game(*hands, deck=(), **kwargs):
    """Returns a game with the given hands. The deck is dealt from its end."""
    game = Hanabi(num_players=len(hands) or None, **kwargs)
    game.begin("train/0")
    if hands:
        game.state.hands = [cards(*hand, sizes=game.sizes) for hand in hands]
        game.state.deck = [(c.color, c.rank) for c in cards(*deck, sizes=game.sizes)]
    return game


def turn(game, move):
    """Plays a move and returns the reward, which all players share."""
    game.play({game.acting[0]: move})
    (reward,) = {game.reward(agent) for agent in game.possible_agents}
    assert all(game.outcome(agent).valid for agent in game.possible_agents), move
    return reward


DECK = ("blue 4",) * 10


def test_the_deck_has_fifty_cards():
    counts = Counter(Sizes(5, 5, 5, 8, 3).deck())
    assert sum(counts.values()) == 50
    assert [counts[0, rank] for rank in range(5)] == [3, 2, 2, 2, 1]


@pytest.mark.parametrize(("players", "hand"), [(2, 5), (3, 5), (4, 4), (5, 4)])
def test_sizes_of_hands(players, hand):
    g = Hanabi(num_players=players)
    g.begin("test/0")
    assert [len(cards) for cards in g.state.hands] == [hand] * players
    assert len(g.state.deck) == 50 - players * hand


def test_cards_are_played_in_order_and_mistakes_cost_a_fuse():
    g = game(["red 1", "red 3"], ["red 2", "blue 5"], deck=DECK)
    assert turn(g, "play 1") == pytest.approx(1 / 25)
    assert [card.name() for card in g.state.hands[0]] == ["red 3", "blue 4"]
    assert turn(g, "play 1") == pytest.approx(1 / 25)
    assert turn(g, "play 2") == 0
    assert (g.state.fireworks[0], g.state.fuses, g.state.discards) == (2, 2, [(4, 3)])
    assert "a mistake" in g.seen("player_1").text


def test_hint_tokens_are_spent_and_returned():
    g = game(["red 1", "red 3"], ["red 2", "blue 5"], deck=DECK)
    assert "discard 1" not in g.seen("player_0").admissible  # all tokens are there
    turn(g, "hint player_1 red")
    assert g.state.hints == 7
    turn(g, "discard 2")
    assert g.state.hints == 8 and g.state.discards == [(4, 4)]
    g.state.fireworks[0], g.state.hints = 4, 3
    g.state.hands[0] = cards("red 5", "red 1", sizes=g.sizes)
    turn(g, "play 1")
    assert g.state.hints == 4  # a complete firework
    g.state.hints = 0
    assert not any("hint" in move for move in view(g).moves)


def test_a_hint_tells_all_cards_and_what_the_others_are_not():
    g = game(["red 1", "red 3"], ["red 2", "blue 5"], ["white 2", "red 5"], deck=DECK)
    turn(g, "hint player_2 red")
    first, second = g.state.hands[2]
    assert first.colors == [1, 2, 3, 4] and second.colors == [0]
    assert "1: yellow or green or white or blue, any rank\n2: red, any rank" in (
        g.seen("player_2").text
    )
    assert "player_0: hint player_2 red (card 2)" in g.seen("player_1").text
    g.play({"player_1": "hint player_2 1"})  # no card matches
    assert not g.outcome("player_1").valid
    turn(g, "hint player_2 2")
    assert first.ranks == [1] and second.ranks == [0, 2, 3, 4]


def test_nobody_sees_its_own_cards():
    g = game(["red 1"], ["yellow 2"], deck=DECK)
    assert "red 1" not in g.seen("player_0").text
    assert "1: red 1 (any color, any rank)" in g.seen("player_1").text


def test_each_player_has_one_turn_after_the_last_card():
    g = game(["blue 3", "blue 3"], ["white 3", "white 3"], deck=["green 3"])
    g.state.hints = 5
    turn(g, "discard 1")  # draws the last card
    assert "The deck is empty. Turns left: 2." in g.seen("player_0").text
    turn(g, "discard 1")
    assert len(g.state.hands[1]) == 1
    turn(g, "discard 1")
    assert not g.acting and g.terminated("player_0") and not g.truncated("player_0")


@pytest.mark.parametrize(("lost", "reward", "score"), [("zero", -3 / 25, 0), ("keep", 0, 3)])
def test_the_last_fuse(lost, reward, score):
    g = game(["red 5"], ["red 5"], deck=DECK, lost=lost)
    g.state.fireworks, g.state.fuses = [1, 2, 0, 0, 0], 1
    assert turn(g, "play 1") == pytest.approx(reward)
    assert not g.acting and f"Score: {score} of 25" in g.seen("player_0").text
    assert g.seen("player_0").progress == score / 25


def test_the_perfect_score_ends_the_game():
    g = game(["red 2"], ["red 1"], deck=("red 1",), colors=1, ranks=2, hand=1)
    g.state.fireworks = [1]
    assert turn(g, "play 1") == pytest.approx(1 / 2)
    assert not g.acting and all(g.seen(agent).success for agent in g.possible_agents)


def test_a_lower_target():
    g = game(["red 5"], ["red 5"], deck=DECK, lost="keep", target=3)
    g.state.fireworks, g.state.fuses = [1, 2, 0, 0, 0], 1
    assert not g.seen("player_0").success  # the game goes on
    turn(g, "play 1")
    assert g.seen("player_0").success


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 5), st.sampled_from([(5, 5), (2, 5), (3, 3)]))
def test_cards_are_conserved_and_knowledge_is_true(seed, players, size):
    g = Hanabi(num_players=players, colors=size[0], ranks=size[1], hand=2)
    g.reset(seed=seed)
    everything, rng = Counter(g.sizes.deck()), np.random.default_rng(seed)
    returns = 0.0
    while g.acting:
        (agent,) = g.acting
        g.play({agent: g.script(g.levels[int(rng.integers(3))], agent, rng)})
        returns += g.reward(agent)
        state = g.state
        held = [card for hand in state.hands for card in hand]
        found = Counter(state.deck) + Counter(state.discards)
        found += Counter((card.color, card.rank) for card in held)
        found += Counter((c, r) for c, top in enumerate(state.fireworks) for r in range(top))
        assert found == everything
        assert all(card.color in card.colors and card.rank in card.ranks for card in held)
        assert 0 <= state.hints <= g.sizes.hints and state.turns >= 0
    assert returns == pytest.approx(g.seen("player_0").progress)


def view(g):
    return View(g.sizes, g.state, g.possible_agents, moves(g.state, g.sizes, g.possible_agents))


def test_a_playable_card_is_told_so_that_it_is_known_to_be_playable():
    g = game(["red 4"] * 2, ["red 1", "white 4"], ["blue 1", "green 3"], deck=DECK)
    assert tell_playable(view(g), np.random.default_rng(0)) == "hint player_1 1"
    turn(g, "hint player_1 1")
    assert g.script("cautious", "player_1", np.random.default_rng(0)) == "play 1"


def test_known_useless_cards_are_discarded():
    g = game(["white 4", "red 1"], ["red 4"] * 2, deck=DECK)
    g.state.fireworks, g.state.hints = [1, 1, 1, 1, 1], 3
    assert discard_useless(view(g), np.random.default_rng(0)) is None
    g.state.hands[0][1].ranks = [0]
    assert discard_useless(view(g), np.random.default_rng(0)) == "discard 2"


def test_a_card_whose_lower_ranks_are_gone_is_useless():
    g = game(["white 4"], ["red 4"], deck=DECK)
    g.state.discards = [(0, 1), (0, 1)]
    found = view(g)
    assert [found.useless(0, rank) for rank in range(5)] == [False, False, True, True, True]
    assert not found.useless(1, 4)


def test_after_a_hint():
    card = cards("red 3", sizes=Sizes(3, 3, 2, 8, 3))[0]
    assert after(card, "red") == ((0,), (0, 1, 2)) and after(card, "2") == ((0, 1, 2), (0, 2))


def scores(level, games=15, **kwargs):
    g, rng, found = agentgym.make_parallel("Hanabi-v0", **kwargs).game, np.random.default_rng(0), []
    for i in range(games):
        g.begin(f"train/{i}")
        while g.acting:
            g.play({agent: g.script(level, agent, rng) for agent in g.acting})
        found.append(sum(g.state.fireworks) if g.state.fuses else 0)
    return float(np.mean(found))


def test_levels_are_graded():
    random, cautious, piers = (
        scores(level, num_players=3) for level in ("random", "cautious", "piers")
    )
    assert random < 1 and cautious > 15 and piers > cautious + 0.5


@pytest.mark.parametrize(
    "kwargs",
    [{"colors": 6}, {"ranks": 1}, {"hand": 6}, {"hints": 0}, {"fuses": 0}, {"target": 26},
     {"lost": "half"}],
)  # fmt: skip
def test_invalid_arguments(kwargs):
    with pytest.raises(ConfigError, match=f"{next(iter(kwargs))} must be"):
        agentgym.make_parallel("Hanabi-v0", **kwargs)


def test_hands_larger_than_the_deck():
    with pytest.raises(ConfigError, match="the deck has 4"):
        agentgym.make_parallel("Hanabi-v0", colors=1, ranks=2, hand=3)
