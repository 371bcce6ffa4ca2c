"""Servers without a token and pages of other origins, and servers with too many connections."""

from __future__ import annotations

import contextlib
import http.client
import json
import resource
import socket
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.registration.making import make_env

uvicorn = pytest.importorskip("uvicorn", reason="needs the extra `serve`")
websockets = pytest.importorskip("websockets", reason="needs the extra `serve`")

from websockets.sync.client import connect  # noqa: E402  # pyright: ignore

from agentgym.serving.admission import Admission  # noqa: E402
from agentgym.serving.connections import server_config  # noqa: E402
from agentgym.serving.server import Limits, make_app  # noqa: E402

from .test_server import until  # noqa: E402

JSON = {"Content-Type": "application/json"}


@contextlib.contextmanager
def served(token: str = "", **limits: Any) -> Iterator[int]:
    """Runs a server as `agentgym serve` does and yields its port."""
    header_seconds = limits.pop("header_seconds", 10.0)
    bounds = Limits(**limits)
    app = make_app({"NumberLine-v0": partial(make_env, "NumberLine-v0")}, bounds, token)
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        config = server_config(app, bounds.sessions, bounds.message_bytes, header_seconds)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            until(lambda: server.started)
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def ask(port: int, method: str, path: str, body: str | None = None, **headers: str) -> int:
    """Returns the status of a request. Underscores in names of headers are hyphens."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    with contextlib.closing(client):
        client.request(method, path, body, names)
        reply = client.getresponse()
        reply.read()
        return reply.status


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served() as found:
        yield found


FOREIGN_HOSTS = (
    "attacker.example", "attacker.example:8000", "127.0.0.1.attacker.example", "10.0.0.8", "",
    "localhost.attacker.example", "user@localhost", "localhost:x", "[::2]", "a b",
)  # fmt: skip
STARTS = (
    b"", b"GET /health HTTP/1.1\r\n", b"GET /", b"POST /reset HTTP/1.1\r\nHost: localhost\r\n",
)  # fmt: skip


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
@pytest.mark.parametrize("path", ["/health", "/tasks", "/nothing"])
def test_hosts_of_others_are_refused(port: int, host: str, path: str):
    assert ask(port, "GET", path, Host=host) in (400, 403)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]", "127.0.0.2"])
def test_hosts_of_this_machine_are_admitted(port: int, host: str):
    assert ask(port, "GET", "/health", Host=host) == 200
    assert ask(port, "GET", "/health", Host=f"{host}:{port}") == 200


def test_pages_of_other_origins_are_refused(port: int):
    address: Any = f"ws://127.0.0.1:{port}/NumberLine-v0/ws"
    origin: Any
    for origin in ("http://attacker.example", "null", f"http://127.0.0.1:{port + 1}", "https://x:y",
                   f"http://localhost:{port}", f"file://127.0.0.1:{port}", ""):  # fmt: skip
        assert ask(port, "POST", "/reset", "{}", Origin=origin, **JSON) == 403, origin
        assert ask(port, "GET", "/tasks", Origin=origin) == 403
        with pytest.raises(websockets.exceptions.InvalidStatus, match="403"):
            connect(address, origin=origin, proxy=None)
    own: Any = f"http://127.0.0.1:{port}"
    assert ask(port, "POST", "/reset", "{}", Origin=own, **JSON) == 200
    with connect(f"ws://127.0.0.1:{port}/ws", origin=own, proxy=None) as client:
        client.send(json.dumps({"type": "reset", "data": {}}))
        assert json.loads(client.recv(timeout=20))["type"] == "observation"


@pytest.mark.parametrize("token", ["", "secret"])
def test_bodies_are_json(token: str):
    given = {"Authorization": f"Bearer {token}"} if token else {}
    with served(token) as port:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""):
            assert ask(port, "POST", "/reset", "{}", Content_Type=kind, **given) == 415
        assert ask(port, "POST", "/reset", "{}", **given) == 415
        kind = "Application/JSON; charset=utf-8"
        assert ask(port, "POST", "/reset", "{}", Content_Type=kind, **given) == 200
        assert ask(port, "POST", "/reset", **given) == 200


def test_a_token_admits_every_host():
    with served("secret") as port:
        given = {"Authorization": "Bearer secret", "Host": "gym.example"}
        assert ask(port, "GET", "/tasks", **given) == 200
        assert ask(port, "GET", "/tasks", Host="gym.example") == 401


@settings(deadline=None, max_examples=300)
@given(st.text(max_size=30), st.none() | st.text(max_size=30))
def test_any_header_is_judged(host: str, origin: str | None):
    headers = [(b"host", host.encode("latin-1", "replace"))]
    if origin is not None:
        headers.append((b"origin", origin.encode("latin-1", "replace")))
    scope = {"type": "http", "method": "GET", "path": "/tasks", "headers": headers}
    refused = Admission(lambda *_: None).refusal(scope)  # type: ignore[arg-type, return-value]
    assert refused is None or refused[0] == 403


def half_open(port: int, text: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=20)
    with contextlib.suppress(OSError):
        client.sendall(text)
    return client


@pytest.mark.parametrize("token", ["", "secret"])
def test_connections_that_say_nothing_do_not_stop_the_server(token: str):
    files, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    try:
        with served(token, sessions=8) as port, contextlib.ExitStack() as opened:
            for number in range(1500):
                opened.enter_context(half_open(port, STARTS[number % 4]))
                if number % 300 == 299:
                    assert ask(port, "GET", "/health") == 200
            assert ask(port, "GET", "/health") == 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))


def test_slow_headers_and_bodies_end_their_connection():
    with served(header_seconds=0.3, message_seconds=0.3) as port:
        for text in (
            b"GET /health HTTP/1.1\r\nHost: local",
            b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /hea",  # the second request
            b"POST /reset HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n{",
        ):
            with half_open(port, text) as client, contextlib.suppress(ConnectionResetError):
                while client.recv(1 << 16):  # times out if the server does not close it
                    pass


def test_headers_without_end_are_refused():
    with served() as port, half_open(port, b"GET /health HTTP/1.1\r\n") as client:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for number in range(10_000):
                client.sendall(b"X-%d: %s\r\n" % (number, b"x" * 1000))
            raise AssertionError("the server reads headers without end")
        assert ask(port, "GET", "/health") == 200


def test_a_request_before_the_reply_to_the_last_one_is_not_read():
    text = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with served() as port:
        for ahead in (text, text * 1000, b"\0" * 10_000):
            with half_open(port, text + ahead) as client:
                found = b""
                while part := client.recv(1 << 16):
                    found += part
            assert found.count(b" 200 OK") == 1 and b"connection: close" in found.lower()
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as client:
            for _ in range(3):  # one after the other
                client.request("GET", "/health")
                reply = client.getresponse()
                assert reply.read() and reply.status == 200 and not reply.will_close


def test_a_body_in_parts_is_read_and_what_is_around_them_has_a_bound():
    head = (
        b"POST /reset HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    with served() as port:
        with half_open(port, head + b"1\r\n \r\n" * 10_000 + b"2\r\n{}\r\n0\r\n\r\n") as client:
            assert b" 200 OK" in client.recv(1 << 16)
        for endless in (b"1;" + b"x" * 1000, b"0\r\n" + b"A: b\r\n" * 200):
            with half_open(port, head + endless) as client, contextlib.suppress(ConnectionError):
                for _ in range(20_000):
                    client.sendall(endless[3:])
                raise AssertionError("the server reads it without end")


def test_sessions_outlive_a_flood():
    with contextlib.ExitStack() as opened:
        port = opened.enter_context(served(sessions=4))
        client = opened.enter_context(connect(f"ws://127.0.0.1:{port}/ws", proxy=None))
        for _ in range(200):
            opened.enter_context(half_open(port, b"GET /"))
        client.send(json.dumps({"type": "reset", "data": {}}))
        assert json.loads(client.recv(timeout=20))["type"] == "observation"
