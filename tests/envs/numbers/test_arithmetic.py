"""Arithmetic: expressions and answers."""

from __future__ import annotations

import re
from typing import Any

import gymnasium
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.envs.numbers.arithmetic import sample, text, value
from agentgym.reading.expressions import parse_integer
from agentgym.utils.fast_pcg64 import Draws


@given(st.integers(0, 10**6), st.integers(2, 10))
def test_the_value_is_that_of_the_text(seed, terms):
    tree = sample(Draws(seed).below, terms, 20)
    written = text(tree)
    assert eval(written, {"__builtins__": {}}) == value(tree)
    assert sum(part.isdigit() for part in written.replace("(", " ").replace(")", " ").split()) == (
        terms
    )


def play(action, **kwargs):
    env: Any = gymnasium.make("AgentGym/Arithmetic-v0", **kwargs).unwrapped
    env.reset(seed=0)
    return env.step(action.format(value=env.state.value, wrong=env.state.value + 1))


@pytest.mark.parametrize(
    ("action", "reward", "valid", "ends"),
    [
        ("{value}", 1, True, True),
        ("Action: {value}.", 1, True, True),
        ("{wrong}", 0, True, True),
        ("no idea", 0, False, False),
        ("--3", 0, False, False),
        ("³", 0, False, False),
    ],
)
def test_answers(action, reward, valid, ends):
    _, got, terminated, _, info = play(action)
    assert (got, info["valid"], terminated, info["success"]) == (reward, valid, ends, reward == 1)


@pytest.mark.parametrize(
    "answer",
    [
        "-1234", "\u22121234", "-1,234", "**-1234**", r"\boxed{-1234}", "Answer: -1234",
        "x = -1234", "The answer is \u20131234.", "20 - 1254 = -1234", r"\(-1234\)",
        "\uff0d\uff11234", "-1234.0",
    ],
)  # fmt: skip
def test_usual_forms_of_an_integer_are_read(answer):
    assert parse_integer(answer, "20 - 1254") == -1234


@pytest.mark.parametrize(
    "answer",
    [
        "12 or 13", "not 12", "12.5", "12 %", "about 12", "20 - 1254 = 12 = 13", "3 + 9 = 12",
        "12 13", "Answer: 12\nAnswer: 13", "12 apples", "", "?",
    ],
)  # fmt: skip
def test_an_answer_that_is_more_than_an_integer_is_none(answer):
    assert parse_integer(answer, "20 - 1254") is None


@given(st.integers(-(10**9), 10**9), st.text(max_size=5), st.text(max_size=5))
def test_text_around_an_integer_never_changes_it(number, before, after):
    assert parse_integer(f"{before} {number} {after}") in (None, number, -number)
    assert parse_integer(str(number).replace("-", "\u2212")) == number


def test_a_wrong_answer_does_not_reveal_the_value():
    env: Any = gymnasium.make("AgentGym/Arithmetic-v0", largest=10**9).unwrapped
    env.reset(seed=0)
    value = str(env.state.value)
    text, *_ = env.step(str(env.state.value + 1))
    assert value not in text and "is wrong" in text


@pytest.mark.parametrize("kwargs", [{"terms": 1}, {"terms": 11}, {"largest": 1}])
def test_invalid_arguments(kwargs):
    with pytest.raises(ValueError, match=next(iter(kwargs))):
        play("0", **kwargs)


@pytest.mark.parametrize(
    ("id", "arguments"),
    [
        ("NumberLine-v0", {"size": 2**70}),
        ("NumberLine-v0", {"size": 1}),
        ("Arithmetic-v0", {"largest": 2**70}),
        ("ProposeSolve-v0", {"largest": 2**70}),
    ],
)
def test_numbers_out_of_range_are_refused(id: str, arguments: dict[str, Any]):
    (name, number), *_ = arguments.items()
    with pytest.raises(ValueError, match=rf"{name} must be from 2 to 10\*\*9, got {number}"):
        gymnasium.make(f"AgentGym/{id}", **arguments)


@pytest.mark.parametrize(("id", "name"), [("NumberLine-v0", "size"), ("Arithmetic-v0", "largest")])
def test_the_largest_numbers_work(id: str, name: str):
    largest: dict[str, Any] = {name: 10**9}
    env: Any = gymnasium.make(f"AgentGym/{id}", **largest)
    assert max(len(number) for number in re.findall("[0-9]+", env.reset(seed=0)[0])) >= 8
