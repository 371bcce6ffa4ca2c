"""HTTP requests with a deadline for the whole reply, without redirects."""

from __future__ import annotations

import contextlib
import datetime
import email.utils
import http.client
import re
import socket
import threading
import urllib.request
from email.message import Message
from typing import IO, Any

LARGEST_REPLY = 1 << 24
"""Maximum size of a reply in bytes."""


class UnusableReply(Exception):
    """A reply with status 200 that contains no chat completion.

    Args:
        problem: description of the problem.
        page: whether the reply is not a JSON object.
    """

    def __init__(self, problem: str, page: bool = False):
        super().__init__(problem)
        self.page = page


def make_opener() -> urllib.request.OpenerDirector:
    """Returns an opener of requests that have a `Deadline` as attribute `deadline`."""
    return urllib.request.build_opener(_NoRedirect, _HTTPHandler, _HTTPSHandler)


def retry_after(value: str, now: float) -> float | None:
    """Returns the seconds to wait by a `Retry-After` header (RFC 9110, 10.2.3), if it is valid.

    Some servers send fractions of a second, which RFC 9110 does not have.
    """
    value = value.strip()
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", value):
        return float(value)
    try:
        date = email.utils.parsedate_to_datetime(value)
        if date.tzinfo is None:
            date = date.replace(tzinfo=datetime.UTC)
        return max(0.0, date.timestamp() - now)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def read_body(reply: Any) -> bytes:
    """Returns the body of a reply."""
    data = reply.read(LARGEST_REPLY + 1)
    if len(data) > LARGEST_REPLY:
        raise UnusableReply(f"The reply is longer than {LARGEST_REPLY:,} bytes.")
    if getattr(reply, "length", None):  # `read(n)` does not raise if the connection ends early
        raise http.client.IncompleteRead(data, reply.length)
    return data


class Deadline:
    """Cuts a connection after some seconds.

    The timeout of a socket starts anew with every byte, so a slow server could hold a request for
    ever.
    """

    def __init__(self, seconds: float):
        self.seconds = seconds
        self.expired = False
        self._socket: socket.socket | None = None
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> Deadline:
        self._timer.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._timer.cancel()

    def _cut(self) -> None:
        self.expired = True
        if self._socket is not None:
            with contextlib.suppress(OSError):  # closed already
                self._socket.shutdown(socket.SHUT_RDWR)

    def watch(self, connected: socket.socket) -> None:
        """Cuts this connection when the time is over."""
        self._socket = connected
        self.check()

    def check(self) -> None:
        """Raises TimeoutError if the time is over."""
        if self.expired:
            raise TimeoutError(f"it took more than {self.seconds:g} s")


class _Watched(urllib.request.AbstractHTTPHandler):
    """Hands the socket of each request to its deadline."""

    def do_open(self, http_class: Any, req: Any, **arguments: Any) -> Any:
        def connection(host: str, **options: Any) -> Any:
            made = http_class(host, **options)
            connect = made.connect

            def watched() -> None:
                connect()
                req.deadline.watch(made.sock)

            made.connect = watched
            return made

        return super().do_open(connection, req, **arguments)


class _HTTPHandler(_Watched, urllib.request.HTTPHandler):
    pass


class _HTTPSHandler(_Watched, urllib.request.HTTPSHandler):
    pass


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET and take the key to another host."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Message,
        newurl: str,
    ) -> None:
        return None
