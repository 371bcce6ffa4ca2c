"""Traces of the gateway as chats: `trace_chats`.

A trace holds the calls of an episode, each with the messages that it adds to those of its parent. A
program may go back, ask for a summary or have helpers, so that a trace is a tree of conversations.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.tools.calls import Call, write_call

FORMAT, VERSION = "agentgym-trace", 1
_FACTS = ("env", "task", "seed", "success", "terminated")


@dataclass
class _Call:
    """A call of a trace.

    Attributes:
        messages: its conversation.
        reply: the reply as a message of a chat.
        tools: the tools that it may call.
        reward: the reward of the reply.
        before: the call whose reply it answers, None for the first one of a conversation.
        answered: whether another call answers its reply.
    """

    messages: list[Mapping[str, Any]]
    reply: dict[str, Any]
    tools: Sequence[Any]
    reward: float
    before: _Call | None
    answered: bool = False


def trace_chats(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the conversations of a trace as rows with `messages`, one per last call.

    A reply has its weight in the first of its conversations. Elsewhere it is masked.

    Raises:
        ValueError: if the trace is of another version, or its calls do not fit together.
        LookupError, TypeError, AttributeError: if a part is missing or of another type.
    """
    if row.get("version") != VERSION:
        raise ValueError(f"expected version {VERSION} of {FORMAT}, got {row.get('version')!r:.80}")
    calls = _calls(row)
    facts = {name: row[name] for name in _FACTS if row.get(name) is not None}
    facts["agent"] = str(row.get("model") or "")
    seen: set[int] = set()
    rows = [_chat(call, seen) | facts for call in calls if not call.answered]
    weighted = [each for each in rows if any(m.get("weight") for m in each["messages"])]
    return weighted or rows


def _calls(row: Mapping[str, Any]) -> list[_Call]:
    found: dict[int, _Call] = {}
    for each in row["calls"]:
        parent, shared = found.get(each["parent"]), int(each["shared_messages"])
        if shared < 0 or shared > (0 if parent is None else len(parent.messages)):
            raise ValueError(f"a call shares {shared} messages, and its parent has fewer")
        messages = [*(parent.messages[:shared] if parent is not None else ()), *each["messages"]]
        before = parent if _answers(parent, messages, shared) else None
        if before is not None:
            before.answered = True
        found[each["id"]] = _Call(
            messages,
            _reply(each["reply"], float(each["weight"])),
            row["tools"][each["tools"]],
            float(each["reward"]),
            before,
        )
    return list(found.values())


def _answers(parent: _Call | None, messages: Sequence[Mapping[str, Any]], shared: int) -> bool:
    """Whether a conversation goes on behind the reply of a call."""
    if parent is None or shared < len(parent.messages) or len(messages) <= shared:
        return False
    return messages[shared].get("role") == "assistant"


def _chat(call: _Call, seen: set[int]) -> dict[str, Any]:
    """Returns a conversation, with the replies of calls that are not in another one yet."""
    places: dict[int, _Call] = {}
    each: _Call | None = call
    while each is not None:
        places[len(each.messages)] = each
        each = each.before
    messages: list[dict[str, Any]] = []
    rewards: list[float] = []
    for place, message in enumerate([*call.messages, call.reply]):
        own = places.get(place)
        if own is None:
            shown = _plain(message) | ({"weight": 0.0} if message["role"] == "assistant" else {})
        else:
            shown = own.reply | ({"weight": 0.0} if id(own) in seen else {})
            seen.add(id(own))
        messages.append(shown)
        if shown["role"] == "assistant":
            rewards.append(0.0 if own is None else own.reward)
    return {"messages": messages, "tools": call.tools, "rewards": rewards}


def _reply(message: Mapping[str, Any], weight: float) -> dict[str, Any]:
    return _plain(message) | {"weight": weight}


def _plain(message: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a message as its role and its text, with thoughts and calls of tools in it."""
    thought, text = message.get("reasoning_content"), message.get("content")
    parts = [f"<think>\n{thought}\n</think>\n"] if thought else []
    parts += [text] if text else []
    parts += [_written(call["function"]) for call in message.get("tool_calls") or ()]
    return {"role": message["role"], "content": "\n".join(parts)}


def _written(function: Mapping[str, Any]) -> str:
    """Returns a call of a tool as JSON. Arguments that are no JSON object stay as they are."""
    name, given = function["name"], function["arguments"]
    try:
        arguments = json.loads(given)
    except (ValueError, RecursionError):
        arguments = None
    return write_call(Call(name, arguments)) if isinstance(arguments, dict) else f"{name} {given}"
