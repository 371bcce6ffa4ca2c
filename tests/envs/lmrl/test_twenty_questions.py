from __future__ import annotations

from typing import Any

import gymnasium
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.core import UnreadableAction
from agentgym.envs.lmrl.objects import things
from agentgym.envs.lmrl.oracle import INVALID, make_oracle, verdict
from agentgym.envs.lmrl.questions import is_several
from agentgym.envs.lmrl.tables import entries
from agentgym.envs.lmrl.traits import rows
from agentgym.envs.lmrl.twenty_questions import (
    TwentyQuestions,
    answers,
    guessed,
    guesses,
    trait_questions,
    well_formed,
)

NUMBERS = {name: i for i, thing in enumerate(things()) for name in thing.names}
YES = """
apple: Is it something you can eat?
apple: Is the object a type of fruit?
apple: Is it a fruit or a vegetable?
carrot: Is it a fruit or a vegetable?
hammer: Is it used to hit things?
hammer: Could it be found in a garage?
hammer: Is it made out of metal or wood?
hammer: Is it not alive?
dog: Is it a living creature?
dog: Is it a domesticated animal?
dog: Does it have four legs?
dog: Is it bigger than a cat?
dog: Is it smaller than a horse?
dog: Is it bigger than a breadbox but smaller than a car?
dog: Is it a mammal that people keep as pets?
eagle: Is it a bird?
eagle: Is it an animal that can fly?
penguin: Is it an animal that cannot fly?
penguin: Does it live in cold weather?
piano: Is it a musical instrument?
piano: Does it have strings or keys?
piano: Is it heavy?
flute: Is it light?
car: Is it a mode of transportation?
car: Does it have wheels?
car: Does it travel on land?
car: Can it be driven on the road?
airplane: Does it fly?
boat: Is it used on water?
socks: Do you wear them on your feet?
socks: Is it an article of clothing?
ring: Is it a piece of jewelry?
ring: Is it worn on the finger?
ring: Is it made of gold or silver?
sofa: Can you sit on it?
sofa: Is it a piece of furniture found in the living room?
fork: Is it used for eating?
fork: Is it a utensil?
fork: Is it sharp?
knife: Is it used to cut things?
book: Does it contain pages?
book: Is it made from paper?
pen: Do you use it to write?
pen: Is it commonly used in schools or offices?
river: Is it a body of water?
mountain: Is it taller than a house?
tree: Is it a plant?
smartphone: Does it fit in your pocket?
smartphone: Can you hold it in your hand?
smartphone: Is it used for communication?
television: Does it have a screen?
microwave: Is it found in the kitchen?
microwave: Is it an appliance?
basketball: Is it a ball?
basketball: Is it used in sports?
basketball: Is it round?
basketball: Is it spherical in shape?
tiger: Is it a carnivore?
tiger: Does it have stripes?
tiger: Is it a wild animal?
cow: Does it produce milk?
cow: Is it found on a farm?
banana: Is it yellow in color?
banana: Do you peel it?
orange: Is it orange?
orange: Is it an orange?
orange: Is it a citrus fruit?
potato: Does it grow underground?
potato: Is it a root vegetable?
lettuce: Is it a leafy green?
doll: Is it a toy?
doll: Is it used by children?
shovel: Is it used in the garden?
shovel: Is it a gardening tool?
sun: Is it in the sky?
paintbrush: Is it used by artists?
bed: Do people sleep on it?
refrigerator: Does it keep food cold?
chair: Is it bigger than a breadbox?
hat: Do you wear it on your head?
belt: Is it made of leather?
bottle: Can it hold liquid?
glass: Do you drink out of it?
glass: Is it fragile?
"""
NO = """
apple: Is it alive?
hammer: Is it a fruit or a vegetable?
hammer: Is it an electronic?
hammer: Does it require electricity to work?
dog: Is it larger than a microwave?
dog: Can it fly?
piano: Is it a wind instrument?
piano: Can you carry it with you?
socks: Is it worn on the upper body?
mountain: Is it man-made?
refrigerator: Is it larger than a person?
chair: Could it fit inside a backpack?
tiger: Is it a domestic animal or a bird?
penguin: Is it neither a bird nor a fish?
apple: Is it not red or green?
knife: Is it made without metal?
doll: Is it an animal?
bicycle: Is it a bicycle with an engine?
"""
OPEN = """
apple: Is it Newtonian?
apple: Is it a wibbly fruit?
laptop: Is it used with a computer?
banana: Does it rhyme?
dog: Is it bigger than a wug?
apple: Is it?
"""


def lines(text: str, said: int) -> list[Any]:
    split = [line.split(": ", 1) for line in text.strip().splitlines()]
    return [pytest.param(name, question, said, id=question) for name, question in split]


