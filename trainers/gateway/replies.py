"""`read_reply`: the thought, the text and the tool calls in a sampled reply.

Nothing is lost: a call that cannot be read stays in the text as it was sampled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentgym.reading.errors import NotUnderstood
from agentgym.reading.loose_json import read_json
from agentgym.tools.call_code import NoCall, read_code
from agentgym.tools.call_harmony import harmony_messages, is_harmony
from agentgym.tools.call_markup import MARKS, skip
from agentgym.tools.call_objects import Call, call_of
from agentgym.trainers.gateway.gemma_calls import GEMMA, read_gemma
from agentgym.trainers.gateway.python_calls import read_python

THOUGHTS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel>thought", "<channel|>"),
)
"""The marks around a thought."""
LONGEST = 1_000_000
"""Maximum number of characters of a reply that is searched for calls."""
MOST_CALLS = 128
"""Maximum number of calls in a reply. A further one is text."""
_LISTED = re.compile(r"<\|tool_call_start\|>\s{0,99}")
_OPENERS = re.compile(
    f"(?P<gemma>{GEMMA})|"
    + "|".join(f"(?P<mark{i}>{pattern})" for i, (pattern, _) in enumerate(MARKS))
)
_PREFIX = r"(?:[\w｜|]{1,20}:?)?"
_OPENED = re.compile(
    rf"(?:<{_PREFIX}(?:function_calls|tool_calls)>|<[｜|]tool▁calls▁begin[｜|]>"
    r"|<\|tool_calls_section_begin\|>)\s{0,99}\Z"
)
"""The mark before a list of calls, at the end of a text."""
_CLOSED = re.compile(
    rf"\s{{0,99}}(?:</{_PREFIX}(?:function_calls|tool_calls?|tool_use)>"
    r"|<[｜|]tool▁calls?▁end[｜|]>|<\|tool_calls_section_end\|>"
    r"|<\|(?:tool_call_end|/tool_calls?|END_ACTION)\|>)"
)
"""The mark behind a call or a list of calls."""
_FENCE = re.compile(r"```(?:json|python|py|tool_code|tool_call)?[ \t]*\n(.*?)\n?```", re.DOTALL)
_SEPARATOR = re.compile(r"[\s;,]{1,99}")
_TO = re.compile(r"\bto=(?:functions\.)?(?P<name>[A-Za-z_][\w.-]{0,100})")
_decoder = json.JSONDecoder()


class RawCall(NamedTuple):
    """A tool call in a reply.

    Attributes:
        name: name of the tool.
        arguments: JSON of the arguments, as the model wrote it if it wrote JSON.
    """

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Reading:
    """The parts of a reply.

    Attributes:
        text: the text outside thought and calls. None: there is none beside calls.
        reasoning: the thought, "" without one.
        calls: the tool calls in order.
    """

    text: str | None
    reasoning: str = ""
    calls: tuple[RawCall, ...] = ()


Tools = Mapping[str, Mapping[str, Any]]
"""Tools by name: the JSON schema of each parameter."""


def signatures(tools: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns tools of a request by name, with the JSON schema of each parameter."""
    found: dict[str, dict[str, Any]] = {}
    for tool in tools:
        function = tool["function"]
        properties = (function.get("parameters") or {}).get("properties")
        found[function["name"]] = properties if isinstance(properties, dict) else {}
    return found


def read_reply(text: str, tools: Tools, *, thinking: bool = False) -> Reading:
    """Returns the parts of a reply.

    Calls are read in the syntax of every family of models, behind marks also those of unknown
    tools. Without marks, the reply must be a call of a known tool, or end with one.

    Args:
        text: the reply with its special tokens, without end token and stop string.
        tools: the known tools. Without any, calls are text.
        thinking: whether the prompt ended with the beginning of a thought.
    """
    if is_harmony(text):
        return _read_harmony(text, tools)
    thought, rest = split_thought(text, thinking=thinking)
    if not tools or len(rest) > LONGEST:
        return Reading(rest, thought)
    calls, left = _marked_calls(rest, tools)
    if not calls:
        calls, left = _bare_calls(rest, tools)
    return Reading(left.strip() or None, thought, tuple(calls)) if calls else Reading(rest, thought)


def split_thought(text: str, *, thinking: bool = False) -> tuple[str, str]:
    """Returns the thought at the start of a reply, and the rest.

    Args:
        text: the reply.
        thinking: whether the prompt ended with the beginning of a thought. A thought that is cut
            off reaches to the end.
    """
    for opening, closing in THOUGHTS:
        start = len(text) - len(text.lstrip())
        opened = text.startswith(opening, start)
        stop = text.find(closing)
        if opened or (thinking and stop >= 0):
            begin = start + len(opening) if opened else 0
            end = stop if stop >= 0 else len(text)
            return text[begin:end].strip(), text[end + len(closing) :].lstrip("\n")
    return (text.strip(), "") if thinking else ("", text)


def _marked_calls(text: str, tools: Tools) -> tuple[list[RawCall], str]:
    """Returns the calls behind marks, and the text without them."""
    calls: list[RawCall] = []
    left: list[str] = []
    at = done = 0
    while len(calls) < MOST_CALLS and (match := _OPENERS.search(text, at)):
        found = _at_mark(text, match, tools)
        if found is None:
            at = match.end() + (match.end() == match.start())
            continue
        some, stop = found
        calls += some
        left.append(_without_wrapper(text[done : match.start()]))
        at = done = _behind_wrapper(text, stop)
    return calls, "".join([*left, text[done:]])


def _without_wrapper(text: str) -> str:
    """Returns a text without the mark of a list of calls at its end."""
    opened = _OPENED.search(text)
    return text[: opened.start()] if opened else text


