"""Answer formats of chat models: how an action is written in an answer, and read from it."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentgym.core import UnreadableAction
from agentgym.errors import ConfigError, did_you_mean
from agentgym.reading import loose_json
from agentgym.reading.errors import NotUnderstood
from agentgym.reading.typography import find_reply
from agentgym.tools.call_markup import CLOSE, OPEN, PYTHON_TAG, read_tag, skip
from agentgym.tools.call_objects import Call, parts_of
from agentgym.utils.action_parsing import (
    OBSERVATION,
    blanked,
    find_answer,
    find_labelled,
    unfenced,
)

SEVERAL = "Expected one action, got several."
_TAG = re.compile(r"<action>(.*?)(?:</action>|\Z)", re.IGNORECASE | re.DOTALL)
_BLANK = re.compile(r"(?<=\S)[ \t]{0,99}\r?\n[ \t]{0,99}\r?\n")
_ACTION_KEY = re.compile(
    r"[\"'“”](?:name|tool|action|arguments|parameters)[\"'“”]\s{0,9}[:\uff1a]", re.I
)
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
        read: (answer, settings) -> the action in an answer. It raises ValueError with the reason,
            a sentence, if there is none, or if there are several.
        write: action -> an answer with this action.
        hint: description of the format for the agent.
    """

    read: Callable[[str, AnswerFormat], Found]
    write: Callable[[str], str]
    hint: str


def read_labelled(answer: str, settings: AnswerFormat) -> Found:
    """Finds the text after the first label "Action:" (see `action_parsing.labelled`).

    Actions of one line end at a blank line. Models explain their action behind it. A second action
    counts only if no made-up observation precedes it.
    """
    label, start, stop = find_labelled(answer) or (0, 0, 0)
    if settings.one_line and (blank := _BLANK.search(answer, start, stop)):
        stop = blank.start()
    found = _found(_bare(answer[start:stop]), label, stop)
    second = find_labelled(answer[stop:])
    if second and not OBSERVATION.search(answer, stop, stop + second[0]):
        other = _bare(answer[stop:][second[1] : second[2]])
        if other not in ("", found.action):
            raise ValueError(SEVERAL)
    return found


def read_tagged(answer: str, settings: AnswerFormat) -> Found:
    """Finds the content of the only `<action>...</action>`. The closing tag may be missing."""
    tag = _TAG.search(answer)
    found = _found(_bare(tag[1]), *tag.span()) if tag else _found("", 0, 0)
    for other in _TAG.finditer(answer, found.stop):
        if _bare(other[1]) not in ("", found.action):
            raise ValueError(SEVERAL)
    return found


def read_json(answer: str, settings: AnswerFormat) -> Found:
    """Finds the only JSON object that is an action or a tool call.

    Actions have the form `{"action": "text"}`. A number is converted to text. Tool calls have a
    name and arguments. They may be in a list or nested as chat servers do (`tool_calls`,
    `function`). A tool call is converted to text by `call_format`, but a tool named "act",
    "action", "say" or "step" with one argument stands for this argument. An object that is neither
    is skipped as a whole.
    """
    found: list[Found] = []
    at = answer.find("{")
    for _ in range(_MAX_BRACES):
        if at < 0:
            break
        try:
            value, stop = loose_json.read_json(answer, at)
        except ValueError as reason:
            stop = loose_json.object_stop(answer, at)
            if _ACTION_KEY.search(answer, at, stop):
                raise ValueError(f"The JSON object is not valid: {reason}.") from reason
            value = None
        if action := _text_of(value, settings.call_format):
            found.append(Found(action, at, stop))
        at = answer.find("{", stop)
    if len(found) > 1:
        raise ValueError(SEVERAL)
    return found[0] if found else _found("", 0, 0)


def read_tool_call(answer: str, settings: AnswerFormat) -> Found:
    """Finds the call in the only `<tool_call>`, as the chat templates of Qwen and Hermes write it.

    XML parameters (Qwen3-Coder) and pairs (GLM) are read, too. The closing tag may be missing. The
    call is converted to text as by `read_json`.
    """
    start = answer.find(OPEN)
    if start < 0:
        return _found("", 0, 0)
    inner = skip(answer, start + len(OPEN))
    if answer.startswith(("<", *string.ascii_letters), inner):
        call, stop = _read_markup(answer, inner)
        action = _write_call(call.name, _values(call.arguments), settings.call_format)
    else:
        action, stop = _decoded(answer, inner, settings.call_format)
        stop = _closed(answer, stop)
    if OPEN in answer[stop:]:
        raise ValueError(SEVERAL)
    return Found(action, start, stop)


