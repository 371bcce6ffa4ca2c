"""Codenames: boards, clues, guesses, ends, hidden keys, scripted players."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.communication.associations import link, topics, vocabulary
from agentgym.envs.communication.codenames import Codenames, State, board, covered, give, guess
from agentgym.envs.communication.codenames_players import (
    allowed,
    expected_gain,
    literal_clue,
    strategic_clue,
    strategic_guess,
)
from agentgym.multiagent.rules import InvalidMove

RED = ["lion", "tiger", "shark", "apple", "plum", "moon", "star", "owl", "snow"]
BLUE = ["wolf", "cup", "table", "pen", "boat", "hat", "bell", "rope"]
REST = ["bat", "fork", "ring", "gold", "mask", "rose", "ship"]
KEY = dict.fromkeys(RED, "red") | dict.fromkeys(BLUE, "blue") | dict.fromkeys(REST, "neutral")
KEY["bear"] = "assassin"


def game_of_key(**kwargs) -> Codenames:
    game = Codenames(**kwargs)
    game.begin("train/0")
    game.state.key = dict(KEY)
    game.play({"player_0": "[zzzz 3]"})
    return game


def test_boards():
    keys = [board(f"{split}/{i}") for split in ("train", "test") for i in range(30)]
    for key in keys:
        count = Counter(key.values())
        assert count == {"red": 9, "blue": 8, "neutral": 7, "assassin": 1}
        assert list(key) == sorted(key)  # the order reveals nothing
    assert len({tuple(key) for key in keys}) == 60


def test_the_list_of_words():
    words = vocabulary()
    assert len(words) == 199 and not set(words) & set(topics())
    for name, links in topics().items():
        assert name.isalpha() and name.islower() and len(links) >= 6
    assert all(word.isalpha() and word.islower() for word in words)
    assert (
        link("animal", "lion") == 2 and link("animal", "eagle") == 1 and link("animal", "pen") == 0
    )
    assert 0 < link("tiger", "lion") < 2 and link("nonsense", "lion") == 0


@pytest.mark.parametrize(
    ("clue", "fine"),
    [("animal", True), ("lion", False), ("lions", False), ("app", False), ("sea", True)],
)
def test_a_clue_must_not_overlap_with_a_covered_word(clue, fine):
    assert allowed(clue, ["lion", "apple", "bat"]) is fine


@pytest.mark.parametrize(
    ("said", "move"),
    [
        ("[fruit 2]", "[fruit 2]"),
        (" Fruit 2 ", "[fruit 2]"),
        ("[ Été, 3 ]", "[été 3]"),
        ("**[fruit: 2]**", "[fruit 2]"),
        ("(fruit, \uff12)", "[fruit 2]"),
        ("fruit \u2013 2", "[fruit 2]"),
        ("[fruit 2] [food 3]", None),
        ("[fruit 2.5]", None),
        ("[fruit \u22122]", None),
        ("not fruit 2", None),
        ("[fruit 0]", None),
        ("[fruit 10]", None),
        ("[fruit]", None),
        ("[two words 2]", None),
        ("fruit2", None),
        ("[lion 2]", None),
        ("[lionlike 2]", None),
        ("x" * 10**7, None),
    ],
)
def test_what_is_a_clue(said, move):
    game = Codenames()
    game.begin("train/0")
    game.state.key = dict(KEY)
    game.play({"player_0": said})
    assert game.steps["player_0"].valid == (move is not None)
    if move:
        assert game.state.log == [f"red clue: {move}"]
        assert game.acting == ("player_1",)


def test_a_covered_word_is_no_clue_but_an_uncovered_one_is():
    game = game_of_key()
    game.play({"player_1": "lion"})
    game.play({"player_1": "[pass]"})
    game.play({"player_2": "[lion 1]"})
    assert game.steps["player_2"].valid


def test_one_more_guess_than_the_number_then_the_others():
    game = game_of_key()
    for word in RED[:4]:
        assert game.acting == ("player_1",)
        game.play({"player_1": f"[{word}]"})
    assert game.acting == ("player_2",) and game.state.clues[-1].found == 4
    assert game.info("player_0")["progress"] == pytest.approx(4 / 9)


@pytest.mark.parametrize(("word", "progress"), [("fork", 0), ("wolf", 1 / 8)])
def test_a_wrong_word_ends_the_turn(word, progress):
    game = game_of_key()
    game.play({"player_1": word})
    assert game.acting == ("player_2",) and not game.info("player_3")["success"]
    assert game.info("player_3")["progress"] == pytest.approx(progress)


def test_the_assassin_loses():
    game = game_of_key()
    game.play({"player_1": "bear"})
    assert not game.acting
    assert [game.reward(a) for a in game.possible_agents] == [-1, -1, 1, 1]
    assert "\nneutral: " in game.steps["player_0"].text
    assert "\nneutral: " not in game.steps["player_1"].text


def test_whoever_uncovers_the_last_word_of_a_team_its_team_wins():
    state = State(dict(KEY), shown=BLUE[1:])
    give(state, "animal", 2)
    guess(state, "wolf")
    assert state.winner == 1
    state = State(dict(KEY), shown=RED[1:])
    give(state, "animal", 1)
    guess(state, "lion")
    assert state.winner == 0


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_guessers_see_nothing_of_the_key(seed):
    """Two keys that agree on the uncovered words look the same to both guessers."""
    rng = np.random.default_rng(seed)
    one, two = Codenames(), Codenames()
    for game in (one, two):
        game.begin(f"train/{seed}")
    hidden = list(one.state.key)
    while one.acting:
        kinds = [one.state.key[word] for word in covered(one.state)]
        mixed = [kinds[i] for i in rng.permutation(len(kinds))]
        two.state.key.update(zip(covered(two.state), mixed, strict=True))
        two._observe({})
        for agent in ("player_1", "player_3"):
            assert one.steps[agent].observation == two.steps[agent].observation
            assert one.steps[agent].admissible == two.steps[agent].admissible
            assert one.steps[agent].progress == two.steps[agent].progress
        two.state.key.update(one.state.key)
        move = one.script("literal", one.acting[0], rng)
        one.play({one.acting[0]: move})
        two.play({two.acting[0]: move})
    assert len(covered(one.state)) < len(hidden)


def test_expected_gain_by_hand():
    links = {"a": 2.0, "b": 2.0, "c": 1.0, "d": 0.0}
    assert expected_gain(links, {"a": "own", "b": "own", "c": "neutral", "d": "own"}, 2) == 2
    # a tie: right half of the time, a loss of 1.5 otherwise
    kinds = {"a": "own", "b": "other", "c": "own", "d": "own"}
    assert expected_gain(links, kinds, 1) == pytest.approx(0.5 - 0.75)
    # after the right word, the second guess is certainly wrong
    assert expected_gain(links, kinds, 2) == pytest.approx(0.5 - 0.75 + 0.5 * -1.5)


def test_the_strategic_spymaster_avoids_the_assassin():
    rng = np.random.default_rng(0)
    kinds = {"lion": "own", "tiger": "own", "bear": "assassin", "moon": "own", "comet": "own"}
    assert literal_clue(kinds, rng)[0] == "animal" or literal_clue(kinds, rng)[1] == 2
    assert strategic_clue(kinds, rng) == ("space", 2)


def test_the_strategic_guesser_remembers_what_is_owed():
    rng = np.random.default_rng(0)
    words = ["moon", "pen", "lion"]
    assert strategic_guess(words, ("space", 1), 0, [], [], rng) == "moon"
    assert strategic_guess(words, ("space", 1), 1, ["animal"], [], rng) == "lion"
    assert strategic_guess(words, ("space", 1), 1, ["animal"], ["animal"], rng) is None
    assert strategic_guess(words, ("space", 1), 1, [], [], rng) is None


def wins(red: str, blue: str, games: int = 40) -> int:
    game, rng, count = Codenames(), np.random.default_rng(1), 0
    for i in range(games):
        game.reset(seed=i)
        while game.acting:
            (agent,) = game.acting
            game.play({agent: game.script(red if agent < "player_2" else blue, agent, rng)})
        count += game.state.winner == 0
    return count


def test_players_are_graded():
    assert wins("strategic", "random") > 35 and wins("random", "strategic") < 5
    assert wins("strategic", "literal") > wins("literal", "strategic") + 8


def test_the_menu_has_all_that_may_be_said_and_bad_arguments_raise():
    game = Codenames(clues="menu")
    game.begin("train/3")
    options = game.steps["player_0"].admissible
    assert set(options) < set(game.actions) and len(set(game.actions)) == len(game.actions)
    game.play({"player_0": "weatherman 2"})
    assert not game.steps["player_0"].valid
    game.play({"player_0": options[0].strip("[]")})
    assert game.steps["player_0"].valid
    with pytest.raises(ValueError, match="clues must be"):
        Codenames(clues="sung")


def test_the_limit_of_turns():
    game = Codenames(max_turns=3)
    game.begin("train/0")
    for said in ("[zzzz 1]", "[pass]", "[zzzz 1]"):
        game.play({game.acting[0]: said})
    assert game.acting == () and game.truncated("player_0") and not game.terminated("player_0")
    assert "It is the turn of player_3." in game.steps["player_0"].text


@pytest.mark.parametrize(
    "form", ["{}", "Clue: {}", "My clue is [{}].", "**Clue:** [{}]", "\\[{}\\]"]
)
def test_a_clue_may_have_a_label(form: str):
    game = Codenames()
    game.reset(seed=0)
    assert game._parse(game.acting[0], form.format("galaxy 2")) == "[galaxy 2]"
    with pytest.raises(InvalidMove):
        game._parse(game.acting[0], form.format("galaxy 2 or planet 1"))
