"""A chat server on a free port whose model is a function."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Messages = list[dict[str, str]]


class ChatServer(ThreadingHTTPServer):
    """Answers chat requests by a function of the messages.

    Args:
        reply: the function.

    Attributes:
        requests: the messages of all requests.
        url: the address.
    """

    daemon_threads = True

    def __init__(self, reply: Callable[[Messages], str]):
        super().__init__(("127.0.0.1", 0), Handler)
        self.reply, self.requests = reply, list[Messages]()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    """Answers a request."""

    server: ChatServer  # type: ignore[assignment]

    def do_POST(self) -> None:
        messages = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"]
        self.server.requests.append(messages)
        message = {"role": "assistant", "content": self.server.reply(messages)}
        body = json.dumps({"choices": [{"message": message}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def chat_server(reply: Callable[[Messages], str]) -> Iterator[ChatServer]:
    """Yields a running server."""
    with ChatServer(reply) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
