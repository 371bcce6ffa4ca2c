"""Dialogues with tools for models whose chat template knows none, and for models without one.

The tools are described in the instructions, calls are the text of the reply, and results are user
messages, as in the tool environments of this project.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentgym.tools.calls import HINTS
from agentgym.trainers.gateway.messages import Answered
from agentgym.trainers.gateway.wire import Message


@dataclass(frozen=True, slots=True)
class Exchange:
    """An observation and the reply to it.

    Attributes:
        observation: the text of the client.
        reply: the answered call whose reply follows, the text of a foreign reply, or None at the
            end of the conversation.
    """

    observation: str
    reply: Answered | str | None = None


def instructions(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> str:
    """Returns the system messages at the start of a conversation, and the tools."""
    texts = [message.text or "" for message in messages[: leading(messages)]]
    if tools:
        listed = "\n".join(f"- {_help(tool['function'])}" for tool in tools)
        texts.append(f"{HINTS['json']} Tools:\n{listed}")
    return "\n\n".join(text for text in texts if text)


def leading(messages: Sequence[Message]) -> int:
    """Returns the number of system messages at the start of a conversation."""
    others = (i for i, message in enumerate(messages) if message.role != "system")
    return next(others, len(messages))


def exchanges(messages: Sequence[Message], echoes: Sequence[Answered | None]) -> list[Exchange]:
    """Returns a conversation as observations and replies, alternately. The last has no reply.

    Args:
        messages: the messages behind the system messages.
        echoes: the answered calls whose replies they are.
    """
    found: list[Exchange] = []
    waiting: list[Message] = []
    for message, echo in zip(messages, echoes, strict=True):
        if message.role == "assistant":
            found.append(Exchange(observation(waiting), echo or _as_text(message)))
            waiting = []
        else:
            waiting.append(message)
    return [*found, Exchange(observation(waiting))]


def observation(messages: Iterable[Message]) -> str:
    """Returns messages to the model, such as results of tools, as one text."""
    return "\n\n".join(message.text for message in messages if message.text)


def one_call_each(messages: Sequence[Message]) -> list[Message]:
    """Returns a conversation with one call per message, each followed by its result.

    Some templates write one call of a message only.
    """
    found: list[Message] = []
    rest = list(messages)
    while rest:
        message = rest.pop(0)
        if len(message.calls) < 2:
            found.append(message)
            continue
        count = next((i for i, each in enumerate(rest) if each.role != "tool"), len(rest))
        results, rest = rest[:count], rest[count:]
        for number, call in enumerate(message.calls):
            single = replace(message, calls=(call,))
            found.append(single if not number else Message("assistant", calls=(call,)))
            found += [result for result in results if result.call_id == call.id]
        known = {call.id for call in message.calls}
        found += [result for result in results if result.call_id not in known]
    return found


def _as_text(message: Message) -> str:
    """Returns a foreign reply as the model would have written it."""
    calls = [
        json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=False)
        if not call.arguments.lstrip().startswith("{")
        else f'{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}'
        for call in message.calls
    ]
    return "\n".join([*([message.text] if message.text else []), *calls])


def _help(function: Mapping[str, Any]) -> str:
    """Returns name, parameters and descriptions of a tool as lines of text."""
    parameters = function.get("parameters") or {}
    properties: Mapping[str, Any] = parameters.get("properties") or {}
    required = parameters.get("required") or ()
    words = [
        f"{name}: {_kind(schema)}" + ("" if name in required else " = None")
        for name, schema in properties.items()
    ]
    about = [
        f"{name}: {schema['description']}"
        for name, schema in properties.items()
        if isinstance(schema, Mapping) and schema.get("description")
    ]
    head = f"{function['name']}({', '.join(words)})"
    if text := function.get("description"):
        head += f": {text}"
    return "\n  ".join([head, *about])


def _kind(schema: Any) -> str:
    """Returns the type of a parameter in a word, "any" if its schema names none."""
    if not isinstance(schema, Mapping):
        return "any"
    if "enum" in schema:
        return " | ".join(json.dumps(each, ensure_ascii=False) for each in schema["enum"])
    kind = schema.get("type", "any")
    return kind if isinstance(kind, str) else " | ".join(map(str, kind))