def _behind_wrapper(text: str, at: int) -> int:
    """Returns the index behind closing marks."""
    while closed := _CLOSED.match(text, at):
        at = closed.end()
    return at


def _at_mark(text: str, match: re.Match[str], tools: Tools) -> tuple[list[RawCall], int] | None:
    """Returns the calls behind an opening mark and the index behind them, None if unreadable."""
    kind = str(match.lastgroup)
    try:
        if kind == "gemma":
            call, stop = read_gemma(text, match.end())
            return [_dumped(call)], stop
        start = skip(text, match.end())
        if text.startswith("[", start):
            return _listed(text, start, tools)
        call, stop = MARKS[int(kind.removeprefix("mark"))][1](text, match.end(), tools)
    except (NotUnderstood, NoCall, RecursionError):
        return None
    raw = _raw_arguments(text, start, stop, call)
    return [RawCall(call.name, raw) if raw else _dumped(call)], stop


def _listed(text: str, at: int, tools: Tools) -> tuple[list[RawCall], int]:
    """Reads a list of calls: objects of JSON, or Python as LFM2 and Llama 4 write."""
    try:
        value, stop = read_json(text, at)
    except NotUnderstood:
        value, stop = None, at
    if isinstance(value, list) and value:
        read = [call_of(each, tools) for each in value]
        return [_dumped(call) for call in _all_of(read)], stop
    calls, stop = read_python(text, at, tools)
    return [_dumped(call) for call in calls], stop


def _all_of(calls: Sequence[Call | None]) -> list[Call]:
    """Returns calls, none of which may be None."""
    found = [call for call in calls if call is not None]
    if len(found) < len(calls):
        raise NotUnderstood("an entry of the list is no call")
    return found


def _dumped(call: Call) -> RawCall:
    return RawCall(call.name, json.dumps(call.arguments, ensure_ascii=False))


def _raw_arguments(text: str, start: int, stop: int, call: Call) -> str | None:
    """Returns the JSON of a call's arguments as it stands in a text, None if it does not."""
    at = text.find("{", start, stop)
    while 0 <= at < stop:
        try:
            value, end = _decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return None
        if value == call.arguments and end <= stop:
            return text[at:end]
        at = text.find("{", at + 1, stop)
    return None


def _bare_calls(text: str, tools: Tools) -> tuple[list[RawCall], str]:
    """Returns calls without marks, which are the reply, a code block in it, or its end."""
    whole = text.strip()
    if calls := _only_calls(whole, tools):
        return calls, ""
    for block in _FENCE.finditer(text):
        if calls := _only_calls(block[1].strip(), tools):
            return calls, text[: block.start()] + text[block.end() :]
    line = max(whole.rfind("\n{"), whole.rfind("\n["))
    if line > 0 and (calls := _only_calls(whole[line + 1 :], tools)):
        return calls, whole[:line]
    return [], text


def _only_calls(text: str, tools: Tools) -> list[RawCall]:
    """Returns the calls of known tools of a text that is nothing else, in order."""
    readers: list[Callable[[str, Tools], list[RawCall]]] = [_objects, _program]
    for read in readers:
        try:
            calls = read(text, tools)
        except (NotUnderstood, NoCall, RecursionError):
            continue
        if calls and all(call.name in tools for call in calls):
            return calls
    return []


def _objects(text: str, tools: Tools) -> list[RawCall]:
    """Reads objects of JSON, one after the other or in a list."""
    if not text.startswith(("{", "[")):
        return []
    calls: list[RawCall] = []
    at = 0
    while at < len(text) and len(calls) < MOST_CALLS:
        value, stop = read_json(text, at)
        if isinstance(value, list):
            calls += [_dumped(call) for call in _all_of([call_of(v, tools) for v in value])]
        else:
            (call,) = _all_of([call_of(value, tools)])
            raw = _raw_arguments(text, at + 1, stop, call)
            calls.append(RawCall(call.name, raw) if raw else _dumped(call))
        gap = _SEPARATOR.match(text, stop)
        at = gap.end() if gap else stop
        if at < len(text) and text[at] not in "{[":
            raise NotUnderstood("text follows the call")
    return calls if at >= len(text) else []


def _program(text: str, tools: Tools) -> list[RawCall]:
    """Reads calls of Python, one or a list."""
    if text.startswith("["):
        calls, stop = read_python(text, 0, tools)
        return [_dumped(call) for call in calls] if not text[stop:].strip() else []
    return [_dumped(read_code(text, tools))] if "(" in text else []


def _read_harmony(text: str, tools: Tools) -> Reading:
    """Reads messages of Harmony: analysis is thought, messages to functions are calls."""
    thoughts: list[str] = []
    texts: list[str] = []
    calls: list[RawCall] = []
    for header, start, stop in harmony_messages(text):
        body = text[start:stop]
        to = _TO.search(header)
        if to and tools and (raw := _object(body)) is not None:
            calls.append(RawCall(to["name"], raw))
        elif "analysis" in header:
            thoughts.append(body.strip())
        else:
            texts.append(body if not to else f"{header}<|message|>{body}")
    shown = "\n".join(texts)
    return Reading(shown if shown or not calls else None, "\n".join(thoughts), tuple(calls))


def _object(text: str) -> str | None:
    """Returns a text that is a JSON object, None for another."""
    try:
        value, stop = read_json(text.strip())
    except NotUnderstood:
        return None
    if not isinstance(value, dict) or text.strip()[stop:].strip():
        return None
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return json.dumps(value, ensure_ascii=False)
    return text.strip()
