"""The web server of the gateway: an address that OpenAI clients take for their own.

`POST /v1/chat/completions`, `/v1/responses` and Anthropic's `/v1/messages` answer requests,
`GET /v1/models` names the model, `GET /health` needs no key. Paths without `/v1` and below `/s/KEY`
are the same. The key of a session is the API key.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from agentgym.serving.connections import server_config
from agentgym.trainers.gateway.answer import Answer, error_response
from agentgym.trainers.gateway.body import BODY_SECONDS, bounded_body, read_object
from agentgym.trainers.gateway.chat import CONTINUED
from agentgym.trainers.gateway.dialect import CHAT, MESSAGES, RESPONSES, Dialect
from agentgym.trainers.gateway.pending import PendingRequests, failed
from agentgym.trainers.gateway.wire import Backend, ChatRequest, Refused

AGENT_HEADER = "x-agentgym-agent"
"""Header with the name of the agent of a program that asks."""
_LONGEST_AGENT = 64


@dataclass(frozen=True)
class Limits:
    """Bounds of the server.

    Attributes:
        body_bytes: maximum size of a body.
        body_seconds: maximum seconds of the arrival of a body.
        open_requests: maximum number of requests in progress per session.
        comment_seconds: seconds between signs of life in a stream.
        blank_seconds: the same in a reply that is not streamed. An error after the first one has no
            status any more, so they come later.
        kept_replies: number of requests per session whose replies are kept for repetitions.
        kept_seconds: seconds for which they are kept.
        sessions: number of sessions for which connections are kept open.
        header_seconds: seconds for the headers of a request, and of a connection without one.
    """

    body_bytes: int = 8 << 20
    body_seconds: float = BODY_SECONDS
    open_requests: int = 8
    comment_seconds: float = 10.0
    blank_seconds: float = 60.0
    kept_replies: int = 64
    kept_seconds: float = 600.0
    sessions: int = 256
    header_seconds: float = 60.0


def make_app(
    backend: Backend, limits: Limits | None = None, routes: Sequence[BaseRoute] = ()
) -> Starlette:
    """Returns the application (ASGI) of the gateway.

    Args:
        backend: answers the requests.
        limits: bounds of the server.
        routes: further routes, such as those of environments.
    """
    return Starlette(
        routes=[*routes, *_Routes(backend, limits or Limits()).routes()],
        exception_handlers={HTTPException: _not_found},
    )


async def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = error.status_code
    refused = Refused(
        status,
        "not_found",
        f"There is no {request.method} {request.url.path!r:.200}: the base address ends with /v1.",
    )
    return error_response(refused, MESSAGES if "/messages" in request.url.path else CHAT)


class _Routes:
    """The routes of the gateway."""

    def __init__(self, backend: Backend, limits: Limits):
        self._backend, self._limits = backend, limits
        self._pending = PendingRequests(
            backend, limits.open_requests, limits.kept_replies, limits.kept_seconds
        )

    def routes(self) -> list[Route]:
        """Returns the routes, with and without `/v1`, and with the key in the path."""
        found = list[Route]()  # those that most requests ask for come first
        for prefix in ("/v1", "", "/s/{key}/v1", "/s/{key}"):
            posts = {
                "chat/completions": self._answering(CHAT),
                "responses": self._answering(RESPONSES),
                "messages": self._answering(MESSAGES),
                "messages/count_tokens": self._safely(self._count, MESSAGES),
            }
            found += [Route(f"{prefix}/{path}", do, methods=["POST"]) for path, do in posts.items()]
            found += [
                Route(f"{prefix}/models", self._safely(self._models, CHAT)),
                Route(f"{prefix}/models/{{id:path}}", self._safely(self._model, CHAT)),
            ]
        return [*found, Route("/health", _health)]

    def _safely(
        self, endpoint: Callable[[Request], Awaitable[Response]], dialect: Dialect
    ) -> Callable[[Request], Awaitable[Response]]:
        """Returns an endpoint that answers errors in the form of its dialect."""

        async def safe(request: Request) -> Response:
            try:
                return await endpoint(request)
            except Refused as error:
                return error_response(error, dialect)
            except ClientDisconnect:
                return Response(status_code=499)
            except Exception as error:  # one request ends no run
                return error_response(failed(error), dialect)

        return safe

    def _answering(self, dialect: Dialect) -> Callable[[Request], Awaitable[Response]]:
        """Returns the endpoint that answers requests of a dialect."""

        async def answer(request: Request) -> Response:
            key, agent = self._key(request)
            body = await self._body(request)
            chat = _with_headers(dialect.read(read_object(body)), request, agent)
            if dialect is MESSAGES and chat.messages[-1].role == "assistant":
                raise Refused(400, "unsupported_prefill", CONTINUED, param="messages")
            id = dialect.prefix + secrets.token_hex(12)
            pending = self._pending.begin(key, chat, request.url.path.encode() + body, id)
            limits = self._limits
            seconds = limits.comment_seconds if chat.stream else limits.blank_seconds
            return Answer(pending, dialect, seconds, self._pending.leave)

        return self._safely(answer, dialect)

    def _key(self, request: Request) -> tuple[str, str]:
        """Returns the key of a session, and the name of the agent behind a dot in it.

        Raises:
            Refused: if the key belongs to no session in progress.
        """
        headers = request.headers
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        given = [
            request.path_params.get("key", ""),
            bearer.strip() if scheme.lower() == "bearer" else "",
            headers.get("x-api-key", ""),
            headers.get("x-goog-api-key", ""),
        ]
        for each in filter(None, given):
            key, _, agent = each.partition(".")
            if self._backend.knows(key):
                return key, agent
        raise Refused(
            401,
            "invalid_api_key",
            "The API key belongs to no session in progress: send the key of the environment "
            "variable OPENAI_API_KEY that the program was started with.",
        )

    async def _body(self, request: Request) -> bytes:
        return await bounded_body(request, self._limits.body_bytes, self._limits.body_seconds)

    async def _count(self, request: Request) -> Response:
        """Returns the number of tokens of a prompt. Nothing is recorded."""
        key, agent = self._key(request)
        body = read_object(await self._body(request))
        chat = _with_headers(MESSAGES.read(body), request, agent)
        tokens = await asyncio.wrap_future(self._backend.count(key, chat))
        return _json({"input_tokens": tokens})

    async def _models(self, request: Request) -> Response:
        self._key(request)
        return _json({"object": "list", "data": [self._about(self._backend.model)]})

    async def _model(self, request: Request) -> Response:
        self._key(request)
        return _json(self._about(request.path_params["id"]))

    def _about(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": 0, "owned_by": "agentgym"}


async def _health(request: Request) -> Response:
    return _json({"status": "healthy"})


def _json(content: Any) -> Response:
    return Response(json.dumps(content), media_type="application/json")


def _with_headers(chat: ChatRequest, request: Request, agent: str) -> ChatRequest:
    """Returns a request with the facts that its headers hold."""
    headers = request.headers
    count = headers.get("x-stainless-retry-count", "0")
    return replace(
        chat,
        agent=headers.get(AGENT_HEADER, agent)[:_LONGEST_AGENT],
        retry=count.isascii() and count.isdigit() and int(count[:9]) > 0,
        retry_key=headers.get("idempotency-key", "")[:256],
    )


class GatewayServer:
    """The gateway on a port of this machine, in a thread of its own.

    Args:
        backend: answers the requests.
        host: the address to listen at.
        port: the port, 0 for any free one.
        limits: bounds of the server.
        routes: further routes, such as those of environments.

    Attributes:
        url: the address, without `/v1`.
    """

    def __init__(
        self,
        backend: Backend,
        host: str = "127.0.0.1",
        port: int = 0,
        limits: Limits | None = None,
        routes: Sequence[BaseRoute] = (),
    ):
        limits = limits or Limits()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=256)
        name = f"[{host}]" if ":" in host else host
        self.url = f"http://{name}:{self._listener.getsockname()[1]}"
        connections = limits.sessions * limits.open_requests
        config = server_config(
            make_app(backend, limits, routes), connections, 1 << 16, limits.header_seconds
        )
        config.timeout_keep_alive = int(limits.header_seconds) + 1
        config.timeout_graceful_shutdown = 1
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="gateway", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._server.run([self._listener])

    def close(self) -> None:
        """Stops the server. Requests in progress are ended after a second."""
        self._server.should_exit = True
        self._thread.join(10)
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