def _read_markup(answer: str, start: int) -> tuple[Call, int]:
    try:
        return read_tag(answer, start, None)
    except NotUnderstood as reason:
        if "no JSON object" in str(reason):
            raise ValueError("The tool call is not valid JSON: Expecting value.") from reason
        raise


def _closed(answer: str, stop: int) -> int:
    """Returns the index behind the closing tag, which may be missing at the end."""
    rest = answer[stop:].lstrip()
    if rest.startswith(CLOSE):
        return answer.index(CLOSE, stop) + len(CLOSE)
    if rest:
        raise ValueError(f"The tool call does not end with {CLOSE}.")
    return stop


def read_llama_call(answer: str, settings: AnswerFormat) -> Found:
    """Finds a call as the chat templates of Llama 3 write it: `{"name": ..., "parameters": ...}`.

    It is the whole answer, or follows `<|python_tag|>`. The call is converted to text as by
    `read_json`.
    """
    tag = answer.find(PYTHON_TAG)
    begin = 0 if tag < 0 else tag + len(PYTHON_TAG)
    if tag < 0 and not answer.lstrip().startswith("{"):
        return _found("", 0, 0)
    action, stop = _decoded(answer, begin, settings.call_format)
    rest = answer[stop:].strip()
    if rest.startswith(";"):
        raise ValueError(SEVERAL)
    if rest:
        raise ValueError("There is text after the tool call.")
    return Found(action, max(tag, 0), stop)


def _decoded(answer: str, start: int, call_format: str) -> tuple[str, int]:
    """Returns the action of the JSON call at an index of an answer, and the index after it."""
    try:
        value, stop = loose_json.read_json(answer, skip(answer, start))
    except ValueError as reason:
        raise ValueError(f"The tool call is not valid JSON: {reason}.") from reason
    action = _text_of(value, call_format)
    if not action:
        raise ValueError("The tool call has no name or no action.")
    return action, stop


def _found(action: str, start: int, stop: int) -> Found:
    if not action:
        raise ValueError("No action was found.")
    return Found(action, start, stop)


def _text_of(value: Any, call_format: str) -> str:
    """Returns the action in a JSON value, or "" if there is none."""
    if isinstance(value, dict) and isinstance(value.get("action"), int | float):
        if isinstance(value["action"], bool):
            return ""
        value = {**value, "action": json.dumps(value["action"])}
    parts = parts_of(value)
    if parts is None:
        return ""
    name, arguments = parts
    if loose_json.too_deep(arguments, loose_json.MAX_DEPTH):
        raise ValueError("The tool call is nested too deeply.")
    return _write_call(name, _values(arguments), call_format)


def _values(arguments: Any) -> list[str]:
    if isinstance(arguments, str):
        try:
            nested, stop = loose_json.read_json(arguments)
        except ValueError:
            return [arguments]
        if not isinstance(nested, dict | list) or arguments[stop:].strip():
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
        lambda action: f"{OPEN}\n{_call('arguments', action)}\n{CLOSE}",
        f"Answer with a tool call: {OPEN}{_call('arguments', '...')}{CLOSE}.",
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
        one_line: whether an action is one line, so that a blank line ends it.

    Raises:
        ConfigError: for an unknown `format` or an invalid `call_format`.
    """

    format: str = "thought_action"
    call_format: str = "{name}[{arguments}]"
    one_line: bool = False

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
        """Returns whether an answer has an action and nothing but white space after it.

        The end mark of a chat model ends the answer.
        """
        span = self.action_span(answer)
        if span is None or span[1] < find_answer(answer)[0]:
            return False
        start, _ = find_answer(answer)
        end = start + find_reply(_without_objects(answer[start:]))[1]
        return not answer[span[1] : max(end, span[1])].strip()

    def _find(self, answer: str) -> Found:
        start, stop = find_answer(answer)
        begin, end = find_reply(_without_objects(answer[start:stop]))
        start, stop = start + begin, start + end
        found = FORMATS[self.format].read(answer[start:stop], self)
        return Found(found.action, start + found.start, start + found.stop)


def _without_objects(text: str) -> str:
    """Returns the text with JSON objects blanked, in whose strings end marks are text."""
    return blanked(text) if "<" in text or "[" in text else text
