"""Tool calls as text: written in the formats of Qwen, Hermes and Llama, plain JSON and Python.

`read_call` also reads the formats of other model families: Qwen3-Coder, Mistral, DeepSeek, Kimi,
GLM, gpt-oss, Claude, LFM, Phi, Gemma, OLMo, Command R, ReAct and LangChain, and programs such as
those of smolagents.
"""

from __future__ import annotations

import json
import re
from typing import Literal, get_args

from agentgym.reading.errors import NotUnderstood
from agentgym.reading.loose_json import read_json, too_deep
from agentgym.reading.typography import find_reply
from agentgym.tools.call_code import WHOLE as _PYTHON
from agentgym.tools.call_code import NoCall, read_code
from agentgym.tools.call_finding import find_calls
from agentgym.tools.call_harmony import harmony_replies, is_harmony, read_harmony
from agentgym.tools.call_markup import CLOSE, OPEN
from agentgym.tools.call_objects import MAX_DEPTH, SEVERAL, Call, Signatures
from agentgym.utils.action_parsing import blanked, find_answer, without_label

__all__ = [
    "CLOSE",
    "HINTS",
    "OPEN",
    "Call",
    "CallFormat",
    "Signatures",
    "message_of",
    "read_call",
    "write_call",
]

CallFormat = Literal["json", "tool_call", "llama_call", "python"]
"""Formats in which calls are written. All of them are read, and those of other families."""
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
_MAX_THOUGHTS = 16
_SIGN = re.compile("[{<`=\\[(\"':\uff1a]")
"""A character of every call and of every mark around an answer."""
_ARGUMENTS = ("arguments", "parameters")
_as_json = json.JSONEncoder(ensure_ascii=False).encode


def read_call(text: str, tools: Signatures | None = None) -> Call | None:
    """Returns the tool call in an answer of a model, or None if the answer is plain text.

    Text around the call, such as a thought, is ignored, but not a second call. Marks in the strings
    of a call are text. Slips whose meaning is clear are read: see `agentgym.reading.loose_json`.

    Args:
        text: the answer.
        tools: the known tools: name -> JSON schemas of the parameters, in order. With them, text
            that looks like a call of a known tool and cannot be read is a malformed call, and
            arguments of Python calls can be given by position.

    Raises:
        NotUnderstood: for an answer with a malformed call, with an unknown key, or with several
            calls. It is a ValueError, whose message is a sentence for the agent.
    """
    if len(text) <= LONGEST:
        if call := _plain_call(text) or _only_code(text, tools):
            return call
        if not (_SIGN.search(text) or "_" in text or len(text) < 120):
            return None
    if is_harmony(text):
        return read_harmony(text, tools)
    start, stop = find_answer(text)
    text = text[start:stop]
    bare = blanked(text) if "<" in text or "[" in text else ""
    start, stop = find_reply(bare) if bare else (0, len(text))
    text = text[start:stop].strip()
    if len(text) > LONGEST:
        raise NotUnderstood(
            f"An action must have at most {LONGEST:,} characters, got {len(text):,}."
        )
    try:
        calls = find_calls(text, tools)
    except NotUnderstood:
        if bare.count(OPEN) < 2:
            raise
        raise NotUnderstood(SEVERAL) from None
    if len(calls) > 1:
        raise NotUnderstood(SEVERAL)
    return calls[0] if calls else None


def _plain_call(text: str) -> Call | None:
    """Returns the call of an answer that is `{"name": ..., "arguments": {...}}` and nothing else.

    This usual form, with or without `<tool_call>` around it, needs no search. None for another.
    """
    if text.startswith(OPEN) and text.endswith(CLOSE):
        text = text[len(OPEN) : -len(CLOSE)].strip()
    if not (text.startswith('{"name"') and text.endswith("}")) or "<|message|>" in text:
        return None
    try:
        value, stop = read_json(text)
    except NotUnderstood:
        return None
    if stop < len(text) or not isinstance(value, dict) or len(value) != 2:
        return None
    (_, name), (key, arguments) = value.items()
    if key not in _ARGUMENTS or not isinstance(name, str) or not isinstance(arguments, dict):
        return None
    name = name.strip().removeprefix("functions.")
    return Call(name, arguments) if name and not too_deep(arguments, MAX_DEPTH) else None


def message_of(text: str) -> str:
    """Returns an answer without a call as a message.

    It has no thoughts and marks of chat models, and no label "Action:" before it.
    """
    if is_harmony(text):
        text = "\n".join(harmony_replies(text))
    elif "<" in text or "[" in text:
        start, stop = find_answer(text)
        inner, end = find_reply(blanked(text[start:stop]))
        text = text[start + inner : start + end]
    return without_label(text)


def _only_code(text: str, tools: Signatures | None) -> Call | None:
    """Returns the call of an answer that is Python and nothing else, behind any thoughts.

    The marks of thoughts can be in its strings, so each is tried as the last one.
    """
    starts, at = [0], text.find("</think>")
    while at >= 0 and len(starts) < _MAX_THOUGHTS:
        starts.append(at + len("</think>"))
        at = text.find("</think>", at + 1)
    for start in starts:
        code = text[start:].strip()
        if _PYTHON.fullmatch(code):
            try:
                return read_code(code, tools)
            except (NoCall, NotUnderstood):
                continue  # a malformed call is explained later
    return None


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
    text = _as_json({"name": call.name, key: call.arguments})
    return f"{OPEN}\n{text}\n{CLOSE}" if format == "tool_call" else text
