"""`trace_chats`: traces of the gateway as chats.

A trace holds the calls of an episode, each with the messages that it adds to those of its parent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.data.call_tree import TreeCall, conversations

FORMAT, VERSION = "agentgym-trace", 1
FAULTS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors of reading a row whose parts are missing or of another type."""
FACTS = ("env", "task", "seed", "success", "terminated")
"""Facts about an episode that its conversations keep."""


def trace_chats(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the conversations of a trace as rows with `messages`, one per last call.

    Raises:
        ValueError: if the trace is of another version, or its calls do not fit together.
        LookupError, TypeError, AttributeError: if a part is missing or of another type.
    """
    if row.get("version") != VERSION:
        raise ValueError(f"expected version {VERSION} of {FORMAT}, got {row.get('version')!r:.80}")
    return conversations(_calls(row), facts_of(row) | {"agent": str(row.get("model") or "")})


def facts_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the facts about an episode that a row has."""
    return {name: row[name] for name in FACTS if row.get(name) is not None}


def _calls(row: Mapping[str, Any]) -> list[TreeCall]:
    found: dict[int, TreeCall] = {}
    whole: dict[int, list[Any]] = {}
    for each in row["calls"]:
        parent, shared = each["parent"], int(each["shared_messages"])
        before, added = whole.get(parent, []), each["messages"]
        if not 0 <= shared <= len(before):
            raise ValueError(f"a call shares {shared} messages, and its parent has fewer")
        messages = [*before[:shared], *added]
        goes_on = parent in found and shared == len(before) and _begins_with_a_reply(added)
        call = TreeCall(
            messages[shared + 1 :] if goes_on else messages,
            each["reply"],
            row["tools"][each["tools"]],
            float(each["reward"]),
            float(each["weight"]),
        )
        call.follow(found[parent] if goes_on else None)
        found[each["id"]], whole[each["id"]] = call, messages
    return list(found.values())


def _begins_with_a_reply(added: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a conversation goes on behind the reply of the call before."""
    return bool(added) and added[0].get("role") == "assistant"
