"""ReferentialGame: scenes, descriptions, picks, observations, scripted players."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest

from agentgym.envs.communication.pragmatics import (
    WORDS,
    best_choice,
    convention,
    descriptions,
    literal,
    plain_choice,
    pragmatic,
    understood,
)
from agentgym.envs.communication.referential import ReferentialGame, make_state

BLUE_SQUARE = ("small", "plain", "blue", "square")
BLUE_CIRCLE = ("small", "plain", "blue", "circle")
GREEN_SQUARE = ("small", "plain", "green", "square")
SCENE = (BLUE_SQUARE, BLUE_CIRCLE, GREEN_SQUARE)


def test_scenes():
    for i in range(30):
        state = make_state(f"train/{i}", 5, 8, 2)
        for scene, order, target in zip(state.scenes, state.orders, state.targets, strict=True):
            assert len(set(scene)) == 8 and sorted(order) == list(range(8)) and 0 <= target < 8
            assert all(len({thing[a] for thing in scene}) <= 2 for a in range(4))
            assert all(word in WORDS for thing in scene for word in thing)


def test_a_round_by_hand():
    game = ReferentialGame(rounds=2, word_cost=0.1)
    game.begin("train/0")
    state = game.state
    target, scene = state.targets[0], state.scenes[0]
    assert f"* {' '.join(scene[target])}" in game.steps["player_0"].text
    assert "*" not in game.steps["player_1"].text and game.acting == ("player_0",)
    game.play({"player_0": "the  One"})
    assert "says: the One" in game.steps["player_1"].text and game.acting == ("player_1",)
    game.play({"player_1": " ".join(scene[target]).upper()})
    for agent in game.possible_agents:
        assert game.info(agent)["reward_terms"] == {"task": 0.5, "words": -0.1, "invalid": 0}
        assert "Round 1: 'the One'. The target was" in game.steps[agent].text
    game.play({"player_0": "it"})
    wrong = state.orders[1].index(state.targets[1]) % 8 + 2
    game.play({"player_1": str(wrong if wrong <= 8 else 1)})
    assert not game.acting and not game.steps["player_0"].success
    assert game.steps["player_1"].progress == 0.5
    assert game.reward("player_1") == pytest.approx(-0.05)
    missed = " ".join(state.scenes[1][state.targets[1]])
    assert f"The target was {missed}." in game.steps["player_0"].text
    assert f"The target was {missed}." not in game.steps["player_1"].text


@pytest.mark.parametrize("said", ["", "a b c", "x" * 21, "x " * 10**6, "x" * 10**7])
def test_too_much_or_too_little_is_no_description(said):
    game = ReferentialGame()
    game.begin("train/0")
    game.play({"player_0": said})
    assert not game.steps["player_0"].valid and game.acting == ("player_0",)


def test_words_joined_by_commas_are_words():
    game = ReferentialGame()
    game.begin("train/0")
    game.play({"player_0": "small,plain,red"})
    assert not game.steps["player_0"].valid
    game.play({"player_0": "Small,red"})
    assert game.state.said == ["Small red"]
    game.play({"player_1": "1"})
    assert game.info("player_0")["reward_terms"]["words"] == pytest.approx(-0.2 / 5)


def test_scripted_listeners_do_not_mind_capitals():
    game = ReferentialGame(max_words=1)
    for task in range(5):
        picks = set()
        for change in (str.lower, str.upper):
            game.begin(f"train/{task}")
            word = game.script("pragmatic", "player_0", np.random.default_rng(0))
            game.play({"player_0": change(word)})
            picks.add(game.script("pragmatic", "player_1", np.random.default_rng(0)))
        assert len(picks) == 1


def test_the_listener_does_not_see_which_is_meant():
    texts = set()
    for target in range(8):
        game = ReferentialGame()
        game.begin("train/5")
        game.state.targets[0] = target
        game.play({"player_0": "red"})
        texts.add(game.steps["player_1"].observation)
    assert len(texts) == 1


def test_the_orders_tell_nothing():
    """All numbers are right equally often, for any position of the target."""
    same = total = 0
    for i in range(200):
        state = make_state(f"train/{i}", 5, 8, 2)
        for order, target in zip(state.orders, state.targets, strict=True):
            same += order.index(target) == target
            total += 1
    assert 0.09 < same / total < 0.16


@pytest.mark.parametrize(
    ("said", "fits"),
    [
        ("blue", [0, 1]),
        ("the blue square", [0]),
        ("not blue", [2]),
        ("blue green", [0, 1, 2]),
        ("not the blue", [2]),
        ("it isn\u2019t blue", [2]),
        ("no\u00a0blue", [2]),
        ("blue\u2011square", [0]),
        ("hello", [0, 1, 2]),
        ("", [0, 1, 2]),
    ],
)
def test_the_literal_listener(said, fits):
    assert literal(SCENE, said) == fits


def test_the_pragmatic_listener_of_frank_and_goodman():
    """ "blue" refers to the square, because "circle" is the better description of the circle."""
    assert plain_choice(SCENE, 1, 1, 0.0) == "circle" and plain_choice(SCENE, 2, 1, 0.0) == "green"
    assert pragmatic(SCENE, 1, 0.0) == {"blue": [0], "circle": [1], "green": [2]}
    assert literal(SCENE, "blue") == [0, 1] and understood(SCENE, "blue", 1, 0.0) == [0]
    assert best_choice(SCENE, 0, 1, 0.0) == "blue"
    assert understood(SCENE, "square", 1, 0.0) == [0, 2]  # unused descriptions are taken literally


def test_what_is_best_for_a_literal_listener_by_brute_force():
    for i in range(20):
        state = make_state(f"test/{i}", 1, 8, 2)
        scene = tuple(state.scenes[0])
        for target in range(8):
            gains = {
                said: (target in fits) / len(fits) - 0.1 * len(said.split())
                for said in descriptions(scene[target], 2)
                if (fits := literal(scene, said))
            }
            chosen = plain_choice(scene, target, 2, 0.1)
            assert gains[chosen] == pytest.approx(max(gains.values()))


def test_the_convention_is_optimal_by_brute_force():
    for i in range(25):
        scene = tuple(make_state(f"test/{i}", 1, 4, 2).scenes[0])
        code = convention(scene, 1)
        assert all(set(said.split()) <= set(thing) for said, thing in code.items())
        assert len(set(code.values())) == len(code)
        words = sorted({word for thing in scene for word in thing})
        best = max(
            sum(word in thing for word, thing in zip(some, scene, strict=True))
            for some in permutations([*words, "-", "-", "-"], len(scene))
        )
        assert len(code) == best
        assert convention(tuple(reversed(scene)), 1) == code  # in any order


def play(speaker: str, listener: str, **kwargs) -> float:
    game, rng, total = ReferentialGame(**kwargs), np.random.default_rng(0), 0.0
    for i in range(30):
        game.begin(f"test/{i}")
        while game.acting:
            (agent,) = game.acting
            level = speaker if agent == "player_0" else listener
            game.play({agent: game.script(level, agent, rng)})
            total += game.reward(agent)
    return total / 30


def test_players_are_graded():
    levels = ("random", "literal", "pragmatic", "convention")
    gains = [play(level, level) for level in levels]
    assert all(low < high - 0.1 for low, high in pairwise(gains))
    assert gains[-1] == pytest.approx(0.9)  # one word for each


def test_a_menu_of_all_short_descriptions():
    game = ReferentialGame(speech="menu")
    game.begin("train/0")
    said = game.steps["player_0"].admissible
    sizes = [3, 3, 4, 4]
    pairs = sum(a * b for i, a in enumerate(sizes) for b in sizes[:i])
    assert len(said) == sum(sizes) + pairs and set(said) < set(game.actions)
    game.play({"player_0": "hello"})
    assert not game.steps["player_0"].valid


LEWIS = {"rounds": 1, "objects": 4, "attributes": 1, "values": 4, "max_words": 1}


def test_a_listener_that_picks_by_words():
    game = ReferentialGame(**LEWIS, speech="menu", pick_by="words")
    game.begin("train/0")
    shapes = {"circle", "square", "star", "heart"}
    assert set(game.actions) == set(game.steps["player_0"].admissible) == shapes
    game.play({"player_0": "star"})
    picks = game.steps["player_1"].admissible
    (scene,), (order,), target = game.state.scenes, game.state.orders, game.state.targets[0]
    assert list(picks) == [" ".join(scene[i]) for i in order] and set(picks) == shapes
    assert game.steps["player_1"].text.splitlines()[1:] == [f"- {pick}" for pick in picks]
    game.play({"player_1": "1"})
    assert not game.steps["player_1"].valid and "circle" in game.steps["player_1"].observation
    game.play({"player_1": scene[target][0].upper()})
    assert game.steps["player_1"].success and not game.acting
    assert not game.steps["player_1"].admissible


@pytest.mark.parametrize("pick_by", ["number", "words"])
@pytest.mark.parametrize("attributes", [1, 2, 3])
def test_fewer_attributes(attributes, pick_by):
    rules = {**LEWIS, "attributes": attributes, "pick_by": pick_by}
    game = ReferentialGame(**rules)
    names = ["size", "pattern", "colour", "shape"]
    for i, name in enumerate(names):
        assert (f"a {name} (" in game.instructions) == (i >= 4 - attributes)
    game.begin("train/0")
    assert all(len(thing) == attributes for thing in game.state.scenes[0])
    assert play("pragmatic", "pragmatic", **rules) >= play("literal", "literal", **rules) > 0
    if attributes == 1:
        assert play("literal", "literal", **rules) == pytest.approx(0.9)  # one word says all


@pytest.mark.parametrize(
    "wrong",
    [
        {"objects": 1},
        {"objects": 17},
        {"values": 1},
        {"rounds": 0},
        {"max_words": 9},
        {"word_cost": -1},
        {"speech": "sung"},
        {"attributes": 0},
        {"attributes": 5},
        {"attributes": 1, "objects": 5, "values": 4},
        {"attributes": 2, "objects": 5},
        {"pick_by": "pointing"},
    ],
)
def test_bad_arguments(wrong):
    with pytest.raises(ValueError):
        ReferentialGame(**wrong)


@pytest.mark.parametrize(
    "form", ["{}", "Action: {}", "Description: {}", '"{}"', "**{}**", "\\boxed{{{}}}"]
)
def test_marks_are_no_part_of_a_description(form: str):
    game = ReferentialGame()
    game.reset(seed=0)
    assert game._parse("player_0", form.format("red circle")) == "red circle"
