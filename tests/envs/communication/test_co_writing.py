"""CoWriting: the constraints of the text and the scripted players."""

from __future__ import annotations

import numpy as np
import pytest

import agentgym
from agentgym.envs.communication.co_writing import (
    LENGTHS,
    OPENINGS,
    CoWriting,
    State,
    checks,
    compose,
    links,
    words,
)
from agentgym.errors import ConfigError

FINE = "A small garden waits for rain today"


def text(*rounds, keywords=("apple", "river"), forbidden=("but",)):
    return checks(State([*keywords], [*forbidden], [list(said) for said in rounds]))


def broken(*rounds, **kwargs):
    return [rule for rule, holds in text(*rounds, **kwargs).items() if not holds]


def test_each_keyword_counts_exactly_once():
    assert broken((f"{FINE} apple", f"{FINE} RIVER.")) == []
    assert broken((f"{FINE} apple", f"{FINE} river apple")) == ["'apple' is used exactly once"]
    assert broken((f"{FINE} apples", f"{FINE} river")) == ["'apple' is used exactly once"]


def test_lengths_and_forbidden_words():
    assert broken(("apple river", FINE)) == ["round 1, player_0: 6 to 20 words"]
    long = " ".join(["word"] * (LENGTHS[-1] + 1))
    assert broken((f"{FINE} apple river", long)) == ["round 1, player_1: 6 to 20 words"]
    assert broken((f"{FINE} apple river", f"But {FINE}")) == [
        "round 1, player_1: no forbidden word"
    ]


def test_sentences_are_linked_with_the_player_before():
    first = ("A lonely garden with apple and river", "The purple castle is empty and cold")
    second = ("Every castle has a door and key", "Some garden is behind the long wall")
    assert broken(first, second) == []
    assert broken(first, second[::-1]) == ["round 2, player_0: linked", "round 2, player_1: linked"]


def test_a_link_is_long_and_no_keyword():
    assert links("The castle", "a castle", [])
    assert not links("The castle", "a castle", ["castle"])
    assert not links("The cave", "the cave", [])


def whole_game(level, task="train/0", **kwargs):
    game, rng = CoWriting(**kwargs), np.random.default_rng(0)
    game.begin(task)
    while game.acting:
        game.play({agent: game.script(level, agent, rng) for agent in game.acting})
    return game


@pytest.mark.parametrize("kwargs", [{}, {"num_players": 4, "rounds": 3}, {"keywords": 1}])
def test_dividing_players_fulfil_everything(kwargs):
    for task in ("train/0", "train/1", "test/0"):
        game = whole_game("divide", task, **kwargs)
        assert all(game.seen(agent).success for agent in game.possible_agents)
        assert game.reward("player_1") == 1
        assert "All rules are fulfilled." in game.seen("player_0").text


def test_levels_are_graded():
    returns = [
        np.mean([whole_game(level, f"train/{i}").reward("player_0") for i in range(10)])
        for level in ("random", "greedy", "divide")
    ]
    assert returns[2] == 1 and max(returns[:2]) < 0.8


def test_both_uses_of_a_shared_keyword_are_lost():
    game = whole_game("greedy")
    rules = "\n".join(rule for rule in game.seen("player_0").text.splitlines() if "Broken" in rule)
    assert f"Broken rule: {game.state.keywords[0]!r} is used exactly once." in rules


def test_sentences_of_scripted_players_have_the_right_length():
    for opening in OPENINGS:
        for count in range(9):
            assert len(words(compose(opening, ["apple"] * count))) in LENGTHS


@pytest.mark.parametrize("kwargs", [{"keywords": 0}, {"forbidden": 9}, {"rounds": 0}])
def test_invalid_arguments(kwargs):
    with pytest.raises(ConfigError, match=f"{next(iter(kwargs))} must be"):
        agentgym.make_parallel("CoWriting-v0", **kwargs)
