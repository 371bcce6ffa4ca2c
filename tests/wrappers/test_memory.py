"""`Memory`: edits of notes, what they cost, and that they replace a long context."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.agents import View
from agentgym.envs.diary.diary import Diary
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.evaluation import evaluate
from agentgym.registration.making import make_env
from agentgym.wrappers import ExtractAction, Memory, MultiTrial

from ..helpers.echo import DictEcho, Echo


def started(**kwargs: Any) -> Memory:
    env = Memory(Echo(max_turns=4, invalid_penalty=0.5), **kwargs)
    env.reset(seed=1)
    return env


def test_an_edit_changes_the_notes_and_takes_no_turn():
    env = started()
    start, info = env.reset(seed=1)
    assert info["notes"] == () and start.startswith("start ")
    observation, reward, terminated, truncated, info = env.step("remember: the  key is red \n")
    assert observation == f"Notes:\n1. the key is red\n\n{start}"
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert (info["turn"], info["valid"], info["notes"]) == (0, True, ("the key is red",))
    assert info["reward_terms"] == {"task": 0.0, "invalid": 0.0}
    observation, reward, *_, info = env.step("hello")
    assert observation == "Notes:\n1. the key is red\n\nhello"
    assert (reward, info["turn"]) == (5.0, 1)
    assert env.step("REMEMBER")[4]["notes"] == ("the key is red", "hello")
    assert env.step("Remember 1: blue")[4]["notes"] == ("blue", "hello")
    assert env.step("forget 1")[4]["notes"] == ("hello",)
    assert env.reset(seed=1)[0] == start  # notes belong to the episode


def test_edits_precede_an_action():
    env = started()
    observation, reward, *_, info = env.step(
        "remember: a\nremember: b\nforget 1\nhello\nremember: c"
    )
    assert info["notes"] == ("b",) and reward == len("hello\nremember: c")
    assert observation == "Notes:\n1. b\n\nhello\nremember: c"


@pytest.mark.parametrize(
    ("action", "feedback"),
    [
        ("forget 1", "There is no note 1."),
        ("remember: a\nforget 2\nhello", "There is no note 2."),
        ("remember 0: a", "There is no note 0."),
        ("remember 7: a", "There is no note 7."),
    ],
)
def test_an_impossible_edit_is_an_invalid_action(action: str, feedback: str):
    env = started()
    observation, reward, *_, info = env.step(action)
    assert feedback in observation and not info["valid"]
    assert (reward, info["turn"], info["notes"]) == (-0.5, 1, ())


@pytest.mark.parametrize("action", ["forget", "forget it", "remember 2 things", "recall", ""])
def test_other_actions_reach_the_environment(action: str):
    assert started().step(action)[4]["turn"] == 1


def test_turns_for_notes_are_limited_and_the_episode_ends():
    env = started(turns=2)
    for _ in range(2):
        assert env.step("remember: a")[4]["turn"] == 0
    observation, *_, info = env.step("remember: a")
    assert "No more turns for notes" in observation and not info["valid"] and info["turn"] == 1
    assert len(env.step("remember: b\nhello")[4]["notes"]) == 3  # these take a turn anyway
    env.step("x")
    assert env.step("x")[3]
    with pytest.raises(Exception, match="reset"):
        env.step("remember: a")


def test_edits_without_text_are_admissible():
    env = Memory(NumberLine(size=6), turns=2)
    _, info = env.reset(seed=0)
    assert info["admissible"] == ("+", "-", "remember")
    observation, *_, info = env.step("remember")
    assert info["admissible"] == ("+", "-", "remember", "forget 1")
    assert info["notes"][0] == observation.rpartition("\n\n")[2]
    assert env.step("forget 1")[4]["admissible"] == ("+", "-")  # no turns are left
    assert Memory(Diary(notebook=1)).reset(seed=0)[1]["admissible"] == ()  # an open set


EDITS = st.one_of(
    st.text(max_size=12),
    st.builds("remember: {}".format, st.text(max_size=12)),
    st.builds("forget {}".format, st.integers(0, 4)),
    st.builds("remember {}: {}\ngo".format, st.integers(0, 4), st.text(max_size=5)),
    st.just("remember"),
)


@settings(max_examples=50, deadline=None)
@given(actions=st.lists(EDITS, max_size=12), at=st.integers(0, 11))
def test_notes_stay_bounded_and_snapshots_go_on_exactly(actions: list[str], at: int):
    def make() -> Memory:
        return Memory(Echo(max_turns=9), 3, length=6, turns=5)

    env, other, used = make(), make(), 0
    env.reset(seed=3)
    for number, action in enumerate(actions):
        if number == at:
            snapshot = json.loads(json.dumps(env.snapshot()))
            assert other.restore(snapshot)[1]["notes"] == tuple(env._notes)
        turn = env.get_wrapper_attr("_turn")
        results = [env.step(action)] + ([other.step(action)] if number >= at else [])
        assert all(result == results[0] for result in results)
        observation, *_, over, info = results[0]
        used += info["turn"] == turn
        notes = info["notes"]
        assert len(notes) <= 3 and all(0 < len(note) <= 6 and "\n" not in note for note in notes)
        assert observation.startswith("Notes:\n1. ") == bool(notes)
        if results[0][2] or over:
            break
    assert used <= 5


@pytest.mark.parametrize(
    "memory",
    [{"notes": ["a"] * 9, "used": 0, "over": False}, {"notes": [], "used": -1, "over": False}],
)
def test_a_damaged_snapshot_changes_nothing(memory: dict[str, Any]):
    env = started()
    env.step("remember: a")
    snapshot = env.snapshot() | {"memory": memory}
    with pytest.raises(Exception, match="snapshot"):
        env.restore(snapshot)
    assert env.step("b")[4]["notes"] == ("a",)


class Clerk:
    """Keeps no history: it notes every fact of a diary, and answers from the notes."""

    name = "clerk"

    def __init__(self, notes: bool):
        self.notes = notes

    def act(self, views: Sequence[View]) -> list[str]:
        return [self._one(view) for view in views]

    def _one(self, view: View) -> str:
        env: Any = view.env.unwrapped
        page, question = view.observation.rpartition("\n\n")[2], env.question()
        if question is None:
            moved = re.search(r"Day \d+ of \d+: (.*)", page)
            assert moved is not None
            return f"remember: {moved[1]}\nnext" if self.notes else "next"
        notes = view.observation.removesuffix(page)
        return question.answer if question.answer in notes else question.options[0]


def test_notes_replace_a_context():
    """The facts are in the current observation of the question if and only if they were noted."""
    kwargs = {"entries": 20, "questions": 4, "distance": 3}
    success = {
        notes: evaluate(
            "Diary-v0", Clerk(notes), tasks=5, env_kwargs=kwargs | {"wrap": ["Memory:size=20"]}
        )
        .aggregate()["reward"]
        .mean
        for notes in (True, False)
    }
    assert success[True] == 1 and success[False] < 0.5


def test_wrappers_around_notes():
    trials = Memory(MultiTrial(Echo(max_turns=1), 3))
    trials.reset(seed=0)
    trials.step("remember: a")
    assert trials.step("x")[4]["notes"] == ("a",)  # they survive the attempt
    parsed = ExtractAction(Memory(Echo()), "tags")
    parsed.reset(seed=0)
    assert parsed.step("So. <action>remember: a</action>")[4]["notes"] == ("a",)
    assert "remember: TEXT" in parsed.get_wrapper_attr("instructions")
    assert make_env("NumberLine-v0", wrap=["Memory:size=3"]).get_wrapper_attr("size") == 3


def test_arguments_are_checked():
    for option in ("size", "length", "turns"):
        with pytest.raises(ConfigError, match=f"{option} must be at least 1, got 0"):
            Memory(Echo(), **{option: 0})
    with pytest.raises(ConfigError, match="observations are text"):
        Memory(DictEcho())  # type: ignore[arg-type]
