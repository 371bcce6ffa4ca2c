"""`trace_chats`: traces of the gateway as chats.

A trace holds the calls of an episode, each with the messages that it adds to those of its parent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.data.call_tree import TreeCall, conversations

FORMAT, VERSION = "agentgym-trace", 1
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
    for each in row["calls"]:
        parent, shared = found.get(each["parent"]), int(each["shared_messages"])
        if shared < 0 or shared > (0 if parent is None else len(parent.messages)):
            raise ValueError(f"a call shares {shared} messages, and its parent has fewer")
        messages = [*(parent.messages[:shared] if parent is not None else ()), *each["messages"]]
        call = TreeCall(
            messages,
            each["reply"],
            row["tools"][each["tools"]],
            float(each["reward"]),
            float(each["weight"]),
        )
        call.follow(parent if _answers(parent, messages, shared) else None)
        found[each["id"]] = call
    return list(found.values())


def _answers(parent: TreeCall | None, messages: Sequence[Mapping[str, Any]], shared: int) -> bool:
    """Whether a conversation goes on behind the reply of a call."""
    if parent is None or shared < len(parent.messages) or len(messages) <= shared:
        return False
    return messages[shared].get("role") == "assistant"
