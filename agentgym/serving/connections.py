"""Connections of a server: how many there are, and how long each may take to send a request.

uvicorn waits for the headers of a request as long as its client likes, reads any number of them and
of requests ahead, and accepts connections until the process has no more files to open. Here a
connection that sends no complete headers is closed after some seconds, or earlier if its place is
needed. It reads no request before the reply to the last one: such a client finds it closed.
`read_body` reads a body within bounds.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from typing import Any

import uvicorn
from starlette.requests import Request
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS = 10.0
"""Seconds for the headers of a request."""
HEADER_BYTES = 1 << 15
"""Size of the headers of a request."""
_OTHER_FILES = 128
"""Files that are left to everything else."""
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class BodyError(Exception):
    """A body that is too long or arrives too slowly.

    Args:
        message: what is wrong.
        status: the status of HTTP for it.
    """

    def __init__(self, message: str, status: int):
        super().__init__(message)
        self.status = status


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """Returns the body of a request.

    Args:
        request: the request.
        most: maximum number of bytes.
        seconds: maximum seconds of its arrival.

    Raises:
        BodyError: if it is too long or too slow.
        ClientDisconnect: if the client leaves before its end.
    """
    parts, size = list[bytes](), 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                parts.append(part)
                size += len(part)
                if size > most:
                    raise BodyError(f"The body may have at most {most:,} bytes: shorten it.", 413)
    except TimeoutError:
        raise BodyError(f"The body took over {seconds:g} s.", 408) from None
    return b"".join(parts)


def most_connections(sessions: int) -> int:
    """Returns the number of connections that a server keeps open.

    Args:
        sessions: the number of sessions, each of which may have one.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = files if files != resource.RLIM_INFINITY else 1 << 16
    return max(16, min(2 * sessions + 64, room - _OTHER_FILES))


def server_config(
    app: ASGIApp, sessions: int, message_bytes: int, header_seconds: float = HEADER_SECONDS
) -> uvicorn.Config:
    """Returns the settings of uvicorn for an application.

    Args:
        app: the application.
        sessions: maximum number of sessions.
        message_bytes: maximum size of a message of a WebSocket.
        header_seconds: seconds for the headers of a request.
    """

    class Bounded(_Bounded):
        most, seconds = most_connections(sessions), header_seconds
        silent: dict[_Bounded, None] = {}  # noqa: RUF012

    return uvicorn.Config(
        app, log_level="warning", http=Bounded, ws="websockets-sansio", ws_max_size=message_bytes,
        timeout_graceful_shutdown=5, access_log=False, proxy_headers=False, server_header=False,
    )  # fmt: skip


class _Bounded(HttpToolsProtocol):
    """A connection.

    Attributes:
        most: maximum number of connections of the server.
        seconds: time limit for the headers of a request.
        silent: the connections that wait for headers, the oldest first.
    """

    most: int
    seconds: float
    silent: dict[_Bounded, None]
    _timer: asyncio.TimerHandle | None = None
    _unread = 0  # bytes since the last part of a message that was complete
    _ends = False  # whether all further data is left unread

    def connection_made(self, transport: Any) -> None:
        """Starts a connection, in the place of a silent one if there are too many."""
        # asyncio does so for sockets that were made with the number of this protocol only.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().connection_made(transport)
        if len(self.connections) > self.most:
            oldest = next(iter(self.silent), None)
            if oldest is None:
                transport.write(_FULL)
                transport.close()
                return
            oldest._drop()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends a connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Reads a part of a request."""
        if self._ends:
            return
        self._unread += len(data)
        super().data_received(data)
        if self._unread > HEADER_BYTES and not self._ends:
            self.send_400_response("The headers are too long.")
        if self._is_answering() or self not in self.connections:  # the second: it is a WebSocket
            self._stop_waiting()

    def send_400_response(self, msg: str) -> None:
        """Refuses a request and closes the connection, after the reply in progress."""
        self._ends = True
        if self._is_answering() and not self.cycle.more_body:
            self.cycle.keep_alive = False
        else:
            super().send_400_response(msg)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def on_message_begin(self) -> None:
        """Begins to read a request."""
        if self._is_answering():
            raise ValueError("a request before the reply to the last one")
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Begins to answer a request."""
        self._unread = 0
        super().on_headers_complete()

    def on_chunk_header(self) -> None:
        """Begins to read a part of a body."""
        self._unread = 0

    def on_body(self, body: bytes) -> None:
        """Reads a part of a body."""
        self._unread = 0
        super().on_body(body)

    def on_response_complete(self) -> None:
        """Waits for the next request."""
        super().on_response_complete()
        if not self.transport.is_closing():
            self._wait()

    def _wait(self) -> None:
        self.silent[self] = None
        self._timer = self.loop.call_later(self.seconds, self._drop)

    def _stop_waiting(self) -> None:
        self.silent.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _drop(self) -> None:
        self._stop_waiting()
        self.connections.discard(self)  # `connection_lost` comes later
        with contextlib.suppress(OSError):
            self.transport.abort()
