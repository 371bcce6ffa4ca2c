"""`Admission`: which requests a server answers.

With a token, those that have it. Without one, only those of programs on this machine: any page that
a browser shows could send requests to a local port. Browsers name the page in `Origin`, and the
name that led to this address in `Host`, which another one than that of this machine reveals (DNS
rebinding). Bodies must be JSON, which pages of other origins cannot send without asking first.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

POLICY_VIOLATION = 1008
"""Code with which a WebSocket is closed."""


class Admission:
    """An ASGI application in front of another one, which answers what is refused.

    Args:
        app: the application.
        token: what clients send as `Authorization: Bearer TOKEN`. "": only local ones are admitted.
        hosts: names and addresses of this server, besides those of the local machine.
    """

    def __init__(self, app: ASGIApp, token: str = "", hosts: Collection[str] = ()):
        self._app, self._token = app, token
        self._hosts = frozenset(host.casefold() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        refused = self.refusal(scope)
        if refused is None:
            return await self._app(scope, receive, send)
        status, reason = refused
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": reason})
            return None
        text = json.dumps({"detail": reason})
        response = Response(text, status, {"Connection": "close"}, media_type="application/json")
        return await response(scope, receive, send)

    def refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Returns the HTTP status and the reason of a refusal, None for a request to answer."""
        headers = Headers(scope=scope)
        if self._token:
            given = headers.get("authorization", "").encode()
            known = hmac.compare_digest(given, f"Bearer {self._token}".encode())
            if not known and not scope["path"].endswith("/health"):
                return 401, "The token is missing or wrong."
        elif (reason := self._foreign(headers)) is not None:
            return 403, reason
        if scope["type"] == "http" and scope["method"] == "POST" and not _is_json(headers):
            return 415, "The body must be JSON, with the header Content-Type: application/json."
        return None

    def _foreign(self, headers: Mapping[str, str]) -> str | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        remedy = "To serve others than programs on this machine, start the server with --token."
        if not self._is_ours(host):
            return f"The host {host!r:.80} is not the address of this server. {remedy}"
        if origin is not None and _netloc(origin) != host.casefold():
            return f"The origin {origin!r:.80} is not this server. {remedy}"
        return None

    def _is_ours(self, host: str) -> bool:
        name = _hostname(host)
        if name in self._hosts or name == "localhost":
            return True
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False


def _netloc(origin: str) -> str:
    """Returns the host and port of an origin, "" if it has none."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return ""
    return parts.netloc.casefold() if parts.scheme in ("http", "https") else ""


def _hostname(host: str) -> str:
    """Returns the name or the address in a `Host` header, "" if it is none."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # an error unless it is a number
    except ValueError:
        return ""
    return (parts.hostname or "") if parts.netloc == host and "@" not in host else ""


def _is_json(headers: Mapping[str, str]) -> bool:
    """Returns whether a body is JSON, or there is none."""
    kind = headers.get("content-type")
    if kind is None:
        length = headers.get("content-length", "0").strip()
        return length in ("", "0") and "transfer-encoding" not in headers
    return kind.partition(";")[0].strip().lower() == "application/json"
