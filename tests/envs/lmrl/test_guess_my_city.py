from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.core import UnreadableAction
from agentgym.envs.lmrl.cities import cities, countries
from agentgym.envs.lmrl.city_answers import (
    MASKED,
    TOPICS,
    answers,
    closed_questions,
    is_open,
    leaks,
    lexicon,
    named,
    replies,
)
from agentgym.envs.lmrl.guess_my_city import INVALID, ONE_AT_A_TIME, GuessMyCity

EXAMPLES = Path(__file__).parents[4] / "shared" / "data" / "archer" / "guess_my_city.json"
NUMBERS = {name: i for i, city in enumerate(cities()) for name in city.names}
YES = """
rome: Is your city in Europe?
rome: Is your hometown located in southern Europe?
rome: Is your city the capital of Italy?
rome: Is the city known for its ancient ruins?
rome: Do people there speak Italian?
rome: Is it home to the Colosseum?
rome: Is your city in Italy or France?
rome: Is your city not in Asia?
rome: Is it located on the banks of the Tiber?
rome: Is your city inland?
tokyo: Does your city have more than 10 million people?
tokyo: Is the population over 5,000,000?
tokyo: Do more than ten million people live there?
tokyo: Is your city located on an island?
munich: Is it the capital of Bavaria?
munich: Is your city the capital of a state?
são paulo: Is your city the largest city in Brazil?
sydney: Is your city in the southern hemisphere?
mecca: Is your city a holy city?
dubai: Is your city known for its skyscrapers and modern architecture?
bogota: Is your city located at a high altitude?
bogota: Is your city in the Andes?
harbin: Are the winters very cold?
mumbai: Is your city known for its film industry?
istanbul: Does your city straddle two continents?
lima: Is your city on the west coast?
lima: Is your city on the Pacific Ocean?
lima: Is your city in the Americas?
mexico city: Is it in North or South America?
paris: Does it have fewer than 5 million inhabitants?
moscow: Does it get snow in the winter?
"""
NO = """
rome: Is your city in Asia?
rome: Is your city the capital of Spain?
rome: Is your city known for the Eiffel Tower?
rome: Is your city located in the province of Hebei?
rome: Is your city on the coast?
rome: Is your city in Italy but not the capital?
munich: Is your city the capital of Germany?
tokyo: Does your city have fewer than 3 million inhabitants?
sydney: Is your city the capital of its country?
lagos: Is Spanish spoken in your city?
paris: Is it in North or South America?
cairo: Is your city in the Americas?
"""
OPEN = """
rome: Is your city wibbly?
rome: Is it?
"""


def lines(text: str, said: int) -> list[Any]:
    split = [line.split(": ", 1) for line in text.strip().splitlines()]
    return [pytest.param(name, question, said, id=question) for name, question in split]


@pytest.mark.parametrize(
    ("name", "question", "said"), [*lines(YES, 1), *lines(NO, -1), *lines(OPEN, 0)]
)
def test_paraphrases(name: str, question: str, said: int):
    assert answers(question)[NUMBERS[name.replace("ã", "a")]] == said


def test_the_table():
    assert len(cities()) == 143
    assert len(NUMBERS) == sum(len(city.names) for city in cities()), "no name twice"
    assert {city.country for city in cities()} == set(countries())
    assert all(-90 <= c.latitude <= 90 and -180 <= c.longitude <= 180 for c in cities())
    assert sum("capital" in city.traits for city in cities()) == len(
        {city.country for city in cities() if "capital" in city.traits}
    ), "a country has one capital"
    assert all("coast" in city.traits or "inland" in city.traits for city in cities())
    told = {tuple(replies(q)[i] for q in closed_questions()) for i in range(len(cities()))}
    assert len(told) == len(cities()), "no two cities are alike in all answers"


def test_the_menu_is_understood_and_guesses_nothing_by_accident():
    for question in closed_questions():
        assert answers(question).all(), question
        assert (answers(question) == 1).any(), question
        assert not lexicon().mentions(question), question
    for number, city in enumerate(cities()):
        assert lexicon().mentions(named(city)) == {f"={number}"}


def test_open_questions_are_answered_and_never_name_the_city():
    for _, question, _ in TOPICS:
        assert is_open(question)
        for city, reply in zip(cities(), replies(question), strict=True):
            assert reply and not leaks(city, reply)
    assert replies("What is your city called by name?") == (MASKED,) * len(cities())
    country = replies("Which country are you from?")
    assert country[NUMBERS["rome"]] == "It is in Italy."
    assert country[NUMBERS["singapore"]] == MASKED
    assert country[NUMBERS["london"]] == "It is in the United Kingdom."
    assert replies("What language is spoken there?")[NUMBERS["lima"]] == "People speak Spanish."


