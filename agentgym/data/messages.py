"""Messages of chat files: their roles, texts and weights, whatever names their keys have.

Nothing with a meaning is dropped: it is read, or an error names it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agentgym.tools.calls import Call, write_call

AGENT = ("assistant", "gpt", "bot", "chatgpt", "model", "function_call", "tool_call")
SYSTEM = ("system", "developer")
OTHERS = (
    *("user", "human", "environment", "observation"),
    *("tool", "function", "function_response", "tool_response", "ipython"),
)
_ROLES = ("role", "from")
_TEXTS = ("content", "value")
_WEIGHTS = ("weight", "loss", "train")
_CALLS = ("tool_calls", "function_call")
THOUGHTS = ("reasoning_content", "reasoning", "thinking")
"""Names that servers and packages give to the thought before a reply."""
_TRUTHS = {"true": 1.0, "false": 0.0}
_FACTS = ("name", "id", "tool_call_id", "timestamp")
"""Keys beside an empty text that are no part of the reply."""


class Message(NamedTuple):
    """A message of a chat.

    Attributes:
        role: one of `AGENT`, `SYSTEM` and `OTHERS`.
        text: the text, with the call of a tool as JSON.
        weight: weight in the loss.
    """

    role: str
    text: str
    weight: float = 1.0


def read_messages(rows: Any) -> list[Message]:
    """Returns the messages of a list with `role` and `content`, or with `from` and `value`.

    Raises:
        ValueError: for a message with other keys, or with a part that is not text.
        TypeError: for a text that is none.
    """
    if not isinstance(rows, list):
        raise TypeError(f"expected a list of messages, got {rows!r:.80}")
    return [_message(row) for row in rows]


def system_texts(row: Mapping[str, Any]) -> list[str]:
    """Returns the system prompt and the definitions of tools that a row has beside its messages."""
    system = row.get("system") or row.get("system_prompt")
    if system and not isinstance(system, str):
        raise TypeError(f"column 'system': expected a text, got {system!r:.80}")
    texts = [system] if system else []
    tools = row.get("tools") or row.get("functions")
    if tools:
        lines = [tools] if isinstance(tools, str) else map(_json, tools)
        texts.append("\n".join(["Tools:", *lines]))
    return texts


def string(value: Any) -> str:
    """Returns a text that is one: null and lists would be learned as "None" and "[...]"."""
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {value!r:.80}")
    return value


def _message(row: Any) -> Message:
    if not isinstance(row, Mapping):
        raise TypeError(f"expected a message, got {row!r:.80}")
    role = _one(row, _ROLES)
    role = role.lower() if isinstance(role, str) else role
    if role not in (*SYSTEM, *OTHERS, *AGENT):
        raise ValueError(f"unknown role {role!r}: {', '.join((*SYSTEM, *OTHERS, *AGENT))}")
    call = _call(row)
    for key in THOUGHTS:
        if row.get(key):
            raise ValueError(f"{key} is not read: write it into the text, or remove it")
    if call and not any(row.get(key) for key in _TEXTS):
        return Message(role, call, _weight(row))
    text = _text(_one(row, _TEXTS))
    if not text.strip() and role in AGENT:
        known = {*_ROLES, *_TEXTS, *_WEIGHTS, *_CALLS, *_FACTS}
        if unread := [key for key, value in row.items() if value and key not in known]:
            raise ValueError(f"an empty reply has the unknown key {unread[0]!r}")
    return Message(role, f"{text}\n{call}" if call else text, _weight(row))


def _one(row: Mapping[str, Any], keys: Sequence[str]) -> Any:
    """Returns the value of the one of two keys that a message has.

    In a table that was joined, the other one is there too, and null or equal.
    """
    given = [key for key in keys if key in row]
    if len(given) > 1:
        given = [key for key in given if row[key] is not None][:1] or given
        if any(row[key] not in (None, row[given[0]]) for key in keys):
            given = []
    if not given:
        raise ValueError(
            f"expected messages with `role` and `content`, or with `from` and `value`, got one "
            f"with the keys {', '.join(map(str, row))!s:.100}"
        )
    return row[given[0]]


def _text(content: Any) -> str:
    """Returns the text of a content that is a text or a list of parts."""
    if not isinstance(content, list):
        return string(content)
    for part in content:
        if not isinstance(part, Mapping) or part.get("type", "text") != "text":
            kind = part.get("type") if isinstance(part, Mapping) else part
            raise ValueError(f"expected parts of the type 'text', got {kind!r:.80}")
    return "".join(string(part.get("text")) for part in content)


def _call(row: Mapping[str, Any]) -> str:
    """Returns the call of a tool in a message as JSON, "" without one."""
    given = [row[key] for key in _CALLS if row.get(key)]
    calls = [call for each in given for call in (each if isinstance(each, list) else [each])]
    if not calls:
        return ""
    if len(calls) > 1:
        raise ValueError(f"tool_calls: expected one call per reply, got {len(calls)}")
    call = calls[0]
    function = call.get("function", call) if isinstance(call, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    arguments = function.get("arguments") if isinstance(function, Mapping) else None
    try:
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise ValueError(
            f"tool_calls: expected a name and an object of arguments, got {call!r:.80}"
        )
    return write_call(Call(name, arguments))


def _weight(row: Mapping[str, Any]) -> float:
    """Returns the weight of a message in the loss. Without a key for it, it is 1.

    `weight`, `loss` and `train` mean the same: a number, a truth value, or one as text.
    """
    weights = []
    for key in _WEIGHTS:
        if (value := row.get(key)) is None:
            continue
        if isinstance(value, str):
            value = _TRUTHS.get(value.strip().lower(), value)
        try:
            found = float(value)
        except (TypeError, ValueError):
            found = math.nan
        if not 0 <= found < math.inf:
            raise ValueError(f"expected a finite {key} of at least 0, true or false: {value!r:.80}")
        weights.append(found)
    return min(weights, default=1.0)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
