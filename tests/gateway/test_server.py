"""The web server of the gateway: keys, streams, errors, repetitions and hostile clients."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from agentgym.trainers.gateway.wire import ChatReply, ChatRequest, Refused

from .stub_backend import CALL, KEY, OTHER, StubBackend, ask, post

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from agentgym.trainers.gateway.server import GatewayServer, Limits

LIMITS = Limits(body_bytes=20_000, body_seconds=1, comment_seconds=0.05, blank_seconds=0.05)


@pytest.fixture
def gateway() -> Iterator[tuple[StubBackend, str]]:
    """A server of its own: what clients of another test left behind does not reach it."""
    backend = StubBackend()
    with GatewayServer(backend, limits=LIMITS) as server:
        yield backend, server.url


def held(_: ChatRequest) -> None:
    """The test answers later."""


def events(text: str) -> list[Any]:
    data = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
    return [json.loads(each) if each != "[DONE]" else each for each in data]


def test_a_request_is_answered(gateway: tuple[StubBackend, str]):
    backend, url = gateway
    backend.reply = lambda _: ChatReply(None, "hm", (CALL,), "tool_calls", 5, 3)
    status, body, _ = post(url, ask(max_tokens=4))
    assert status == 200 and body["model"] == "any"
    assert body["choices"][0]["message"]["tool_calls"][0]["id"] == CALL.id
    assert body["usage"]["total_tokens"] == 8
    key, request, _ = backend.requests[0]
    assert (key, request.max_tokens, backend.cancelled) == (KEY, 4, [])


@pytest.mark.parametrize("path", ["/chat/completions", f"/s/{KEY}/v1/chat/completions"])
def test_other_paths_lead_to_the_same(gateway: tuple[StubBackend, str], path: str):
    _, url = gateway
    assert post(url, ask(), key="" if KEY in path else KEY, path=path)[0] == 200


@pytest.mark.parametrize("header", ["x-api-key", "x-goog-api-key", "authorization"])
def test_the_key_comes_in_any_usual_header(gateway: tuple[StubBackend, str], header: str):
    backend, url = gateway
    value = f"bearer {KEY}.critic" if header == "authorization" else f"{KEY}.critic"
    assert post(url, ask(), key="", headers={header: value})[0] == 200
    assert backend.requests[0][1].agent == "critic"
    named = {header: value, "x-agentgym-agent": "judge"}
    assert post(url, ask(), key="", headers=named)[0] == 200
    assert backend.requests[1][1].agent == "judge"


@pytest.mark.parametrize(
    "key", ["", "wrong", KEY[:-1], f"{KEY}x", "\u00e9".encode().decode("latin1")]
)
def test_a_wrong_key_is_refused_without_a_retry(gateway: tuple[StubBackend, str], key: str):
    backend, url = gateway
    status, body, headers = post(url, ask(), key=key)
    assert (status, body["error"]["code"]) == (401, "invalid_api_key")
    assert headers["x-should-retry"] == "false" and not backend.requests


def test_a_key_is_dead_after_the_end(gateway: tuple[StubBackend, str]):
    backend, url = gateway
    assert post(url, ask())[0] == 200
    backend.keys.remove(KEY)
    assert post(url, ask())[0] == 401
    assert post(url, ask(), key=OTHER)[0] == 200


def test_models_and_health(gateway: tuple[StubBackend, str]):
    _, url = gateway
    assert post(url, b"", "", "/health", method="GET")[1] == {"status": "healthy"}
    assert post(url, b"", KEY, "/v1/models", method="GET")[1]["data"][0]["id"] == "tiny"
    assert post(url, b"", KEY, "/v1/models/org/name", method="GET")[1]["id"] == "org/name"
    assert post(url, b"", "", "/v1/models", method="GET")[0] == 401
    for path, method in (("/v2/chat", "POST"), ("/v1/chat/completions", "GET")):
        status, body, _ = post(url, b"", KEY, path, method=method)
        assert status in (404, 405) and "/v1" in body["error"]["message"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b"[" * 9000, 400),
        (b'{"messages": [{"role": "user", "content": NaN}]}', 400),
        (json.dumps(ask(n=5)).encode(), 400),
        (b" " * 30_000, 413),
        (json.dumps(ask(messages=[{"role": "user", "content": "x"}] * 5000)).encode(), 413),
    ],
)
def test_a_bad_body_is_refused(gateway: tuple[StubBackend, str], body: bytes, status: int):
    backend, url = gateway
    found, answer, headers = post(url, body)
    assert found == status and answer["error"]["message"]
    assert headers["x-should-retry"] == "false" and not backend.requests
    assert post(url, ask())[0] == 200


def test_text_that_utf8_cannot_hold_arrives_and_returns(gateway: tuple[StubBackend, str]):
    backend, url = gateway
    backend.reply = lambda request: ChatReply(request.messages[0].text)
    body = (
        b'{"messages": [{"role": "user", "content": "a\\ud800b"}], "model": "x\\r\\nSet-Cookie: y"}'
    )
    status, answer, headers = post(url, body)
    assert status == 200 and "set-cookie" not in headers
    assert answer["choices"][0]["message"]["content"] == "a\ud800b"


def sign_of_life(backend: StubBackend, url: str, stream: bool) -> tuple[socket.socket, bytes]:
    """Sends a request that waits, and returns the connection after the first sign of life."""
    backend.reply = held
    connection = raw(url, ask(stream=stream))
    sign = b": waiting\n\n" if stream else b"\r\n\r\n1\r\n \r\n"
    text = b""
    while sign not in text:
        text += connection.recv(1000)
    return connection, text


def rest(connection: socket.socket) -> bytes:
    """The bytes up to the end of a chunked answer, or of the connection."""
    text = b""
    while not text.endswith(b"\r\n0\r\n\r\n") and (part := connection.recv(1000)):
        text += part
    connection.close()
    return text


@pytest.mark.parametrize("stream", [False, True])
def test_a_late_reply_follows_signs_of_life(gateway: tuple[StubBackend, str], stream: bool):
    backend, url = gateway
    connection, head = sign_of_life(backend, url, stream)
    assert b" 200 " in head.split(b"\r\n")[0]
    backend.requests[0][2].set_result(ChatReply("go north"))
    text = rest(connection)
    assert b'"content": "go north"' in text and text.endswith(b"\r\n0\r\n\r\n")
    assert (b"[DONE]" in text) == stream


def test_a_part_of_a_reply_does_not_wait_for_the_last_one():
    with GatewayServer(StubBackend()) as server, raw(server.url, ask()) as connection:
        assert connection.recv(1000)
        [served] = server._server.server_state.connections
        own = served.transport.get_extra_info("socket")
        assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_late_error_is_an_event_or_ends_the_connection(gateway: tuple[StubBackend, str]):
    backend, url = gateway
    for stream in (True, False):
        connection, _ = sign_of_life(backend, url, stream)
        backend.requests[-1][2].set_exception(RuntimeError("a fault"))
        text = rest(connection)
        assert (b'data: {"error": ' in text and b"a fault" in text) == stream
        assert text.endswith(b"\r\n0\r\n\r\n") == stream


def test_an_error_keeps_its_status(gateway: tuple[StubBackend, str]):
    backend, url = gateway
    error = Refused(400, "context_length_exceeded", "The prompt is too long.")
    backend.reply = lambda _: error
    status, body, headers = post(url, ask(stream=True))
    assert (status, body["error"]["code"]) == (400, error.code)
    assert headers["x-should-retry"] == "false"
    backend.reply = lambda _: Refused(503, "updating", "Later.", retry=True)
    status, body, headers = post(url, ask())
    assert (status, headers["x-should-retry"], headers["retry-after"]) == (503, "true", "1")


def test_a_cancelled_request_is_a_session_that_is_over(gateway: tuple[StubBackend, str]):
    backend, url = gateway

    def end() -> None:
        assert backend.wait_for(lambda: bool(backend.requests))
        backend.requests[-1][2].cancel()

    backend.reply = held
    threading.Thread(target=end).start()
    status, body, _ = post(url, ask())
    assert (status, body["error"]["code"]) == (400, "session_over")


def test_a_client_that_leaves_cancels_its_request(gateway: tuple[StubBackend, str]):
    backend, url = gateway
    backend.reply = held
    for count, stream in enumerate((False, True), 1):
        connection = raw(url, ask(stream=stream))
        assert backend.wait_for(lambda count=count: len(backend.requests) == count)
        connection.close()
        assert backend.wait_for(lambda count=count: len(backend.cancelled) == count)
    assert backend.cancelled == [future for _, _, future in backend.requests]


def raw(url: str, body: Any, cut: int | None = None) -> socket.socket:
    """Sends the first bytes of a request, and returns the connection."""
    parts = urlsplit(url)
    data = json.dumps(body).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {KEY}"
        f"\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    ).encode()
    connection = socket.create_connection((str(parts.hostname), parts.port), timeout=20)
    connection.sendall((head + data)[:cut])
    return connection


def test_a_client_that_stops_in_the_middle_of_a_request_harms_nobody(
    gateway: tuple[StubBackend, str],
):
    backend, url = gateway
    for cut in (1, 40, 170, 200):
        raw(url, ask(), cut).close()
    slow = raw(url, ask(), -5)
    answer = slow.recv(1000)  # after `body_seconds`
    assert b" 408 " in answer.split(b"\r\n")[0]
    slow.close()
    assert post(url, ask())[0] == 200 and len(backend.requests) == 1


def test_a_client_that_stops_reading_a_reply_harms_nobody(gateway: tuple[StubBackend, str]):
    backend, url = gateway
    backend.reply = lambda _: ChatReply("go north " * 20)
    for count in range(1, 600, 60):
        with raw(url, ask(stream=count % 2 == 0)) as connection:
            left = count
            while left:
                part = connection.recv(left)
                assert part
                left -= len(part)
    assert post(url, ask())[0] == 200 and not backend.cancelled


def test_a_marked_repetition_joins_or_gets_the_kept_reply(gateway: tuple[StubBackend, str]):
    backend, url = gateway
    again = {"x-stainless-retry-count": "1"}
    first = post(url, ask())[1]
    assert post(url, ask(), headers=again)[1] == first
    assert len(backend.requests) == 1
    assert post(url, ask())[1]["id"] != first["id"]  # unmarked: another request
    assert post(url, ask(seed=1), headers=again)[0] == 200
    assert len(backend.requests) == 3
    assert post(url, ask(seed=1), key=OTHER, headers=again)[0] == 200  # another session
    assert len(backend.requests) == 4


def test_an_idempotency_key_names_one_body(gateway: tuple[StubBackend, str]):
    backend, url = gateway
    named = {"Idempotency-Key": "a"}
    replies: list[Any] = []
    backend.reply = held
    threads = [
        threading.Thread(target=lambda: replies.append(post(url, ask(), headers=named)[1]))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    backend.wait_for(lambda: bool(backend.requests))
    backend.requests[0][2].set_result(ChatReply("go"))
    for thread in threads:
        thread.join()
    assert len(backend.requests) == 1 and replies[0] == replies[1] == replies[2]
    assert post(url, ask(seed=2), headers=named)[0] == 422


def test_a_repetition_of_a_failed_request_is_a_new_one(gateway: tuple[StubBackend, str]):
    backend, url = gateway
    backend.reply = lambda _: Refused(503, "updating", "Later.", retry=True)
    assert post(url, ask())[0] == 503
    backend.reply = lambda _: ChatReply("go")
    assert post(url, ask(), headers={"x-stainless-retry-count": "1"})[0] == 200
    assert [request.retry for _, request, _ in backend.requests] == [False, True]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages/count_tokens"])
def test_a_failure_of_the_trainer_is_an_error_of_the_dialect(
    gateway: tuple[StubBackend, str], monkeypatch: pytest.MonkeyPatch, path: str
):
    backend, url = gateway

    def fail(key: str, request: ChatRequest) -> None:
        raise TypeError("odd")

    monkeypatch.setattr(backend, "submit", fail)
    monkeypatch.setattr(backend, "count", fail)
    status, body, _ = post(url, ask(), path=path)
    assert status == 500 and "odd" in body["error"]["message"]
    assert body.get("type") == ("error" if "messages" in path else None)
    assert body["error"]["type"] == "api_error"


def test_a_session_has_few_requests_at_once(gateway: tuple[StubBackend, str]):
    backend, url = gateway
    backend.reply = held
    connections = [raw(url, ask(seed=i)) for i in range(LIMITS.open_requests)]
    backend.wait_for(lambda: len(backend.requests) == LIMITS.open_requests)
    status, _, headers = post(url, ask(seed=99))
    assert (status, headers["x-should-retry"]) == (429, "true")
    backend.reply = lambda _: ChatReply("go")
    assert post(url, ask(), key=OTHER)[0] == 200
    for connection in connections:
        connection.close()
    assert backend.wait_for(lambda: len(backend.cancelled) == LIMITS.open_requests)
    assert post(url, ask(seed=99))[0] == 200


def test_the_openai_client_reads_replies_streams_and_errors(gateway: tuple[StubBackend, str]):
    openai = pytest.importorskip("openai", reason="runs with `make test-harnesses`")
    backend, url = gateway
    client = openai.OpenAI(base_url=f"{url}/v1", api_key=KEY)
    tools: Any = [{"type": "function", "function": {"name": "add", "parameters": {}}}]
    messages: Any = [{"role": "user", "content": "go"}]
    backend.reply = lambda _: ChatReply(None, "hm", (CALL,), "tool_calls", 5, 3)
    reply = client.chat.completions.create(model="m", messages=messages, tools=tools)
    message = reply.choices[0].message
    assert message.tool_calls[0].function.arguments == CALL.arguments
    assert openai.types.chat.ChatCompletion.model_validate(reply.model_dump(), strict=True)
    messages = [*messages, message, {"role": "tool", "tool_call_id": CALL.id, "content": "7"}]
    backend.reply = lambda _: ChatReply("seven")
    stream = client.chat.completions.create(model="m", messages=messages, tools=tools, stream=True)
    parts = [chunk.choices[0].delta.content or "" for chunk in stream]
    assert "".join(parts) == "seven"
    echo = backend.requests[-1][1].messages[1]
    assert (echo.calls, echo.reasoning) == ((CALL,), "hm")
    backend.reply = lambda _: Refused(400, "context_length_exceeded", "The prompt is too long.")
    with pytest.raises(openai.BadRequestError, match="too long"):
        client.chat.completions.create(model="m", messages=messages)
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").models.list()
    assert client.models.list().data[0].id == "tiny"
    backend.reply = held
    late = client.chat.completions.create(model="m", messages=messages, stream=True)
    backend.requests[-1][2].set_exception(RuntimeError("a fault"))
    with pytest.raises(openai.APIError, match="a fault"):
        list(late)