@pytest.mark.parametrize(
    ("name", "question", "said"), [*lines(YES, 1), *lines(NO, -1), *lines(OPEN, 0)]
)
def test_paraphrases(name: str, question: str, said: int):
    assert answers(question)[NUMBERS[name]] == said


def test_unknown_words_do_not_matter_where_the_rest_decides():
    assert answers("Is it a wibbly fruit?")[NUMBERS["hammer"]] == -1
    assert answers("Is it a fruit or a wibbly thing?")[NUMBERS["apple"]] == 1
    assert answers("Is it a fruit or wibbly?")[NUMBERS["hammer"]] == 0


def test_the_table():
    categories = [line for line in entries("things") if line.startswith("[")]
    assert len(categories) == 17
    assert len(things()) >= 157
    assert len(NUMBERS) == sum(len(thing.names) for thing in things()), "no name twice"
    askable = {trait for trait, _, _ in rows()}
    assert len(askable) >= 40
    assert {trait for thing in things() for trait in thing.traits} <= askable


def test_every_question_for_a_trait_asks_for_it():
    for trait, question, phrases in rows():
        asked = [question] if question else []
        for said in (*asked, *(f"Is it {phrase}?" for phrase in phrases if phrase[0] != "!")):
            if said == question or len(phrases) == 1:
                expected = [1 if trait in thing.traits else -1 for thing in things()]
                assert answers(said).tolist() == expected, said


def test_the_menu_is_understood():
    for question in (*trait_questions(), *guesses()):
        assert well_formed(question), question
        assert answers(question).all(), question
    assert len(set(trait_questions()) | set(guesses())) == len(trait_questions()) + len(things())


@pytest.mark.parametrize(
    "form",
    [
        "Is it a {}?",
        "Is the object a {}?",
        "Could it be the {}",
        "Are you thinking of a {}?",
        "Is it actually a {}?",
    ],
)
def test_every_name_is_a_guess(form: str):
    for name, number in NUMBERS.items():
        assert guessed(form.format(name)) == number, name


@pytest.mark.parametrize(
    "question",
    [
        "Is it used with a bicycle?",
        "Is it bigger than a bicycle?",
        "Is it a bicycle or a car?",
        "Is it not a bicycle?",
        "Is it a red bicycle?",
        "Is it like a bicycle?",
        "Does it eat grass?",
    ],
)
def test_what_is_no_guess(question: str):
    assert guessed(question) is None


def play(name: str, *questions: str, **kwargs: Any) -> list[tuple[Any, ...]]:
    env = TwentyQuestions(**kwargs)
    env.reset(seed=0, options={"task": name})
    return [env.step(question) for question in questions]


def test_a_game():
    first, second, last = play(
        "bicycle", "does it have wheels", "Is it a car?", "Is it a kind of bike?"
    )
    assert first[0] == "Questions left: 19.\nDoes it have wheels? Yes."
    assert [result[1:3] for result in (first, second, last)] == [
        (-1.0, False),
        (-1.0, False),
        (0.0, True),
    ]
    assert last[-1]["success"] and last[-1]["progress"] == 1
    assert last[0].endswith("Is it a car? No.\nIs it a kind of bike? Yes.")


@pytest.mark.parametrize(
    "action",
    [
        "",
        "?",
        "bicycle",
        "What is it?",
        "Has it wheels?",
        "Is it " + "very " * 40 + "large?",
        "Is it a car.",
        "Is it a car.?",
        "Is" * 5000,
        UnreadableAction("Is it a bicycle?"),
    ],
)
def test_what_is_no_question_is_used_up(action: str):
    observation, reward, terminated, _, info = play("bicycle", action)[0]
    assert (reward, terminated, info["valid"], info["success"]) == (-1.0, False, False, False)
    assert observation.startswith("Questions left: 19.") and observation.endswith(INVALID)
    assert len(observation) < 300


def test_a_question_that_is_not_understood():
    observation, reward, _, _, info = play("bicycle", "Is it Newtonian?")[0]
    assert (reward, info["valid"]) == (-1.0, False)
    assert observation.endswith("Is it Newtonian? No.")
    told = play("bicycle", "Is it Newtonian?", unknown_answer="I do not know.")[0]
    assert told[0].endswith("Is it Newtonian? I do not know.")


def test_the_last_question_ends_the_game():
    results = play("bicycle", *["Is it a car?"] * 20)
    assert [result[2] for result in results] == [False] * 19 + [True]
    assert not results[-1][3] and not results[-1][4]["success"]
    assert sum(result[1] for result in results) == -20
    assert play("bicycle", "nonsense", max_questions=1)[0][2]


