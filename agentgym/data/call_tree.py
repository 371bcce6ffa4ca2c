"""`conversations`: chats of the calls of an episode.

A program may go back, ask for a summary or have helpers, so that the calls of an episode are a tree
of conversations.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.data.messages import THOUGHTS
from agentgym.tools.calls import Call, write_call

Body = Mapping[str, Any]
"""A message in the form of chat completions."""


@dataclass
class TreeCall:
    """A call of a model.

    Attributes:
        messages: the messages between the reply that it answers, or the start, and its own reply.
        reply: the reply.
        tools: the tools that it may call.
        reward: the reward of the reply.
        weight: weight of the reply in the loss.
        before: the call whose reply it answers, None for the first one of a conversation.
        answered: whether another call answers its reply.
    """

    messages: Sequence[Body]
    reply: Body
    tools: Sequence[Any]
    reward: float
    weight: float = 1.0
    before: TreeCall | None = None
    answered: bool = False

    def follow(self, before: TreeCall | None) -> None:
        """Makes the call an answer to the reply of another one."""
        self.before = before
        if before is not None:
            before.answered = True


def conversations(calls: Iterable[TreeCall], facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the conversations of an episode as rows with `messages`, one per last call.

    A reply has its weight in the first of its conversations. Elsewhere it is masked. Conversations
    without any weight are left out where others have one.

    Args:
        calls: the calls, those before come first.
        facts: what else each row has.
    """
    seen: set[int] = set()
    rows = [_chat(call, seen) | dict(facts) for call in calls if not call.answered]
    weighted = [each for each in rows if any(m.get("weight") for m in each["messages"])]
    return weighted or rows


def _chat(last: TreeCall, seen: set[int]) -> dict[str, Any]:
    """Returns a conversation, with the replies of calls that are not in another one yet."""
    path: list[TreeCall] = []
    call: TreeCall | None = last
    while call is not None:
        path.append(call)
        call = call.before
    messages: list[dict[str, Any]] = []
    rewards: list[float] = []
    for each in reversed(path):
        for message in each.messages:
            messages.append(plain(message))
            if messages[-1]["role"] == "assistant":
                messages[-1]["weight"] = 0.0
                rewards.append(0.0)
        weight = 0.0 if id(each) in seen else each.weight
        seen.add(id(each))
        messages.append(plain(each.reply) | {"weight": weight})
        rewards.append(each.reward)
    return {"messages": messages, "tools": last.tools, "rewards": rewards}


def plain(message: Body) -> dict[str, Any]:
    """Returns a message as its role and its text, with thoughts and calls of tools in it."""
    thought = next((message[key] for key in THOUGHTS if message.get(key)), None)
    text = message.get("content") or message.get("refusal")
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
