"""A chat server on a free port whose model is a function."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

Messages = list[dict[str, str]]
AnyServer = TypeVar("AnyServer", bound="JsonServer")


class JsonServer(ThreadingHTTPServer):
    """Answers JSON values on a free port.

    Attributes:
        url: the address.
    """

    daemon_threads = True
    request_queue_size = 128  # a connection that finds no place is tried again after a second

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"

    def answer(self, path: str, body: Any) -> Any:
        """Returns the answer to a request."""
        raise NotImplementedError


class Handler(BaseHTTPRequestHandler):
    """Answers a request."""

    server: JsonServer  # type: ignore[assignment]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        data = json.dumps(self.server.answer(self.path, body)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class ChatServer(JsonServer):
    """Answers chat requests by a function of the messages.

    Args:
        reply: the function.

    Attributes:
        requests: the messages of all requests.
    """

    def __init__(self, reply: Callable[[Messages], str]):
        super().__init__()
        self.reply, self.requests = reply, list[Messages]()

    def answer(self, path: str, body: Any) -> Any:
        """Returns the reply to a conversation."""
        self.requests.append(body["messages"])
        message = {"role": "assistant", "content": self.reply(body["messages"])}
        return {"choices": [{"message": message}]}


@contextmanager
def running(server: AnyServer) -> Iterator[AnyServer]:
    """Runs a server in a thread."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def chat_server(reply: Callable[[Messages], str]) -> AbstractContextManager[ChatServer]:
    """Returns a context with a running server."""
    return running(ChatServer(reply))
