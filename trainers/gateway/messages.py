"""Conversations compared: canonical messages, chains of digests, and replies that come back.

A client sends the whole conversation with every request, and most change our replies on the way:
they drop the reasoning, write the JSON of arguments anew, or leave out the text beside calls. An
assistant message that is still our reply is an *echo* of it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agentgym.reading.loose_json import too_deep
from agentgym.tools.call_objects import MAX_DEPTH
from agentgym.trainers.data.trajectory import Tokens
from agentgym.trainers.gateway.wire import ChatReply, ChatRequest, Message, ToolCall

_CALL_ID = 9
"""Length of the ids of calls. The templates of Mistral accept nine letters and digits only."""
_in_order = json.JSONEncoder(sort_keys=True, check_circular=False).encode


@dataclass(frozen=True, slots=True)
class Answered:
    """A request of a session that was answered by a sample.

    Attributes:
        number: number of the call in the session.
        chain: digest of the conversation up to the reply.
        prompt: [P] token ids that were fed.
        tokens: [L] token ids that were sampled.
        reply: the reply as it was sent.
    """

    number: int
    chain: bytes
    prompt: Tokens
    tokens: Tokens
    reply: ChatReply


@dataclass(frozen=True, slots=True)
class Chain:
    """A conversation and the replies of the session in it.

    Attributes:
        digest: digest of the whole conversation.
        echoes: for each message the answered call whose reply it is, None for all others.
        parent: index of the last echo whose own conversation is the part before it, None without
            one.
    """

    digest: bytes
    echoes: tuple[Answered | None, ...]
    parent: int | None


class History:
    """The answered calls of a session.

    Args:
        exact_reasoning: whether a reply that comes back without its reasoning is an edited one.
    """

    def __init__(self, exact_reasoning: bool = False):
        self._exact = exact_reasoning
        self._by_id: dict[str, Answered] = {}
        self._by_text: defaultdict[str, list[Answered]] = defaultdict(list)
        self._messages: dict[Message, Message] = {}
        self._tools: dict[str, tuple[Mapping[str, Any], ...]] = {}
        self._digests: dict[tuple[bytes, Message], bytes] = {}

    def shared(self, request: ChatRequest) -> ChatRequest:
        """Returns a request with the messages and tools of earlier requests where they are equal.

        Each request repeats the conversation: copies would grow with the square of its length.
        """
        messages = tuple(self._messages.setdefault(each, each) for each in request.messages)
        tools = self._tools.setdefault(json.dumps(request.tools), request.tools)
        return replace(request, messages=messages, tools=tools)

    def add(self, answered: Answered) -> None:
        """Adds a call whose reply was sent."""
        reply = answered.reply
        if reply.calls:
            self._by_id[reply.calls[0].id] = answered
        else:
            self._by_text[(reply.text or "").strip()].append(answered)

    def find(self, message: Message, chain: bytes) -> Answered | None:
        """Returns the call whose reply a message is, or None.

        Among equal replies, the one to the same conversation is preferred, then the latest one. An
        empty message is a reply to the same conversation or none.

        Args:
            message: a message of a request.
            chain: digest of the conversation before it.
        """
        if message.role != "assistant":
            return None
        if message.calls:
            found = self._by_id.get(message.calls[0].id)
            return found if found and self._is_echo(message, found.reply) else None
        text = (message.text or "").strip()
        equal = [each for each in self._by_text.get(text, ()) if self._thinks_alike(message, each)]
        exact = [each for each in equal if each.chain == chain]
        found = exact or (equal if text else [])
        return found[-1] if found else None

    def _is_echo(self, message: Message, reply: ChatReply) -> bool:
        """Whether a message with calls is a reply with calls."""
        text, own = message.text or "", reply.text or ""
        calls = [(call.id, call_key(call)) for call in message.calls]
        return (
            calls == [(call.id, call_key(call)) for call in reply.calls]
            and text in ("", own, own.strip())
            and self._same_thought(message, reply)
        )

    def _thinks_alike(self, message: Message, answered: Answered) -> bool:
        return self._same_thought(message, answered.reply)

    def _same_thought(self, message: Message, reply: ChatReply) -> bool:
        given = message.reasoning.strip()
        return given == reply.reasoning.strip() or (not given and not self._exact)

    def chain(self, request: ChatRequest) -> Chain:
        """Returns the conversation of a request with the replies of this session in it."""
        digest = _digest(b"", root(request))
        echoes: list[Answered | None] = []
        parent = None
        for index, message in enumerate(request.messages):
            echo = self.find(message, digest)
            if echo is not None and echo.chain == digest:
                parent = index
            echoes.append(echo)
            if echo is not None:
                digest = _digest(digest, ["reply", echo.number])
            else:
                digest = self._digest_after(digest, message)
        return Chain(digest, tuple(echoes), parent)

    def _digest_after(self, before: bytes, message: Message) -> bytes:
        """Returns the digest of a conversation that a message follows."""
        found = self._digests.get((before, message))
        if found is None:
            found = self._digests[before, message] = _digest(before, canonical(message))
        return found


def canonical(message: Message) -> list[Any]:
    """Returns a message as JSON, equal for messages that only the wire tells apart."""
    calls = [[call.id, *call_key(call)] for call in message.calls]
    return [message.role, message.text or "", message.reasoning, calls, message.call_id]


def root(request: ChatRequest) -> list[Any]:
    """Returns everything besides the messages that a prompt depends on, as JSON."""
    tools = request.tools if request.tool_choice == "auto" else ()
    return [json.dumps(list(tools))]


def call_key(call: ToolCall) -> tuple[str, str]:
    """Returns a call as text that does not depend on how the JSON of its arguments is written."""
    arguments = object_of(call.arguments)
    return call.name, call.arguments if arguments is None else _in_order(arguments)


def object_of(arguments: str) -> dict[str, Any] | None:
    """Returns the arguments of a call as an object, or None if they are no JSON object."""
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and not too_deep(value, MAX_DEPTH) else None


def call_ids(session: str, number: int, count: int) -> list[str]:
    """Returns the ids of the calls of a reply.

    They depend on nothing else, because some templates print them into prompts.

    Args:
        session: names the episode, the same in a repetition of a run.
        number: number of the request in the session.
        count: number of tool calls in the reply.
    """
    return [_call_id(f"{session}/{number}/{index}") for index in range(count)]


def _call_id(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return base64.b32encode(digest).decode()[:_CALL_ID].lower()


def _digest(before: bytes, value: Mapping[str, Any] | list[Any]) -> bytes:
    return hashlib.sha256(before + _in_order(value).encode("utf-8", "surrogatepass")).digest()
