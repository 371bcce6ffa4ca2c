"""TwentyQuestions for two: questions, answers, guesses, observations, scripted players."""

from __future__ import annotations

import numpy as np
import pytest

from agentgym.envs.communication.twenty_questions import (
    NO,
    UNKNOWN,
    YES,
    TwentyQuestionsTwoPlayer,
    candidates,
    truth,
)
from agentgym.envs.lmrl.objects import things


def new(task: str = "lion", **kwargs) -> TwentyQuestionsTwoPlayer:
    game = TwentyQuestionsTwoPlayer(**kwargs)
    game.begin(task)
    return game


def test_a_game_by_hand():
    game = new()
    assert game.acting == ("player_1",)
    game.play({"player_1": "is it an ANIMAL"})
    assert game.acting == ("player_0",) and game.reward("player_1") == 0
    assert game.steps["player_0"].text.endswith("Question to answer: Is it an ANIMAL?")
    game.play({"player_0": "yes"})
    assert [game.reward(a) for a in game.possible_agents] == [-1, -1]
    assert game.state.asked == [("Is it an ANIMAL?", YES)]
    game.play({"player_1": "Is it a tiger?"})  # the game answers a wrong guess
    assert game.acting == ("player_1",) and game.state.asked[-1] == ("Is it a tiger?", NO)
    assert game.reward("player_0") == -1
    game.play({"player_1": "Is it a lion?"})
    assert not game.acting and game.reward("player_0") == game.reward("player_1") == 0
    assert game.steps["player_0"].success and game.steps["player_1"].progress == 1


def test_the_last_question_loses_unless_it_is_right():
    game = new(max_questions=2)
    game.play({"player_1": "Is it alive?"})
    game.play({"player_0": YES})
    game.play({"player_1": "Can you eat it?"})
    game.play({"player_0": NO})
    assert not game.acting and not game.steps["player_1"].success
    assert "You have lost." in game.steps["player_1"].text
    assert "lion" not in game.steps["player_1"].text
    game = new(max_questions=1)
    game.play({"player_1": "Is it a lion?"})
    assert game.steps["player_1"].success


@pytest.mark.parametrize(
    "said", ["", "lion", "What is it?", "Is it a lion.", "x" * 10**7, "Is " * 50]
)
def test_what_is_no_question_costs_the_asker_only(said):
    game = new(invalid_penalty=1)
    game.play({"player_1": said})
    assert game.acting == ("player_1",) and not game.state.asked
    assert game.reward("player_1") == -1 and game.reward("player_0") == 0


@pytest.mark.parametrize(
    ("said", "answer"),
    [("NO", NO), ("i do not know", UNKNOWN), ("Yes!", YES), ("It is a lion", None)],
)
def test_what_is_an_answer(said, answer):
    game = new()
    game.play({"player_1": "Is it blue?"})
    game.play({"player_0": said})
    assert game.steps["player_0"].valid == (answer is not None)
    assert [a for _, a in game.state.asked] == ([answer] if answer else [])


def test_the_asker_sees_nothing_of_the_thing():
    texts = set()
    for task in [thing.name for thing in things()[::50]]:
        game = new(task, question_menu=True)
        for question, answer in (
            ("Is it alive?", YES),
            ("Is it red?", NO),
            ("Is it big?", UNKNOWN),
        ):
            game.play({"player_1": question})
            game.play({"player_0": answer})
        step = game.steps["player_1"]
        texts.add((step.observation, step.progress, step.admissible))
    assert len(texts) == 1


def test_facts():
    lion = next(i for i, thing in enumerate(things()) if thing.name == "lion")
    assert truth("Is it an animal?", lion) == YES and truth("Does it have wheels?", lion) == NO
    assert truth("Is it qwerty?", lion) == UNKNOWN
    left = [things()[i].name for i in candidates([("Is it an animal?", YES), ("Can it fly?", YES)])]
    assert "eagle" in left and "lion" not in left
    contradiction = [("Is it an animal?", YES), ("Is it an animal?", NO)]
    assert len(candidates(contradiction)) == len(things())


def play(answerer: str, asker: str, task: str) -> float:
    game, rng, total = new(task), np.random.default_rng(0), 0.0
    while game.acting:
        (agent,) = game.acting
        game.play({agent: game.script(answerer if agent == "player_0" else asker, agent, rng)})
        total += game.reward("player_1")
    return total if game.steps["player_0"].success else total - 1000


@pytest.mark.slow
def test_the_expert_finds_every_thing_and_players_are_graded():
    tasks = [thing.name for thing in things()]
    found = [play("expert", "expert", task) for task in tasks]
    assert min(found) >= -10
    simple = [play("simple", "simple", task) for task in tasks[::5]]
    assert np.mean(found) > np.mean(simple) + 1
    assert sum(play("random", "expert", task) < -1000 for task in tasks[::5]) > 30
    assert sum(play("expert", "random", task) < -1000 for task in tasks[::5]) > 30


def test_the_menu_is_numbered_and_bad_arguments_raise():
    game = new(question_menu=True)
    assert len(set(game.actions)) == len(game.actions)
    assert set(game.steps["player_1"].admissible) < set(game.actions)
    with pytest.raises(ValueError, match="max_questions"):
        TwentyQuestionsTwoPlayer(max_questions=0)