def play(name: str, *questions: str, **kwargs: Any) -> list[tuple[Any, ...]]:
    env = GuessMyCity(**kwargs)
    env.reset(seed=0, options={"task": name})
    return [env.step(question) for question in questions]


def test_a_game():
    first, second, last = play(
        "lima", "what is the climate like", "Is your city Rome", "So, would that be Lima in Peru?"
    )
    assert first[0].startswith("Questions left: 19.\nWhat is the climate like? The climate is ")
    assert not first[2], "the letters of a name inside a word are no guess"
    assert second[0].endswith("Is your city Rome? No.") and second[1] == -1
    assert last[1:3] == (0.0, True) and last[-1]["success"]
    assert last[-1]["progress"] == 1


def test_other_names_win_too():
    assert play("new york", "Is it NYC?")[0][2]
    assert play("sao paulo", "Is it São Paulo?")[0][2]


@pytest.mark.parametrize(
    "action", ["", "?!", "word " * 41, "x" * 10_000, UnreadableAction("Is your city Lima?")]
)
def test_what_is_no_question_is_used_up(action: str):
    observation, reward, terminated, _, info = play("lima", action)[0]
    assert (reward, terminated, info["valid"]) == (-1.0, False, False)
    assert observation.startswith("Questions left: 19.") and observation.endswith(INVALID)
    assert len(observation) < 300


def test_two_cities_in_a_question_are_refused():
    observation, reward, terminated, _, info = play("lima", "Is it Rome or Lima?")[0]
    assert (reward, terminated, info["valid"]) == (-1.0, False, False)
    assert observation.endswith(ONE_AT_A_TIME)


def test_yes_or_no_only():
    closed = play("lima", "Which country is it?", open_questions=False)[0]
    assert closed[0].endswith(INVALID) and not closed[-1]["valid"]
    env = GuessMyCity(open_questions=False)
    assert "sentence" in GuessMyCity().instructions and "sentence" not in env.instructions


def test_a_question_that_is_not_understood():
    unknown = play("lima", "Is your city wibbly?")[0]
    assert unknown[0].endswith("wibbly? No.") and not unknown[-1]["valid"] and unknown[1] == -1


def test_other_oracles_and_their_leaks():
    said = iter(["Yes, it is in Peru.", "I come from Lima, Peru.", "Hmm."])
    first, second, third = play("lima", "Is it big?", "Where?", "So?", oracle=lambda *_: next(said))
    assert first[0].endswith("Yes, it is in Peru.")
    assert second[0].endswith(MASKED) and "Lima" not in second[0]
    assert third[-1]["valid"]


def test_the_last_question_ends_the_game():
    results = play("lima", *["Is your city Rome?"] * 20)
    assert [result[2] for result in results] == [False] * 19 + [True]
    assert not results[-1][4]["success"] and sum(result[1] for result in results) == -20


@pytest.mark.parametrize(("open_questions", "most"), [(True, 4), (False, 10)])
def test_the_expert_names_every_city(open_questions: bool, most: float):
    env = GuessMyCity(open_questions=open_questions)
    turns = []
    for city in cities():
        env.reset(seed=0, options={"task": city.name})
        for turn in range(1, 21):
            _, _, terminated, _, info = env.step(env.expert() or "")
            if terminated:
                assert info["success"], city.name
                turns.append(turn)
                break
    assert len(turns) == len(cities())
    assert sum(turns) / len(turns) < most


@pytest.mark.slow
@pytest.mark.skipif(not EXAMPLES.exists(), reason="needs the example conversations")
def test_most_questions_of_real_conversations_are_understood_and_answered_alike():
    asked = understood = told = alike = 0
    for example in json.loads(EXAMPLES.read_text()):
        number = NUMBERS.get(example["word"].split(",")[0])
        for line in example["conversation"] if number is not None else []:
            found = re.match(r"(?s)(.*?\?)\s*(.*)", line)
            question = found[1].split("\n")[-1].strip() if found else ""
            if not found or not question.startswith(("Is ", "Does ", "Do ", "Are ", "Can ")):
                continue
            asked += 1
            answer = 1 if lexicon().mentions(question) else int(answers(question)[number])
            understood += answer != 0
            said = found[2].lower()
            if said.startswith(("yes", "no")) and answer and not lexicon().mentions(question):
                told += 1
                alike += (answer > 0) == said.startswith("yes")
    assert asked > 7000
    assert understood / asked > 0.9
    # The recorded answers are from a language model and often contradict each other.
    assert alike / told > 0.72


@given(st.text(max_size=80))
def test_any_text_is_survived(text: str):
    assert len(replies(text)) == len(replies("Is it " + text)) == len(cities())
    lexicon().mentions(text)


def test_bad_arguments():
    with pytest.raises(ValueError, match="max_questions"):
        GuessMyCity(max_questions=0)
