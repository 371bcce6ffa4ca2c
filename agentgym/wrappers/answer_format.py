"""Answer formats of chat models: how an action is written in an answer, and read from it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentgym.core import UnreadableAction
from agentgym.errors import ConfigError, did_you_mean
from agentgym.tools.calls import given_arguments, given_name, innermost
from agentgym.utils.action_parsing import find_answer, find_labelled, unfenced

_TAG = re.compile(r"<action>(.*?)(?:</action>|\Z)", re.IGNORECASE | re.DOTALL)
_CALL_OPEN, _CALL_CLOSE = "<tool_call>", "</tool_call>"
_PYTHON_TAG = "<|python_tag|>"
_PLAIN_NAMES = ("act", "action", "say", "step")
_MAX_BRACES = 64


class Found(NamedTuple):
    """An action in an answer.

    Attributes:
        action: the action.
        start: index of the first character of the action with its marks (label, tags, call).
        stop: index after the last one.
    """

    action: str
    start: int
    stop: int


class Format(NamedTuple):
    """An answer format.

    Attributes:
        read: (answer, call_format) -> the action in an answer. It raises ValueError with the
            reason, a sentence, if there is none.
        write: action -> an answer with this action.
        hint: description of the format for the agent.
    """

    read: Callable[[str, str], Found]
    write: Callable[[str], str]
    hint: str


def read_labelled(answer: str, call_format: str = "") -> Found:
    """Finds the text after the first label "Action:" (see `action_parsing.labelled`)."""
    label, start, stop = find_labelled(answer) or (0, 0, 0)
    return _found(_bare(answer[start:stop]), label, stop)


def read_tagged(answer: str, call_format: str = "") -> Found:
    """Finds the content of the first `<action>...</action>`. The closing tag may be missing."""
    tag = _TAG.search(answer)
    return _found(_bare(tag[1]), *tag.span()) if tag else _found("", 0, 0)


def read_json(answer: str, call_format: str) -> Found:
    """Finds the first JSON object that is an action or a tool call.

    Actions have the form `{"action": "text"}`. A number is converted to text. Tool calls have a
    name and arguments. They may be in a list or nested as chat servers do (`tool_calls`,
    `function`). A tool call is converted to text by `call_format`, but a tool named "act",
    "action", "say" or "step" with one argument stands for this argument.

    Args:
        answer: the answer of the model.
        call_format: format string with `{name}` and `{arguments}`.
    """
    decoder = json.JSONDecoder()
    start = -1
    for _ in range(_MAX_BRACES):
        start = answer.find("{", start + 1)
        if start < 0:
            break
        try:
            value, stop = decoder.raw_decode(answer, start)
            action = _read_call(value, call_format)
        except (ValueError, RecursionError):
            continue
        if action:
            return Found(action, start, stop)
    return _found("", 0, 0)


def read_tool_call(answer: str, call_format: str) -> Found:
    """Finds the call in the first `<tool_call>`, as the chat templates of Qwen and Hermes write it.

    The closing tag may be missing. The call is converted to text as by `read_json`.
    """
    start = answer.find(_CALL_OPEN)
    if start < 0:
        return _found("", 0, 0)
    action, stop = _decoded(answer, start + len(_CALL_OPEN), call_format)
    rest = answer[stop:].lstrip()
    if rest.startswith(_CALL_CLOSE):
        stop = answer.index(_CALL_CLOSE, stop) + len(_CALL_CLOSE)
    elif rest:
        raise ValueError(f"The tool call does not end with {_CALL_CLOSE}.")
    return Found(action, start, stop)


def read_llama_call(answer: str, call_format: str) -> Found:
    """Finds a call as the chat templates of Llama 3 write it: `{"name": ..., "parameters": ...}`.

    It is the whole answer, or follows `<|python_tag|>`. Further calls after ";" are ignored. The
    call is converted to text as by `read_json`.
    """
    tag = answer.find(_PYTHON_TAG)
    begin = 0 if tag < 0 else tag + len(_PYTHON_TAG)
    if tag < 0 and not answer.lstrip().startswith("{"):
        return _found("", 0, 0)
    action, stop = _decoded(answer, begin, call_format)
    rest = answer[stop:].lstrip()
    if rest and not rest.startswith(";"):
        raise ValueError("There is text after the tool call.")
    return Found(action, max(tag, 0), stop)


def _decoded(answer: str, start: int, call_format: str) -> tuple[str, int]:
    """Returns the action of the JSON call at an index of an answer, and the index after it."""
    start += len(answer[start:]) - len(answer[start:].lstrip())
    try:
        value, stop = json.JSONDecoder().raw_decode(answer, start)
        action = _read_call(value, call_format)
    except json.JSONDecodeError as error:
        raise ValueError(f"The tool call is not valid JSON: {error.msg}.") from error
    except (ValueError, RecursionError) as error:
        raise ValueError("The tool call is not valid JSON.") from error
    if not action:
        raise ValueError("The tool call has no name or no action.")
    return action, stop


def _found(action: str, start: int, stop: int) -> Found:
    if not action:
        raise ValueError("No action was found.")
    return Found(action, start, stop)


def _read_call(value: Any, call_format: str) -> str:
    found = innermost(value)
    if found is None:
        return ""
    arguments, action = given_arguments(found), found.get("action")
    plain = isinstance(action, str | int | float) and not isinstance(action, bool)
    if plain and arguments is None:
        return str(action).strip()
    name = given_name(found)
    return _write_call(name, _values(arguments), call_format) if name else ""


def _values(arguments: Any) -> list[str]:
    if isinstance(arguments, str):
        try:
            nested = json.loads(arguments)
        except (ValueError, RecursionError):
            return [arguments]
        if not isinstance(nested, (dict, list)):
            return [arguments]
        arguments = nested
    if isinstance(arguments, dict):
        arguments = list(arguments.values())
    elif not isinstance(arguments, list):
        arguments = [] if arguments is None else [arguments]
    return [value if isinstance(value, str) else json.dumps(value) for value in arguments]


def _write_call(name: str, values: list[str], call_format: str) -> str:
    if len(values) == 1 and name in _PLAIN_NAMES:
        return values[0].strip()
    return call_format.format(name=name, arguments=", ".join(values)) if values else name


def _bare(text: str) -> str:
    """Returns the text without enclosing code marks."""
    text = unfenced(text.strip())
    if len(text) > 2 and text[0] == text[-1] == "`" and "`" not in text[1:-1]:
        return text[1:-1].strip()
    return text


def _call(key: str, action: str) -> str:
    """Returns a call of the tool "act" as JSON."""
    return json.dumps({"name": "act", key: {"action": action}}, ensure_ascii=False)


FORMATS: dict[str, Format] = {
    "thought_action": Format(
        read_labelled,
        lambda action: f"Action: {action}",
        'Answer with a line "Thought: ..." and then a line "Action: ...".',
    ),
    "tags": Format(
        read_tagged,
        lambda action: f"<action>{action}</action>",
        "Write your action as <action>...</action>.",
    ),
    "json": Format(
        read_json,
        lambda action: json.dumps({"action": action}, ensure_ascii=False),
        'Answer with a JSON object {"action": "..."} or a tool call.',
    ),
    "tool_call": Format(
        read_tool_call,
        lambda action: f"{_CALL_OPEN}\n{_call('arguments', action)}\n{_CALL_CLOSE}",
        f"Answer with a tool call: {_CALL_OPEN}{_call('arguments', '...')}{_CALL_CLOSE}.",
    ),
    "llama_call": Format(
        read_llama_call,
        lambda action: _call("parameters", action),
        f"Answer with a tool call and no other text: {_call('parameters', '...')}.",
    ),
}
"""The formats by name."""


@dataclass(frozen=True)
class AnswerFormat:
    """A format of answers and the text form of tool calls. See `ExtractAction` for the formats.

    Attributes:
        format: name of the format.
        call_format: text form of a tool call, with `{name}` and `{arguments}`.

    Raises:
        ConfigError: for an unknown `format` or an invalid `call_format`.
    """

    format: str = "thought_action"
    call_format: str = "{name}[{arguments}]"

    def __post_init__(self) -> None:
        """Checks the format."""
        if self.format not in FORMATS:
            raise ConfigError(
                f"format must be one of {list(FORMATS)}, got {self.format!r}."
                f"{did_you_mean(self.format, FORMATS)}"
            )
        try:
            self.call_format.format(name="", arguments="")
        except (KeyError, IndexError, ValueError) as error:
            raise ConfigError(
                "call_format may only contain {name} and {arguments}, got "
                f"{self.call_format!r}."
            ) from error

    @property
    def hint(self) -> str:
        """Description of the format for the agent."""
        return FORMATS[self.format].hint

    def write(self, action: str) -> str:
        """Returns an answer with an action."""
        return FORMATS[self.format].write(action)

    def extract(self, answer: str) -> str:
        """Returns the action in an answer, or an `UnreadableAction` if there is none.

        Raises:
            TypeError: if the answer is not a string.
        """
        if not isinstance(answer, str):
            raise TypeError(f"An answer is a str, got {type(answer).__name__}: {answer!r:.80}.")
        if isinstance(answer, UnreadableAction):
            return answer
        try:
            return self._find(answer).action
        except ValueError as reason:
            return UnreadableAction(answer, f"{reason} {self.hint}")

    def action_span(self, answer: str) -> tuple[int, int] | None:
        """Returns where the action of an answer starts and stops, with its marks.

        The marks are the label, the tags or the whole tool call. The other characters are thoughts.
        None if the answer has no action.
        """
        try:
            found = self._find(answer)
        except ValueError:
            return None
        return found.start, found.stop

    def ends_with_action(self, answer: str) -> bool:
        """Returns whether an answer has an action and nothing but white space after it."""
        span = self.action_span(answer)
        return span is not None and not answer[span[1] :].strip()

    def _find(self, answer: str) -> Found:
        start, stop = find_answer(answer)
        found = FORMATS[self.format].read(answer[start:stop], self.call_format)
        return Found(found.action, start + found.start, start + found.stop)
