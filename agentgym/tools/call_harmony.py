"""Calls of tools in Harmony, the format of gpt-oss: messages with a channel and a recipient."""

from __future__ import annotations

import re

from agentgym.reading.errors import NotUnderstood
from agentgym.reading.loose_json import read_json
from agentgym.tools.call_finding import find_calls
from agentgym.tools.call_markup import invalid
from agentgym.tools.call_objects import SEVERAL, Call, Signatures, call_of

_MESSAGE = "<|message|>"
_END = re.compile(r"<\|(?:end|call|return|start|eom|eot)\|>")
_TO = re.compile(r"\bto=(?:functions\.)?(?P<name>[A-Za-z_][\w.-]{0,100})")
_TOOL = re.compile(r"(?:<\|start\|>)?\s{0,9}(?:functions\.|tool\b)")
_HEADER = re.compile(
    r"(?:<\|start\|>)?\s?(?:assistant|functions\.[\w.-]{1,99}|tool [\w.-]{1,99})?"
    r"(?:\s?to=[\w.-]{1,99})?\s?(?:<\|channel\|>\s?\w{1,20})?(?:\s?to=[\w.-]{1,99})?\s?(?:<\|constrain\|>)?\s?\w{0,20}\s?$"
)
_PEOPLE = ("user", "self", "assistant")


def is_harmony(text: str) -> bool:
    """Whether a text consists of messages of Harmony."""
    return _MESSAGE in text and ("<|channel|>" in text or "to=" in text or "<|start|>" in text)


def harmony_messages(text: str) -> list[tuple[str, int, int]]:
    """Returns header, start and stop of the messages. JSON in a message is not cut at marks.

    Text between the messages has the header "".
    """
    found, at = [], 0
    while (begin := text.find(_MESSAGE, at)) >= 0:
        header, start = text[at:begin], begin + len(_MESSAGE)
        opened = _HEADER.search(header[-300:])
        inner = at + max(0, len(header) - 300) + (opened.start() if opened else len(header[-300:]))
        if text[at:inner].strip():
            found.append(("", at, inner))
        after = start
        if text[start : start + 20].lstrip()[:1] == "{":
            try:
                after = read_json(text, start + text[start:].index("{"))[1]
            except NotUnderstood:
                after = start
        end = _END.search(text, after)
        at = end.end() if end else len(text)
        found.append((text[inner:begin] or "assistant", start, end.start() if end else len(text)))
        if end and end[0] in ("<|call|>", "<|return|>"):
            return found  # the rest is of another turn
    if text[at:].strip():
        found.append(("", at, len(text)))
    return found


def harmony_replies(text: str) -> list[str]:
    """Returns the messages to the user."""
    return [
        text[start:stop].strip()
        for header, start, stop in harmony_messages(text)
        if "analysis" not in header and "to=self" not in header and not _TOOL.match(header)
    ]


def read_harmony(text: str, tools: Signatures | None) -> Call | None:
    """Returns the call in messages of Harmony, or None. Analysis is a thought.

    Raises:
        NotUnderstood: see `read_call`.
    """
    calls: list[Call] = []
    for header, start, stop in harmony_messages(text):
        to = _TO.search(header)
        if _TOOL.match(header):
            continue  # the made-up answer of a tool
        if to and to["name"] not in _PEOPLE:
            try:
                value, end = read_json(text, start)
            except NotUnderstood as reason:
                raise invalid(reason) from None
            if text[end:stop].strip():
                raise invalid("text follows its arguments")
            call = call_of({"name": to["name"], "arguments": value}, tools)
            assert call is not None
            calls.append(call)
        elif "analysis" not in header and "to=self" not in header:
            calls += find_calls(text[start:stop].strip(), tools)
    if len(calls) > 1:
        raise NotUnderstood(SEVERAL)
    return calls[0] if calls else None
