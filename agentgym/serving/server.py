"""`agentgym serve`: environments over HTTP and WebSocket, in the protocol of OpenEnv.

`/ws` is the first environment and `/NAME/ws` each of them: a connection is a session. Over HTTP,
`POST /reset` starts a session and returns its `session_id`, which `POST /step` and `/close` take.
`GET` has `/health`, `/metadata`, `/schema`, `/openapi.json`, `/state` and `/tasks`.

A session continues elsewhere from the text of a snapshot: `POST /snapshot` returns it, `/restore`
takes it, and `/fork` starts several sessions at once in the state of one. The server keeps none.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from agentgym.registration.making import TextGym
from agentgym.serving.about import about, has_snapshots, refusal_of_mcp
from agentgym.serving.admission import Admission
from agentgym.serving.connections import BodyError, read_body
from agentgym.serving.protocol import (
    CAPACITY_REACHED,
    EXECUTION_ERROR,
    SESSION_ERROR,
    VALIDATION_ERROR,
    ProtocolError,
    read_message,
)
from agentgym.serving.seal import Seal
from agentgym.serving.session import Session, fork_seeds
from agentgym.serving.sessions import Limits, Sessions

STATUS = {CAPACITY_REACHED: 503, EXECUTION_ERROR: 409, SESSION_ERROR: 404}
"""HTTP statuses of errors. 422 for the others."""
ENVELOPE_BYTES = 1024
"""Bytes of a message with a snapshot besides its text."""


def make_app(
    makers: Mapping[str, Callable[[], TextGym]],
    limits: Limits,
    token: str = "",
    hosts: Collection[str] = (),
    snapshot_key: bytes | None = None,
) -> Starlette:
    """Returns the application (ASGI) that serves environments.

    Args:
        makers: functions that make them, by name. The first one is also served without a name.
        limits: bounds of the server.
        token: what clients send as `Authorization: Bearer TOKEN`. "": nothing, and only programs on
            this machine are admitted.
        hosts: names and addresses of the server, besides those of the local machine.
        snapshot_key: secret that seals snapshots. None: a random one, so that no other server and
            no later one reads them.
    """
    key = snapshot_key or secrets.token_bytes(32)
    sessions = Sessions(limits)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.sessions = sessions
        watch = asyncio.create_task(sessions.watch())
        yield
        watch.cancel()
        sessions.close()

    served = {name: _Served(name, make, sessions, key) for name, make in makers.items()}
    first = next(iter(served.values()))
    mounts = [Mount(f"/{name}", routes=each.routes()) for name, each in served.items()]
    gate = Middleware(Admission, token=token, hosts=hosts)
    return Starlette(routes=[*mounts, *first.routes()], lifespan=lifespan, middleware=[gate])


class _Served:
    """The routes of one environment."""

    def __init__(
        self, name: str, make: Callable[[], TextGym], sessions: Sessions, snapshot_key: bytes
    ):
        self.name, self.sessions = name, sessions
        limits, env = sessions.limits, make()
        self.about = about(name, env)
        longest = limits.message_bytes - ENVELOPE_BYTES
        self.seal = Seal(env, snapshot_key, longest) if has_snapshots(env) else None
        self.begin = partial(Session, make, limits.env_seconds, self.seal)
        env.close()

    def routes(self) -> list[BaseRoute]:
        """Returns the routes, without the name of the environment."""
        posts = {"/reset": self.reset, "/step": self.step, "/close": self.close}
        posts["/mcp"] = self.mcp
        if self.seal is not None:
            posts |= {"/snapshot": self.snapshot, "/restore": self.restore, "/fork": self.fork}
        return [
            WebSocketRoute("/ws", self.websocket),
            *(Route(path, self._safely(do), methods=["POST"]) for path, do in posts.items()),
            Route("/state", self._safely(self.state)),
            *(Route(path, self._safely(self.describe)) for path in self.about),
        ]

    def _safely(self, answer: Callable[[Request], Any]) -> Callable[[Request], Any]:
        """Returns an endpoint that answers errors as JSON."""

        async def endpoint(request: Request) -> Response:
            try:
                return _json(await answer(request))
            except ProtocolError as error:
                return _json({"detail": str(error), "code": error.code}, _status(error))
            except ClientDisconnect:
                return _json({}, 499)

        return endpoint

    async def describe(self, request: Request) -> Any:
        """Returns constant facts about the environment."""
        return self.about["/" + request.url.path.rpartition("/")[2]]

    async def reset(self, request: Request) -> Any:
        """Starts an episode, in a new session unless `session_id` names one."""
        return await self._start_episode(request, Session.reset)

    async def _start_episode(self, request: Request, method: Callable[..., Any]) -> Any:
        """Runs a method that starts an episode, in a new session or that of the request."""
        data = await self._body(request)
        id = data.pop("session_id", None)
        new = id is None
        if new:
            id = await self.sessions.start(self.name, self.begin)
        try:
            return await self._call(id, method, data)
        except ProtocolError:
            if new:
                self.sessions.end(id)
            raise

    async def step(self, request: Request) -> Any:
        """Plays a turn of the session `session_id`."""
        data = await self._body(request)
        action = data.get("action")
        if not isinstance(action, dict):
            raise ProtocolError(VALIDATION_ERROR, "action must be an object.")
        return await self._call(data.get("session_id"), Session.step, action)

    async def snapshot(self, request: Request) -> Any:
        """Returns a snapshot of the session `session_id`."""
        data = await self._body(request)
        return await self._call(data.get("session_id"), Session.snapshot)

    async def restore(self, request: Request) -> Any:
        """Continues from a snapshot, in a new session unless `session_id` names one."""
        return await self._start_episode(request, Session.restore)

    async def fork(self, request: Request) -> Any:
        """Starts several sessions in the state of the session `session_id`."""
        data = await self._body(request)
        return await self._fork(str(data.pop("session_id", None)), data)

    async def _fork(self, id: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Starts `count` sessions in the state of one, all or none, each with a seed."""
        seeds = fork_seeds(data, self.sessions.limits.sessions)
        saved = await self.sessions.call(self.name, id, Session.snapshot)

        def begin(seed: int) -> Session:
            session = self.begin()
            try:
                session.restore({"snapshot": saved["snapshot"], "seed": seed})
            except BaseException:
                session.close()
                raise
            return session

        begins = [partial(begin, seed) for seed in seeds]
        return {"session_ids": await self.sessions.start_all(self.name, begins), "seeds": seeds}

    async def state(self, request: Request) -> Any:
        """Returns the state of the session in the query."""
        return await self._call(request.query_params.get("session_id"), Session.state)

    async def close(self, request: Request) -> Any:
        """Ends a session."""
        id = str((await self._body(request)).get("session_id"))
        self.sessions.check(self.name, id)
        self.sessions.end(id)
        return {}

    async def mcp(self, request: Request) -> Any:
        """Answers a client of MCP that there are no tools here."""
        return refusal_of_mcp(await self._body(request))

    async def _call(self, id: Any, method: Callable[..., Any], *args: Any) -> dict[str, Any]:
        found = await self.sessions.call(self.name, str(id), method, *args)
        return {**found, "session_id": id}

    async def _body(self, request: Request) -> dict[str, Any]:
        limits = self.sessions.limits
        return await message_of(request, limits.message_bytes, limits.message_seconds)

    async def websocket(self, socket: WebSocket) -> None:
        """Serves a session over a WebSocket until the client leaves or is idle for too long.

        It is a new one, or the one that the query `session_id` names, such as that of a fork.
        """
        await socket.accept()
        id = ""
        with contextlib.suppress(WebSocketDisconnect, RuntimeError, TimeoutError):
            try:
                if (known := socket.query_params.get("session_id")) is None:
                    id = await self.sessions.start(self.name, self.begin)
                else:
                    self.sessions.check(self.name, known)
                    id = known
                await self._converse(socket, id)
            except ProtocolError as error:
                await _send(socket, error.reply())
            finally:
                self.sessions.end(id)
            await socket.close()

    async def _converse(self, socket: WebSocket, id: str) -> None:
        idle = self.sessions.limits.idle_seconds
        while True:
            frame = await asyncio.wait_for(socket.receive(), idle)
            if frame["type"] != "websocket.receive":
                return
            try:
                message = read_message(frame.get("text") or frame.get("bytes") or "")
                reply = await self._reply(id, message)
            except ProtocolError as error:
                if error.code == SESSION_ERROR:  # the session has ended, and the connection with it
                    raise
                reply = error.reply()
            if reply is None:
                return
            await _send(socket, reply)

    async def _reply(self, id: str, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the reply to a message. A fork starts sessions, the others concern one."""
        data = message.get("data", {})
        if self.seal is None or message.get("type") != "fork" or not isinstance(data, dict):
            return await self.sessions.call(self.name, id, Session.answer, message)
        return {"type": "fork", "data": await self._fork(id, data)}


async def message_of(request: Request, most: int, seconds: float) -> dict[str, Any]:
    """Returns the message in the body of a request, an empty one without a body.

    Args:
        request: the request.
        most: maximum number of bytes.
        seconds: maximum seconds of its arrival.

    Raises:
        ProtocolError: if it is too long or too slow, or no message.
    """
    try:
        return read_message(await read_body(request, most, seconds) or b"{}")
    except BodyError as error:
        raise ProtocolError(VALIDATION_ERROR, str(error)) from error


async def _send(socket: WebSocket, message: Mapping[str, Any]) -> None:
    await socket.send_text(json.dumps(message))


def _json(content: Any, status: int = 200) -> Response:
    return Response(json.dumps(content), status, media_type="application/json")


def _status(error: ProtocolError) -> int:
    return STATUS.get(error.code, 422)
