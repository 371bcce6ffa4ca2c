"""Tool calls as text: the formats of Qwen, Hermes and Llama, plain JSON and Python."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from agentgym.utils.action_parsing import blanked, find_answer

CallFormat = Literal["json", "tool_call", "llama_call", "python"]
"""Formats in which calls are written. All of them are read."""
HINTS: dict[str, str] = {
    "json": 'To call a tool, answer with {"name": "TOOL", "arguments": {"ARGUMENT": VALUE}}.',
    "tool_call": "To call a tool, answer with "
    '<tool_call>\n{"name": "TOOL", "arguments": {"ARGUMENT": VALUE}}\n</tool_call>.',
    "llama_call": "To call a tool, answer with "
    '{"name": "TOOL", "parameters": {"ARGUMENT": VALUE}}.',
    "python": "To call a tool, answer with TOOL(ARGUMENT=VALUE).",
}
"""Description of each format for the agent."""

LONGEST = 100_000
"""Maximum number of characters of a call."""
_MAX_BRACES = 16
_MAX_DEPTH = 30
_MAX_THOUGHTS = 16
_THOUGHT_END = re.compile("</think>")
OPEN, CLOSE = "<tool_call>", "</tool_call>"
"""The marks of a call in the format of Qwen and Hermes."""
_PYTHON_TAG = "<|python_tag|>"
_FENCE = re.compile(r"```[\w-]{0,20}\n(.*?)\n?```", re.DOTALL)
_PYTHON = re.compile(r"\[?\s*[A-Za-z_]\w*\(.*\)\s*\]?", re.DOTALL)
_NESTED = ("tool_calls", "function_call", "function", "tool_call", "action")
_ARGUMENTS = ("arguments", "parameters", "args", "input")
_NAMES = ("name", "tool", "action")
_SEVERAL = "An action must have one tool call, got several."


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool.

    Attributes:
        name: name of the tool.
        arguments: the arguments by name, as JSON values.
    """

    name: str
    arguments: dict[str, Any]

    @property
    def key(self) -> str:
        """The call as text that does not depend on the order of the arguments."""
        return json.dumps([self.name, self.arguments], sort_keys=True)


def innermost(value: Any) -> dict[str, Any] | None:
    """Returns the object that holds the name of a call, without lists and wrappers around it.

    Chat servers nest calls, as in `{"tool_calls": [{"function": {...}}]}`. None if there is no
    object.
    """
    while not isinstance(value, dict) or any(
        isinstance(value.get(k), dict | list) for k in _NESTED
    ):
        if isinstance(value, list) and value:
            value = value[0]
        elif isinstance(value, dict):
            value = next(value[k] for k in _NESTED if isinstance(value.get(k), dict | list))
        else:
            return None
    return value


def given_arguments(value: dict[str, Any]) -> Any:
    """Returns the arguments of a call as written, or None if there are none."""
    return next((value[key] for key in _ARGUMENTS if key in value), None)


def given_name(value: dict[str, Any]) -> str:
    """Returns the name of the tool in a call, or "" if there is none."""
    name = next((value[key] for key in _NAMES if key in value), None)
    return name.strip() if isinstance(name, str) else ""


def read_call(text: str) -> Call | None:
    """Returns the tool call in an answer of a model, or None if the answer is plain text.

    Text before the call, such as a thought, is ignored. Marks in the strings of a call are text.

    Raises:
        ValueError: for an answer with a malformed call or with several calls. The message is a
            sentence for the agent.
    """
    if len(text) <= LONGEST:
        starts = [0, *(mark.end() for mark in _THOUGHT_END.finditer(text))]
        for start in starts[:_MAX_THOUGHTS]:  # marks behind the last of them are in its strings
            if call := _python_call(text[start:].strip()):
                return call
    start, stop = find_answer(text)
    text = text[start:stop].strip()
    if len(text) > LONGEST:
        raise ValueError(f"An action must have at most {LONGEST:,} characters, got {len(text):,}.")
    bare = blanked(text)
    for mark in (OPEN, _PYTHON_TAG):
        if mark in bare:
            if mark == OPEN and bare.count(mark) > 1:
                raise ValueError(_SEVERAL)
            return _first_call(text[bare.index(mark) + len(mark) :], required=True)
    if fence := _FENCE.search(bare):
        text = text[slice(*fence.span(1))].strip()
    if call := _python_call(text):
        return call
    return _first_call(text, required=text.startswith(("{", "[{")))


