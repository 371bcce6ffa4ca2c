"""A backend without a model, and the ways of clients to send requests."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any
from urllib.parse import urlsplit

from agentgym.trainers.gateway.wire import ChatReply, ChatRequest, Refused, ToolCall

KEY, OTHER = "1f" * 16, "2e" * 16
CALL = ToolCall("abcdefghi", "add", '{"a":3, "b": 4}')


class StubBackend:
    """Answers with a given reply, or when a test lets it.

    Attributes:
        reply: the reply to a request, an error to raise, or None: the test ends the future.
        requests: (key, request, future) of all requests.
        cancelled: the futures that were cancelled.
    """

    model = "tiny"

    def __init__(self) -> None:
        self.keys = {KEY, OTHER}
        self.reply: Callable[[ChatRequest], ChatReply | Refused | None] = lambda _: ChatReply("go")
        self.requests: list[tuple[str, ChatRequest, Future[ChatReply]]] = []
        self.cancelled: list[Future[ChatReply]] = []
        self.changed = threading.Condition()

    def knows(self, key: str) -> bool:
        return key in self.keys

    def submit(self, key: str, request: ChatRequest) -> Future[ChatReply]:
        future: Future[ChatReply] = Future()
        reply = self.reply(request)
        with self.changed:
            self.requests.append((key, request, future))
            self.changed.notify_all()
        if isinstance(reply, Refused):
            future.set_exception(reply)
        elif reply is not None:
            future.set_result(reply)
        return future

    def count(self, key: str, request: ChatRequest) -> Future[int]:
        future: Future[int] = Future()
        future.set_result(sum(len(m.text or "") for m in request.messages))
        return future

    def cancel(self, future: Future[ChatReply]) -> None:
        with self.changed:
            self.cancelled.append(future)
            self.changed.notify_all()

    def wait_for(self, condition: Callable[[], bool]) -> bool:
        with self.changed:
            return self.changed.wait_for(condition, 20)


def post(
    url: str,
    body: Any,
    key: str = KEY,
    path: str = "/v1/chat/completions",
    headers: dict[str, str] | None = None,
    method: str = "POST",
) -> tuple[int, Any, dict[str, str]]:
    """Returns status, body and headers of the answer to a request."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=20)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"Content-Type": "application/json", **(headers or {})}
    if key:
        sent.setdefault("Authorization", f"Bearer {key}")
    try:
        connection.request(method, path, data, sent)
        answer = connection.getresponse()
        text = answer.read().decode()
    finally:
        connection.close()
    streamed = "event-stream" in answer.headers.get("content-type", "")
    found = {name.lower(): value for name, value in answer.headers.items()}
    return answer.status, text if streamed else json.loads(text), found


def ask(**fields: Any) -> dict[str, Any]:
    """Returns a body with one user message."""
    return {"model": "any", "messages": [{"role": "user", "content": "go"}], **fields}
