"""Pages and errors of servers of environments, and the header that admits a client."""

from __future__ import annotations

import base64
import http.client
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from agentgym.errors import AgentGymError, needs_extra
from agentgym.utils.masking import MASK, masked_text

_BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses of servers that may answer later."""
RETRY_SECONDS = (0.5, 1.0, 2.0)
"""Waits before further tries."""
LONGEST = 1 << 26
"""Size of an answer."""


class RemoteError(AgentGymError, RuntimeError):
    """A server does not answer, or answers with an error.

    Args:
        message: description of the problem.
        code: error code of the server. "": there is none.
    """

    def __init__(self, message: str, code: str = ""):
        super().__init__(message)
        self.code = code


class NoSnapshotsError(RemoteError, AttributeError):
    """The environment of a server has no snapshots."""


def authorization(token: str, user: str) -> dict[str, str]:
    """Returns the header for a token, or else for the user and password in an address."""
    token = os.environ.get("AGENTGYM_TOKEN", "") if token in ("", MASK) else token
    if token:
        return {"Authorization": f"Bearer {token}"}
    if user and MASK not in user:
        words = base64.b64encode(urllib.parse.unquote(user).encode()).decode()
        return {"Authorization": f"Basic {words}"}
    return {}


def read_page(url: str, headers: dict[str, str], timeout: float, path: str) -> bytes | None:
    """Returns a page of a server, None if there is no such page.

    Raises:
        RemoteError: if the server does not answer or refuses.
    """
    request = urllib.request.Request(url + path, headers=headers)
    for wait in (*RETRY_SECONDS, None):
        try:
            with _OPENER.open(request, timeout=timeout) as reply:
                text = reply.read(LONGEST + 1)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in (404, 405):
                return None
            if error.code in _BUSY and wait is not None:
                time.sleep(wait)
                continue
            raise RemoteError(_refusal(url, path, error)) from error
        except (OSError, http.client.HTTPException) as error:
            raise RemoteError(f"{url} does not answer: {error!r:.200}") from error
        if len(text) > LONGEST:
            raise RemoteError(f"{url}{path} sent more than {LONGEST:,} bytes.")
        return text
    raise AssertionError("the last try returns or raises")


def _refusal(url: str, path: str, error: urllib.error.HTTPError) -> str:
    if error.code in (401, 403):
        return f"{url} asks for another token, or refuses this host ({error.code})."
    if 300 <= error.code < 400:
        place = masked_text(str(error.headers.get("Location")))
        return f"{url}{path} points to {place:.200}: use that address as url."
    return f"{url}{path} answers with the status {error.code}. Try again later."


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Makes an error of a redirect, which would carry the token to another address."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Returns no request."""


_OPENER = urllib.request.build_opener(_NoRedirects)


def open_socket(url: str, headers: Mapping[str, str], timeout: float) -> Any:
    """Returns a connection to the WebSocket of a server.

    Args:
        url: the address, ws:// or wss://.
        headers: headers of the request.
        timeout: maximum seconds to wait for an answer.

    Raises:
        MissingExtraError: without the package websockets.
        RemoteError: if the server does not answer.
    """
    with needs_extra("AgentGym/Remote-v0", "serve"):
        from websockets.exceptions import InvalidStatus
        from websockets.sync.client import ClientConnection, connect

    class Connection(ClientConnection):
        def handshake(self, *args: Any, **kwargs: Any) -> None:
            try:
                super().handshake(*args, **kwargs)
            except InvalidStatus as error:  # some versions would follow a redirect
                raise ConnectionError(str(error)) from error

    try:
        return connect(
            url, additional_headers=headers, open_timeout=timeout,
            max_size=LONGEST, create_connection=Connection,
        )  # fmt: skip
    except Exception as error:
        raise RemoteError(f"{url} does not answer: {error!r:.200}") from error
