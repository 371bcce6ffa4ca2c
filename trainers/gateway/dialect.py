"""`Dialect`: the form in which a route of the gateway reads requests and writes replies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agentgym.trainers.gateway.anthropic import (
    message_events,
    read_messages,
    write_messages,
    write_messages_error,
)
from agentgym.trainers.gateway.chat import Body, chat_events, read_chat, write_chat, write_error
from agentgym.trainers.gateway.responses import read_responses, response_events, write_response
from agentgym.trainers.gateway.wire import ChatReply, ChatRequest, Refused


@dataclass(frozen=True)
class Dialect:
    """A dialect of the wire.

    Attributes:
        read: body -> request. Raises `Refused`.
        write: (reply, request, id, created) -> body of the reply.
        events: the same -> name and data of each event of a stream. Without a name: "".
        error: error -> its body.
        prefix: beginning of the ids of replies.
        error_name: name of the event of a stream that raises an error in the client.
    """

    read: Callable[[Mapping[str, Any]], ChatRequest]
    write: Callable[[ChatReply, ChatRequest, str, int], Body]
    events: Callable[[ChatReply, ChatRequest, str, int], Iterator[tuple[str, str]]]
    error: Callable[[Refused], Body]
    prefix: str
    error_name: str = ""

    def error_event(self, error: Refused) -> str:
        """Returns an event of a stream that raises an error in the client."""
        return sse(self.error_name, json.dumps(self.error(error)))


def sse(name: str, data: str) -> str:
    """Returns a server-sent event."""
    return f"event: {name}\ndata: {data}\n\n" if name else f"data: {data}\n\n"


def _events(
    reply: ChatReply, request: ChatRequest, id: str, created: int
) -> Iterator[tuple[str, str]]:
    return (("", data) for data in chat_events(reply, request, id, created))


CHAT = Dialect(read_chat, write_chat, _events, write_error, "chatcmpl-")
RESPONSES = Dialect(read_responses, write_response, response_events, write_error, "resp_")
MESSAGES = Dialect(
    read_messages, write_messages, message_events, write_messages_error, "msg_", "error"
)
