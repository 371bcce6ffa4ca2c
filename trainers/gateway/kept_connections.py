"""Requests of a program to the gateway over connections that stay open. It needs no PyTorch."""

from __future__ import annotations

import http.client
import os
import selectors
import threading
import urllib.parse

SECONDS = 600.0
"""Time limit of a request."""


class _Open(dict[tuple[int, str, str], http.client.HTTPConnection]):
    """Open connections by process, scheme and host. They end with the thread that holds them."""

    def __del__(self) -> None:
        for connection in self.values():
            connection.close()


class _Kept(threading.local):
    """The open connections of a thread."""

    def __init__(self) -> None:
        self.connections = _Open()


_KEPT = _Kept()


def post(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    """Sends a request and returns the status and the body of its reply. It uses no proxy.

    A connection that the server has closed in the meantime is opened anew. A request that was sent
    is never repeated: it may have acted.

    Args:
        url: the address.
        body: the body.
        headers: the headers.

    Raises:
        OSError: if there is no reply.
    """
    parts = urllib.parse.urlsplit(url)
    place = os.getpid(), parts.scheme, parts.netloc  # a fork has connections of its own
    connection = _KEPT.connections.pop(place, None)
    if connection is None or _is_closed(connection):
        kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        connection = kind(parts.netloc, timeout=SECONDS)
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    try:
        connection.request("POST", path, body, headers)
        reply = connection.getresponse()
        text = reply.read()
    except http.client.HTTPException as error:
        connection.close()
        raise OSError(f"{type(error).__name__}: {error}") from error
    except BaseException:
        connection.close()
        raise
    if not reply.will_close:
        _KEPT.connections[place] = connection
    return reply.status, text


def _is_closed(connection: http.client.HTTPConnection) -> bool:
    """Returns whether the other side has closed a connection: it is then at the end of reading."""
    if connection.sock is None:
        return True
    closed = can_be_read(connection.sock.fileno(), 0)
    if closed:
        connection.close()
    return closed


def can_be_read(file: int, seconds: float | None) -> bool:
    """Waits until something can be read from a file, or its end, and returns whether it can be.

    Args:
        file: descriptor of the file.
        seconds: time limit. None: no limit.
    """
    with selectors.DefaultSelector() as selector:  # `select` has a largest number of a file
        selector.register(file, selectors.EVENT_READ)
        return bool(selector.select(seconds))
