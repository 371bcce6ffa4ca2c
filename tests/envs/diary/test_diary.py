"""Diary: answers follow from the entries, at the given distance, and notes are bounded."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.diary.diary import Diary, _named
from agentgym.envs.diary.pages import RELATIONS, Pages, pages_of
from agentgym.errors import ConfigError

TOLD = [
    (
        relation,
        re.compile(
            re.escape(sentence)
            .replace(r"\{who\}", "(?P<who>[a-zA-Z ]+)")
            .replace(r"\{value\}", "(?P<value>[a-zA-Z]+)")
        ),
    )
    for relation in RELATIONS
    for sentence in relation.told
]


def truths(pages: Pages, after: int) -> dict[str, str]:
    """Returns the answers to all questions after some entries, read from the entries."""
    changes: dict[tuple[int, str], list[str]] = {}
    found: dict[str, str] = {}
    for entry in pages.entries[:after]:
        for relation, sentence in TOLD:
            if told := sentence.search(entry):
                who, value = told["who"].strip(), told["value"]
                changes.setdefault((RELATIONS.index(relation), who), []).append(value)
                found[relation.last.format(value=value)] = who
    for (i, who), values in changes.items():
        found[RELATIONS[i].count.format(who=who)] = str(len(values))
        found[RELATIONS[i].now.format(who=who)] = values[-1]
        found[RELATIONS[i].before.format(who=who)] = ["", *values][-2]
    return found


@settings(deadline=None, max_examples=12)
@given(st.integers(0, 10**6), st.sampled_from([(30, 6, None), (30, 6, 7), (60, 5, 30), (10, 2, 1)]))
def test_answers_follow_from_the_entries(number: int, size: tuple[int, int, int | None]):
    entries, questions, distance = size
    pages = pages_of(f"train/{number}", entries, questions, distance)
    assert len({question.text for question in pages.questions}) == questions
    for question in pages.questions:
        assert truths(pages, question.after)[question.text] == question.answer
        assert question.answer in question.options
        if distance is not None:
            assert question.after - question.evidence == distance
            assert question.answer in pages.entries[question.evidence]


def test_sentences_that_change_nothing_are_no_facts():
    for relation in RELATIONS:
        for told in relation.told:
            start = told.partition("{value}")[0].rpartition("{who}")[2]
            assert start not in relation.near


def test_a_question_comes_right_after_its_distance():
    env = Diary(entries=20, questions=2, distance=1)
    env.reset(seed=0)
    shown = ""
    while (question := env.question()) is None:
        shown = env.step("next")[0]
    assert question.evidence == env.state.read - 1
    assert shown.startswith("Question 1 of 2: ")


@pytest.fixture
def asked() -> Diary:
    """An environment at the first question."""
    env = Diary(entries=10, questions=2)
    env.reset(seed=0)
    for _ in range(10):
        env.step("next")
    return env


def test_an_answer_may_be_a_sentence_with_one_option(asked: Diary):
    question = asked.question()
    assert question is not None
    first, second = question.options[:2]
    observation, *_, info = asked.step(f"It is {first} or {second}.")
    assert not info["valid"] and "Reply with the answer" in observation
    assert not asked.step("next")[-1]["valid"]
    observation, reward, *_ = asked.step(f"I think it is {question.answer.upper()}, yes.")
    assert observation.startswith("Right.") and reward == 0.5
    question = asked.question()
    assert question is not None
    wrong = next(option for option in question.options if option != question.answer)
    observation, reward, terminated, _, info = asked.step(wrong)
    assert observation.startswith("Wrong.") and (reward, terminated) == (0, True)
    assert (info["progress"], info["success"]) == (0.5, False)


@pytest.mark.parametrize("form", ["not {}", "Is it {}?", "It isn't {}.", "If only {} knew."])
def test_an_option_that_is_not_claimed_is_no_answer(asked: Diary, form: str):
    question = asked.question()
    assert question is not None
    for option in question.options:
        assert not asked.step(form.format(option))[4]["valid"]


def test_entries_are_shown_once():
    env = Diary(entries=20, questions=2)
    entries = [env.reset(seed=0)[0]] + [env.step("next")[0] for _ in range(20)]
    for i, entry in enumerate(env.pages.entries):
        assert [entry in shown for shown in entries].count(True) >= 1
        assert entries[i] == f"Day {i + 1} of 20: {entry}"
    assert "Day" not in entries[-1]


def test_a_full_stop_behind_next_is_forgiven_with_a_notebook_too():
    env = Diary(notebook=2)
    env.reset(seed=0)
    assert env.step("Next.")[-1]["valid"]
    assert env.state.read == 1


def test_the_notebook_is_bounded_and_notes_are_replaced():
    env = Diary(notebook=2)
    env.reset(seed=0)
    for note in ("Ada home: Rome", "Ben job: pilot", "Ada home: Oslo", "key place: desk"):
        observation, *_, info = env.step(f"note {note}")
        assert info["valid"]
    assert env.state.notes == {"Ada home": "Oslo", "key place": "desk"}
    assert observation.startswith("Notes:\nAda home: Oslo\nkey place: desk\n\nDay 5 of 100: ")
    assert not env.step("note nothing")[-1]["valid"]
    plain = Diary()
    plain.reset(seed=0)
    assert not plain.step("note Ada home: Rome")[-1]["valid"]


def test_the_notes_of_the_expert_answer_questions_about_the_present():
    env = Diary(notebook=40)
    env.reset(seed=0)
    while env.question() is None:
        env.step(env.expert() or "")
    for question in env.pages.questions:
        for relation in RELATIONS:
            for subject, note in env.state.notes.items():
                if question.text == relation.now.format(who=subject.rpartition(" ")[0]):
                    assert note.partition(",")[0] == question.answer


@pytest.mark.parametrize(
    "arguments",
    [{"entries": 9}, {"questions": 21}, {"distance": 51}, {"distance": 0}, {"notebook": -1}],
)
def test_impossible_sizes_are_refused(arguments: dict[str, int]):
    with pytest.raises(ConfigError, match=f"^{next(iter(arguments))} must be"):
        Diary(**arguments)


@settings(deadline=None, max_examples=20)
@given(st.data())
def test_every_diary_that_is_not_refused_is_drawn(data: st.DataObject):
    entries = data.draw(st.integers(10, 60))
    questions = data.draw(st.integers(1, entries // 5))
    distance = data.draw(st.none() | st.integers(1, entries // 2))
    try:
        env = Diary(entries=entries, questions=questions, distance=distance)
    except ConfigError:
        assert distance is not None
        return
    env.reset(seed=0)
    assert len(env.pages.questions) == questions


@pytest.mark.parametrize(
    ("entries", "questions", "distance"),
    [
        (1500, 300, None),  # no diary has more than 288 different questions
        (700, 140, 1),  # one entry later, at most 136
        (1000, 20, 500),  # most facts are out of date 500 entries later
    ],
)
def test_more_questions_than_there_are_is_refused(
    entries: int, questions: int, distance: int | None
):
    with pytest.raises(ConfigError, match=f"got {questions} for {entries} .*Give fewer questions"):
        Diary(entries=entries, questions=questions, distance=distance)


def test_the_longest_diary_is_drawn_with_many_questions():
    env = Diary(entries=2000, questions=200)
    env.reset(seed=0)
    assert len({question.text for question in env.pages.questions}) == 200


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("five", ["5"]), ("Five times.", ["5"]), ("5 (five)", ["5"]), ("She moved twice.", ["2"]),
        ("Once.", ["1"]), ("once or twice", []), ("not five", []), ("five?", []), ("half", []),
        ("two, I think", ["2"]),
    ],
)  # fmt: skip
def test_numbers_may_be_words(said: str, named: list[str]):
    assert _named(said, [str(n) for n in range(10)]) == named
    assert _named(said, ["Rome", "Lima"]) == []
