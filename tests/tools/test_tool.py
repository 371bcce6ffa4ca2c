"""Schemas of functions, checks of arguments and formats of calls."""

from __future__ import annotations

import json
from typing import Any, Literal, NotRequired, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym import tool
from agentgym.tools import Call, read_call, write_call


class Leg(TypedDict):
    number: str
    seats: NotRequired[int]


@tool
def book(
    state: Any, legs: list[Leg], cabin: Literal["economy", "business"] = "economy", tip: float = 0
) -> str:
    """Books a trip.

    It is paid at once.

    Args:
        legs: the flights
            in order.
        cabin: the cabin.
    """
    return f"{len(legs)} legs in {cabin}, {tip}"


def test_the_schema_follows_from_hints_and_docstring():
    assert book.schema["function"] == {
        "name": "book",
        "description": "Books a trip. It is paid at once.",
        "parameters": {
            "type": "object",
            "properties": {
                "legs": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"number": {"type": "string"}, "seats": {"type": "integer"}},
                        "required": ["number"],
                        "additionalProperties": False,
                    },
                    "description": "the flights in order.",
                },
                "cabin": {
                    "enum": ["economy", "business"],
                    "default": "economy",
                    "description": "the cabin.",
                },
                "tip": {"type": "number", "default": 0},
            },
            "required": ["legs"],
            "additionalProperties": False,
        },
    }
    assert book({}, [{"number": "A1"}]) == "1 legs in economy, 0"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "book needs the argument 'legs'"),
        ({"legs": [], "cabins": "economy"}, "no argument 'cabins'. Did you mean: cabin"),
        ({"legs": "A1"}, "'legs' must be list of"),
        ({"legs": ["A1"]}, "'legs', entry 1, must be"),
        ({"legs": [{"seats": 2}]}, "'legs', entry 1, needs the key 'number'"),
        ({"legs": [{"number": "A1", "seat": 2}]}, "unknown key 'seat'. Did you mean: seats"),
        ({"legs": [{"number": "A1", "seats": True}]}, "key 'seats', must be integer, got True"),
        ({"legs": [], "cabin": "first"}, "must be 'economy' | 'business', got 'first'"),
        ({"legs": [], "tip": float("inf")}, "'tip' must be number, got inf"),
        ({"legs": [], "tip": 10**400}, "'tip' must be number"),
    ],
)
def test_wrong_arguments_are_explained(arguments: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message.replace("|", r"\|")):
        book.check(arguments)


def test_functions_that_are_no_tools_are_refused():
    with pytest.raises(TypeError, match="needs a type hint"):
        tool(lambda query: query)
    with pytest.raises(TypeError, match="tool needs a function, got 3"):
        tool(3)  # type: ignore[call-overload]

    def sink(path: bytes) -> None: ...

    with pytest.raises(TypeError, match=r"sink\(path\) has the type .*bytes"):
        tool(sink)

    def rest(*words: str) -> None: ...

    with pytest.raises(TypeError, match="given by name"):
        tool(rest)


CALL = Call("search", {"query": "red shoes", "limit": 3})


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "search", "arguments": {"query": "red shoes", "limit": 3}}',
        '{"name": "search", "parameters": {"query": "red shoes", "limit": 3}}',
        '<|python_tag|>{"name": "search", "parameters": {"query": "red shoes", "limit": 3}}',
        '<think>{"name": "x"}</think>I search.\n<tool_call>\n'
        '{"name": "search", "arguments": {"query": "red shoes", "limit": 3}}\n</tool_call>',
        '{"tool_calls": [{"function": {"name": "search", "arguments": '
        '"{\\"query\\": \\"red shoes\\", \\"limit\\": 3}"}}]}',
        '```json\n{"name": "search", "arguments": {"query": "red shoes", "limit": 3}}\n```',
        'Thought: none.\nAction: {"name": "search", "args": {"query": "red shoes", "limit": 3}}',
        "search(query='red shoes', limit=3)",
        '[search(query="red shoes", limit=3)]',
    ],
)
def test_calls_are_read_in_the_formats_of_models(text: str):
    assert read_call(text) == CALL


MARKS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<|python_tag|>", "```", "```x\n")


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("format", ["json", "tool_call", "llama_call", "python"])
@pytest.mark.parametrize(
    "around", ["{}", "<think>I'd {see} '</think>\n{}", "f(x) {y}? </think>{}", "{}\n<think>Then"]
)
def test_marks_in_strings_of_a_call_are_text(mark: str, format: str, around: str):
    if format == "python" and around.startswith("{}\n"):
        pytest.skip("a thought after a call in Python is part of it")
    call = Call("send", {"to": {"name": "Ann"}, "text": f"a {mark} b {mark}"})
    assert read_call(around.replace("{}", write_call(call, format))) == call


def test_a_call_in_a_fence_may_hold_code_marks():
    assert read_call('```json\n{"name": "f", "arguments": {"x": "```"}}\n```') == Call(
        "f", {"x": "```"}
    )


def test_arguments_in_python_are_json_values():
    assert read_call("f(x=(1, 2), y={1: (None,)})") == Call("f", {"x": [1, 2], "y": {"1": [None]}})


@pytest.mark.parametrize(
    "text", ["", "Which colour?", "f(x)", "f(x) or (y)", "[1]", "f(**{'x': 1})", "f(x=1)\n[g(x)]"]
)
def test_plain_text_is_no_call(text: str):
    assert read_call(text) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"name": ', "not valid"),
        ('{"arguments": {}}', 'no "name"'),
        ('{"name": "f", "arguments": [1]}', "not a JSON object"),
        ("<tool_call>search</tool_call>", "no JSON object"),
        ('{"name": "f"}; {"name": "g"}', "one tool call"),
        ("<tool_call>{}</tool_call><tool_call>{}</tool_call>", "one tool call"),
        ('{"tool_calls": [{"name": "f"}, {"name": "g"}]}', "one tool call"),
        ("[f(x=1), g()]", "one tool call"),
        ("f(x=1)\ng()", "one tool call"),
        ('{"name": "f", "arguments": {"x": ' + "[" * 100 + "]" * 100 + "}}", "too deeply"),
        ('{"x": ' * 5000, "too deeply"),
        ("x" * 200_000, "at most 100,000 characters"),
    ],
)
def test_malformed_calls_are_explained(text: str, message: str):
    with pytest.raises(ValueError, match=message):
        read_call(text)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(st.from_regex(r"[a-z]{1,5}_", fullmatch=True), values, max_size=3))
def test_written_calls_are_read_again(arguments: dict[str, Any]):
    call = Call("look_up", arguments)
    for format in ("json", "tool_call", "llama_call", "python"):
        assert read_call(write_call(call, format)) == call


@settings(deadline=None, max_examples=100)
@given(st.text() | values.map(json.dumps))
def test_any_text_is_a_call_or_text_or_explained(text: str):
    try:
        read_call(text)
    except ValueError as error:
        assert str(error)