def _first_call(text: str, *, required: bool) -> Call | None:
    """Returns the first JSON call in a text."""
    decoder, start, problem = json.JSONDecoder(), -1, "it has no JSON object"
    for _ in range(_MAX_BRACES):
        start = text.find("{", start + 1)
        if start < 0:
            break
        try:
            value, stop = decoder.raw_decode(text, start)
            if call := _as_call(value):
                _refuse_second(text[stop:])
                return call
            problem = 'it has no "name"'
        except json.JSONDecodeError as error:
            problem = error.msg
        except RecursionError:
            problem = "it is nested too deeply"
        if required:  # a call starts at the first brace
            break
    if required:
        raise ValueError(f"The tool call is not valid: {problem}.")
    return None


def _refuse_second(rest: str) -> None:
    rest = rest.lstrip(" \t\r\n;,")
    if rest.startswith("{"):
        raise ValueError(_SEVERAL)


def _as_call(value: Any) -> Call | None:
    if isinstance(value, dict) and any(
        isinstance(value.get(key), list) and len(value[key]) > 1 for key in _NESTED
    ):
        raise ValueError(_SEVERAL)
    found = innermost(value)
    if found is None or not (name := given_name(found)):
        return None
    arguments = given_arguments(found)
    if isinstance(arguments, str):
        arguments = json.loads(arguments or "{}")
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise json.JSONDecodeError("the arguments are not a JSON object", "", 0)
    if _deep(arguments):
        raise RecursionError
    return Call(name, arguments)


def _deep(value: Any) -> bool:
    """Whether lists and objects are nested more than `_MAX_DEPTH` levels deep."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [v for x in level if isinstance(x, dict | list) for v in _entries(x)]
        if not level:
            return False
    return True


def _entries(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _python_call(text: str) -> Call | None:
    """Returns a call such as `search(query="red shoes")`, also in brackets as Llama 4 writes it."""
    if not _PYTHON.fullmatch(text):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nodes = [getattr(each, "value", None) for each in ast.parse(text).body]
        if len(nodes) == 1 and isinstance(nodes[0], ast.List):
            nodes = nodes[0].elts
        found = [_call_of(node) for node in nodes]
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None
    if not found or None in found:
        return None
    if len(found) > 1:
        raise ValueError(_SEVERAL)
    return found[0]


def _call_of(node: Any) -> Call | None:
    """Returns the call of an expression whose arguments are named literals."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.args:
        return None
    words = [(word.arg, ast.literal_eval(word.value)) for word in node.keywords]
    values = json.loads(json.dumps(dict(words)))  # tuples become lists, keys become strings
    return None if _deep(values) or None in dict(words) else Call(node.func.id, values)


def write_call(call: Call, format: str = "json") -> str:
    """Returns a call as text in one of the formats of `CallFormat`.

    Raises:
        ValueError: for another format.
    """
    if format not in get_args(CallFormat):
        raise ValueError(f"format must be one of {get_args(CallFormat)}, got {format!r}.")
    if format == "python":
        return f"{call.name}({', '.join(f'{k}={v!r}' for k, v in call.arguments.items())})"
    key = "parameters" if format == "llama_call" else "arguments"
    text = json.dumps({"name": call.name, key: call.arguments}, ensure_ascii=False)
    return f"{OPEN}\n{text}\n{CLOSE}" if format == "tool_call" else text
