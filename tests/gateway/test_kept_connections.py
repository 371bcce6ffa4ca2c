"""Requests over connections that stay open: none is lost, and none is sent twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from agentgym.trainers.gateway.kept_connections import post
from tests.helpers.many_files import many_files


class Handler(BaseHTTPRequestHandler):
    """Answers with the body of a request, unless the path says otherwise."""

    protocol_version = "HTTP/1.1"
    connections, requests = 0, 0

    def setup(self) -> None:
        type(self).connections += 1
        super().setup()

    def do_POST(self) -> None:
        type(self).requests += 1
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.close_connection = self.path != "/keep"  # without a word in the headers
        if self.path == "/nothing":
            return
        self.send_response(400 if self.path == "/bad" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


class Server(ThreadingHTTPServer):
    """A server whose connections end when it has closed them."""

    daemon_threads = True

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.closed.release()

    closed = threading.Semaphore(0)


@pytest.fixture
def url() -> Iterator[str]:
    Handler.connections = Handler.requests = 0
    Server.closed = threading.Semaphore(0)
    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_thread_keeps_its_connection(url: str):
    for number in range(5):
        assert post(f"{url}/keep", b"%d" % number, {}) == (200, b"%d" % number)
    assert (Handler.connections, Handler.requests) == (1, 5)
    other = threading.Thread(target=post, args=(f"{url}/keep", b"", {}))
    other.start()
    other.join()
    assert Handler.connections == 2


def test_a_connection_that_the_server_has_closed_is_opened_anew(url: str):
    for number in range(3):
        assert post(f"{url}/close", b"%d" % number, {}) == (200, b"%d" % number)
        assert Server.closed.acquire(timeout=20)
    assert (Handler.connections, Handler.requests) == (3, 3)


def test_a_request_without_a_reply_is_not_repeated(url: str):
    with pytest.raises(OSError, match="RemoteDisconnected"):
        post(f"{url}/nothing", b"act", {})
    assert Handler.requests == 1
    assert post(f"{url}/bad", b"no", {}) == (400, b"no")


def test_a_process_with_many_files_keeps_its_connections(url: str):
    with many_files():
        for _ in range(2):
            assert post(f"{url}/keep", b"body", {}) == (200, b"body")
    assert (Handler.connections, Handler.requests) == (1, 2)


def test_an_address_where_nobody_listens():
    with pytest.raises(OSError):
        post("http://127.0.0.1:9/keep", b"", {})