def test_other_oracles():
    asked = []

    def oracle(thing: str, question: str) -> str:
        asked.append((thing, question))
        return "Oh yes, it is." if "wheels" in question else "Hmm."

    first, second, third = play(
        "bicycle", "Does it have wheels?", "Is it big?", "Is it a bicycle?", oracle=oracle
    )
    assert asked[0] == ("bicycle", "Does it have wheels?")
    assert first[0].endswith("Yes.") and first[-1]["valid"]
    assert second[0].endswith(INVALID) and not second[-1]["valid"]
    assert not third[2], "the oracle's word counts"
    assert [verdict(text) for text in ("YES!", "no", "It is not", "maybe")] == [
        "Yes.",
        "No.",
        "No.",
        INVALID,
    ]
    told = (
        "No, and yes-men are no help.",
        "It isn\u2019t",
        "I do not know.",
        "Eyes, I think",
        "know",
    )
    assert [verdict(text) for text in told] == ["No.", "No.", INVALID, INVALID, INVALID]
    with pytest.raises(ValueError, match="chat:MODEL@URL"):
        make_oracle("gpt", "")
    assert make_oracle("chat:m@http://localhost:1/v1", "") is not None


def test_the_menu_lists_questions_and_guesses():
    env = TwentyQuestions(question_menu=True, objects=10)
    _, info = env.reset(seed=0)
    assert len(info["admissible"]) == len(trait_questions()) + 10
    assert all(things()[i].name in env.instructions for i in env.meant)
    assert len(env.tasks.train) + len(env.tasks.test) == 10


def test_the_expert_guesses_everything():
    env = TwentyQuestions()
    turns = []
    for thing in things():
        env.reset(seed=0, options={"task": thing.name})
        for turn in range(1, 21):
            _, _, terminated, _, info = env.step(env.expert() or "")
            if terminated:
                assert info["success"], thing.name
                turns.append(turn)
                break
    assert len(turns) == len(things())
    assert sum(turns) / len(turns) < 10


@given(st.text(max_size=80))
def test_any_text_is_survived(text: str):
    assert answers("Is it " + text).shape == (len(things()),)
    guessed(text)


@pytest.mark.parametrize(
    "kwargs", [{"objects": 9}, {"objects": 10_000}, {"max_questions": 0}, {"oracle": "none"}]
)
def test_bad_arguments(kwargs: dict[str, Any]):
    with pytest.raises(ValueError, match=next(iter(kwargs))):
        TwentyQuestions(**kwargs)


LABELS = (
    "{}", "**{}**", "Question: {}", "**Question 3:** {}", "1. {}", "2) {}", "Q1: {}", "Q: {}",
    "My question is: {}", "Action: **{}**", "> {}", "\\text{{{}}}",
)  # fmt: skip


@pytest.mark.parametrize("form", LABELS)
@pytest.mark.parametrize("env", ["TwentyQuestions-v0", "GuessMyCity-v0"])
def test_a_question_may_have_a_label_or_a_number(env: str, form: str):
    question = "Is it in Europe?" if env == "GuessMyCity-v0" else "Does it have 4 wheels?"
    results = []
    for text in (question, form.format(question)):
        made = gymnasium.make(f"AgentGym/{env}")
        made.reset(seed=0)
        results.append(made.step(text))
    assert results[0] == results[1] and results[0][4]["valid"]


def test_two_questions_or_a_reason_are_no_label():
    for text in ("Wheels are common. Does it have wheels?", "2 wheels?", "Question:"):
        made = gymnasium.make("AgentGym/TwentyQuestions-v0")
        made.reset(seed=0)
        assert not made.step(text)[4]["valid"]


@pytest.mark.parametrize(
    ("text", "several"),
    [
        ("Is it big? Is it red?", True),
        ("Is it big?\nIs it red?", True),
        ("Is it big?, then is it red?", True),
        ("Is it big? I think so.", True),
        ('Is it "big?" Or red?', True),
        ("Is it big?", False),
        ("Is it big? ", False),
        ('"Is it big?"', False),
        ("Is it big??", False),
        ("**Is it big?**", False),
        ("Is it big? (yes or no)", False),
        ("Is it big? Yes or no?", False),
    ],
)
def test_two_questions_have_no_single_answer(text: str, several: bool):
    assert is_several(text) == several
    for env in ("TwentyQuestions-v0", "GuessMyCity-v0"):
        made = gymnasium.make(f"AgentGym/{env}")
        made.reset(seed=0)
        observation, *_, info = made.step(text)
        refused = observation.endswith(("Invalid question.", "only one question at a time."))
        assert refused == several and not (several and info["valid"])
