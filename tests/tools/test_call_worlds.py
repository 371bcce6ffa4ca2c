"""The calls of every environment of tools, in every format, and its messages."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest

from agentgym.tools import Call

from .test_call_formats import FORMATS
from .test_grammar import tool_ids

LOOSE = ("curly quotes", "trailing comma")
"""Formats that other values than those of their test make ambiguous."""


def differing(env: Any, call: Call) -> list[str]:
    """The formats in which the environment reads another call."""
    names = [*env.tools[call.name].parameters["properties"]]
    ordered = [*call.arguments] == names[: len(call.arguments)]
    forms = [form for form in FORMATS if form not in LOOSE and (ordered or form != "positional")]
    return [form for form in forms if env.read_call(FORMATS[form](call)) != call]


@pytest.mark.parametrize("id", tool_ids())
def test_the_experts_calls_are_read_in_every_format(id: str):
    env: Any = gymnasium.make(id).unwrapped
    calls = 0
    env.reset(seed=0)
    for _ in range(40):
        action = env.expert()
        if call := env.read_call(action):
            calls += 1
            assert not differing(env, call)
        else:
            assert env.reads_messages
        *_, terminated, truncated, info = env.step(action)
        assert info["valid"], action
        if terminated or truncated:
            break
    assert calls


MARKS = str.maketrans({"-": "\u2011", "'": "\u2019", " ": "\u202f", ":": "\uff1a", "5": "\uff15"})


def typeset(value: Any) -> Any:
    """A JSON value with other characters of the same meaning."""
    if isinstance(value, dict):
        return {key: typeset(each) for key, each in value.items()}
    if isinstance(value, list):
        return [typeset(each) for each in value]
    return value.translate(MARKS) if isinstance(value, str) else value


@pytest.mark.parametrize("id", tool_ids())
def test_typographic_arguments_have_the_same_effect_where_text_is_plain(id: str):
    plain: Any = gymnasium.make(id).unwrapped
    if not plain.plain_text:
        pytest.skip("the environment compares arguments itself")
    other: Any = gymnasium.make(id).unwrapped
    plain.reset(seed=1)
    other.reset(seed=1)
    over = False
    while not over:
        call = plain.read_call(plain.expert())
        expected = plain.step(plain.expert())
        assert other.step(FORMATS["json"](Call(call.name, typeset(call.arguments)))) == expected
        over = expected[2] or expected[3]
