"""TheoryOfMind: beliefs of a classic story by hand, lies, knowledge in Werewolf, questions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.social_deduction.deduction import DOCTOR, SEER, VILLAGER, WOLF
from agentgym.envs.social_deduction.house_story import UNKNOWN, House, played
from agentgym.envs.social_deduction.theory_of_mind import ORDERS, TheoryOfMind, house_questions
from agentgym.envs.social_deduction.village_story import agreed, possible
from agentgym.envs.social_deduction.village_story import played as village_played
from agentgym.errors import ConfigError
from agentgym.utils.fast_pcg64 import Draws


def sally_and_anne() -> House:
    house = House(
        {"Sally": "hall", "Anne": "hall", "Ben": "hall"},
        {"basket": "hall", "box": "hall", "jar": "garden"},
        {"ball": "basket"},
    )
    house.begin()
    house.go("Sally", "garden")
    house.move("Anne", "ball", "box")
    return house


def test_a_person_who_left_keeps_an_old_belief():
    house = sally_and_anne()
    assert house.beliefs[("Sally",)] == {"ball": "basket"}
    assert house.beliefs[("Anne",)] == house.beliefs["Anne", "Ben"] == {"ball": "box"}
    assert house.beliefs["Anne", "Sally"] == house.beliefs["Sally", "Anne"] == {"ball": "basket"}


def test_a_claim_is_believed_by_those_who_hear_it():
    house = sally_and_anne()
    house.go("Anne", "garden")
    house.tell("Anne", "ball", "jar")
    assert house.beliefs[("Sally",)]["ball"] == house.beliefs["Sally", "Anne"]["ball"] == "jar"
    assert house.beliefs[("Anne",)]["ball"] == "box", "a liar keeps its belief"
    assert house.beliefs["Anne", "Sally"]["ball"] == "jar"
    assert house.beliefs["Ben", "Sally"]["ball"] == "basket"


def test_a_missing_thing_is_nowhere():
    house = sally_and_anne()
    house.go("Anne", "garden")
    house.go("Sally", "hall")
    house.look("Sally", "basket")
    assert house.beliefs[("Sally",)]["ball"] == UNKNOWN
    assert house.beliefs["Ben", "Sally"]["ball"] == UNKNOWN
    assert house.beliefs["Anne", "Sally"]["ball"] == "basket"
    house.look("Sally", "box")
    assert house.beliefs[("Sally",)]["ball"] == house.beliefs["Ben", "Sally"]["ball"] == "box"


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 40))
def test_the_state_of_a_house(seed: int, people: int, events: int):
    house = played(Draws(seed), people, events)
    assert len(house.story) == events + 3
    assert set(house.places.values()) <= {*house.containers}
    for belief in house.beliefs.values():
        assert belief.keys() == house.places.keys()
        assert set(belief.values()) <= {*house.containers, UNKNOWN}
    assert len(house_questions(house, "second")) == 2 * people * (people - 1)
    told = "\n".join(house.story)
    if "says" not in told and "opens" not in told and "goes" not in told:
        here = {room: house.present(room) for room in house.rooms.values()}
        for names in here.values():  # nobody moved between rooms: those together agree
            assert len({str(house.beliefs[(name,)]) for name in names}) == 1


def test_knowledge_of_roles():
    roles = [WOLF, WOLF, SEER, DOCTOR, VILLAGER, VILLAGER, VILLAGER]
    assert all(agreed(possible(roles, 0, {}, [])))
    villager = agreed(possible(roles, 4, {}, []))
    assert not any(villager[other] for other in (0, 1, 2, 3, 5, 6))
    seer = agreed(possible(roles, 2, {0: True, 4: False}, []))
    assert seer == [1, 0, 1, 0, 1, 0, 0]
    seer = agreed(possible(roles, 2, {0: True}, [1]))
    assert all(seer), "both wolves are found, so nobody else is"


def test_a_game_is_reported_and_asked_about():
    story, questions = village_played(3)
    assert sum("is the werewolf" in line for line in story) == 2
    answers = [answer for _, answer in questions]
    assert "yes" in answers and "no" in answers
    assert village_played(3) == (story, questions)


def test_half_of_the_answers_differ_from_reality():
    env, tricky = TheoryOfMind(order="second", questions=6, events=20), []
    for number in range(30):
        env.reset(seed=0, options={"task": f"test/{number}"})
        tricky += [question.tricky for question in env.state.questions]
    assert len(tricky) == 180 and 0.4 < sum(tricky) / 180 < 0.6


@pytest.mark.parametrize("order", [*ORDERS, "mixed"])
def test_the_expert_is_right(order: str):
    env = TheoryOfMind(order=order, questions=2)  # type: ignore[arg-type]
    env.reset(seed=0)
    total, over, info = 0.0, False, {}
    while not over:
        _, reward, over, _, info = env.step(env.expert() or "")
        total += reward
    assert total == pytest.approx(1) and info["success"]


def test_a_wrong_answer_gets_nothing():
    env = TheoryOfMind(episode="village", questions=1)
    _, info = env.reset(seed=0)
    wrong = next(answer for answer in info["admissible"] if answer != env.expert())
    _, reward, over, _, info = env.step(wrong)
    assert (reward, over, info["success"], info["progress"]) == (0, True, False, 0)


@pytest.mark.parametrize(
    "wrong",
    [{"questions": 0}, {"people": 7}, {"events": 0}, {"episode": "village", "order": "first"}],
)
def test_arguments_are_checked(wrong: dict):
    with pytest.raises(ConfigError):
        TheoryOfMind(**wrong)
