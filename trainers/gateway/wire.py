"""The seam between the web server and the trainer thread: requests, replies and their errors.

The server (`server.py`) reads bodies of clients into a `ChatRequest` and hands it to a `Backend`,
which lives in the trainer thread, owns model and tokenizer, and answers with a `ChatReply`.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Role = Literal["system", "user", "assistant", "tool"]
Finish = Literal["stop", "length", "tool_calls"]
ToolChoice = Literal["auto", "none"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool in an assistant message.

    Attributes:
        id: the id by which the tool's result refers to it.
        name: name of the tool.
        arguments: the arguments as text. JSON of an object, unless the model wrote something else.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a conversation, in the form that all dialects of the wire share.

    Attributes:
        role: the sender. "developer" is read as "system".
        text: the text, its parts joined. None: the message has none, as beside tool calls.
        reasoning: the thought before the text of an assistant message, "" if none was sent.
        calls: the tool calls of an assistant message.
        call_id: id of the call that a tool message answers.
        name: name of the sender or of the tool, "" if none was sent.
    """

    role: Role
    text: str | None = None
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request for one assistant message.

    Attributes:
        messages: the conversation, not empty.
        tools: the tools as `{"type": "function", "function": {"name", "description",
            "parameters"}}`, without duplicates of a name.
        model: the name that the client asks for. Replies repeat it.
        tool_choice: "none": tools are not rendered, and calls in the reply are text.
        parallel: whether several calls may be returned. False: only the first one is.
        stop: strings that end the reply, besides those of the run.
        max_tokens: the client's limit of the reply in tokens, None without one.
        stream: whether the client reads the reply as a stream.
        include_usage: whether a stream ends with the number of tokens.
        logprobs: whether the log-probability of each sampled token is returned.
        agent: name of the agent of the program that asks, "" for a program with one agent.
        retry: whether the client marks the request as a repetition of an earlier one.
        retry_key: names the request, equal for its repetitions. "" without one.
        overridden: wishes of the client that the run's own settings may replace, such as
            "temperature" or "tool_choice", as sent.
    """

    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    model: str = ""
    tool_choice: ToolChoice = "auto"
    parallel: bool = True
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    stream: bool = False
    include_usage: bool = False
    logprobs: bool = False
    agent: str = ""
    retry: bool = False
    retry_key: str = ""
    overridden: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A sampled token with its log-probability.

    Attributes:
        token: the token as text, "" if it is a part of a character that a later one completes.
        data: the bytes of this text.
        logprob: log-probability under the distribution that was sampled from, in nats.
    """

    token: str
    data: bytes
    logprob: float


@dataclass(frozen=True, slots=True)
class ChatReply:
    """The answer to a `ChatRequest`.

    Attributes:
        text: the text, None if there are only tool calls.
        reasoning: the thought before it, "" without one.
        calls: the tool calls.
        finish: "tool_calls" if there are calls, "length" if the reply was cut off (also with
            calls), otherwise "stop".
        prompt_tokens: number of tokens of the prompt.
        completion_tokens: number of sampled tokens.
        cached_tokens: prompt tokens that were not computed again.
        model: name of the model in the reply.
        id: identifies the reply, "" lets the server choose.
        logprobs: the sampled tokens, if the client asked for them.
        stop: the stop string of the request that ended the reply, "" if none did.
    """

    text: str | None
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: Finish = "stop"
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    model: str = ""
    id: str = ""
    logprobs: tuple[TokenLogprob, ...] = ()
    stop: str = ""


class Refused(Exception):
    """A request that is answered with an error.

    Args:
        status: the HTTP status.
        code: the reason in one word, such as "context_length_exceeded".
        message: a sentence for the user: expected, received, remedy.
        retry: whether the same request can succeed later. Clients repeat those by themselves.
        param: the field of the body at fault, "" for none.
    """

    def __init__(
        self, status: int, code: str, message: str, retry: bool = False, *, param: str = ""
    ):
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.retry, self.param = retry, param


class Backend(Protocol):
    """Answers the requests of sessions. Its methods are called from the thread of the server."""

    @property
    def model(self) -> str:
        """Name of the model, for `GET /v1/models`."""
        ...

    def knows(self, key: str) -> bool:
        """Returns whether a key belongs to a session in progress.

        Keys are compared in constant time. It must not wait.
        """
        ...

    def submit(self, key: str, request: ChatRequest) -> Future[ChatReply]:
        """Begins to answer a request and returns at once.

        The future ends with a reply, or with `Refused` as its exception. A request that arrives
        while weights are updated is held, not refused.

        Raises:
            Refused: if the session has ended or the request cannot be answered.
        """
        ...

    def count(self, key: str, request: ChatRequest) -> Future[int]:
        """Begins to count the prompt tokens of a request. Nothing of it is recorded.

        Raises:
            Refused: as `submit`.
        """
        ...

    def cancel(self, future: Future[ChatReply]) -> None:
        """Ends a request whose client has gone before the first byte of its reply.

        The future may be done: then the reply was not read, and is not recorded as a turn.
        """
        ...
