"""`agentgym serve`: environments over HTTP and WebSocket, in the protocol of OpenEnv.

`/ws` is the first environment and `/NAME/ws` each of them: a connection is a session. Over HTTP,
`POST /reset` starts a session and returns its `session_id`, which `POST /step` and `/close` take.
`GET` has `/health`, `/metadata`, `/schema`, `/openapi.json`, `/state` and `/tasks`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from agentgym.registration.making import TextGym
from agentgym.serving.about import about, refusal_of_mcp
from agentgym.serving.admission import Admission
from agentgym.serving.session import (
    CAPACITY_REACHED,
    EXECUTION_ERROR,
    RESET,
    SESSION_ERROR,
    VALIDATION_ERROR,
    ProtocolError,
    Session,
    read_message,
)

STATUS = {CAPACITY_REACHED: 503, EXECUTION_ERROR: 409, SESSION_ERROR: 404}
"""HTTP statuses of errors. 422 for the others."""


@dataclass(frozen=True)
class Limits:
    """Bounds of a server.

    Attributes:
        sessions: maximum number of sessions.
        idle_seconds: seconds without a message after which a session ends.
        env_seconds: maximum seconds of the start of a session, a reset or a step. A slower reset or
            step truncates its episode. A call that waits much longer for a thread is refused.
        message_bytes: maximum size of a message.
        message_seconds: maximum seconds of the body of a request.
        threads: number of threads that step environments.
    """

    sessions: int = 256
    idle_seconds: float = 600.0
    env_seconds: float = 60.0
    message_bytes: int = 1 << 20
    message_seconds: float = 30.0
    threads: int = 8


@dataclass(eq=False)
class _Slot:
    """A session and its use."""

    env: str
    session: Session
    running: Future[Any] | None = None
    used: float = field(default_factory=time.monotonic)

    @property
    def busy(self) -> bool:
        """Whether a call is in progress."""
        return self.running is not None and not self.running.done()


class _TookTooLong(Exception):
    """A call has taken too long. It is no TimeoutError, which an environment may raise."""


class Sessions:
    """The sessions of a server. All methods run in its event loop.

    Args:
        limits: their bounds.
    """

    def __init__(self, limits: Limits):
        self.limits = limits
        self._slots: dict[str, _Slot] = {}
        self._starting = 0
        self._threads = ThreadPoolExecutor(limits.threads, "session")

    def __len__(self) -> int:
        return len(self._slots) + self._starting

    async def start(self, env: str, make: Callable[[], TextGym]) -> str:
        """Starts a session of an environment and returns its id.

        Raises:
            ProtocolError: if there are too many sessions, or the environment cannot be made, or not
                in the time of a call.
        """
        if len(self) >= self.limits.sessions:
            raise ProtocolError(
                CAPACITY_REACHED, f"All {self.limits.sessions} sessions are in use. Try later."
            )
        self._starting += 1
        future = self._threads.submit(Session, make, self.limits.env_seconds)
        try:
            session = await self._result(future)
        except _TookTooLong:
            if not future.cancelled():
                future.add_done_callback(_close)
            raise ProtocolError(CAPACITY_REACHED, "The server is busy. Try later.") from None
        except Exception as error:
            raise ProtocolError(SESSION_ERROR, f"No environment: {error!s:.200}") from error
        finally:
            self._starting -= 1
        self._slots[session.id] = _Slot(env, session)
        return session.id

    def check(self, env: str, id: str) -> None:
        """Checks that an environment has a session.

        Raises:
            ProtocolError: if it has not.
        """
        if id not in self._slots or self._slots[id].env != env:
            raise ProtocolError(SESSION_ERROR, f"{env} has no such session: reset starts one.")

    async def call(self, env: str, id: str, method: Callable[..., Any], *args: Any) -> Any:
        """Runs a method of `Session` on a thread and returns its result.

        Raises:
            ProtocolError: from the method, if the environment has no such session, another call of
                it is in progress, or the call takes too long.
        """
        self.check(env, id)
        slot = self._slots[id]
        if slot.busy:
            raise ProtocolError(EXECUTION_ERROR, "Another call of this session is in progress.")
        slot.running = future = self._threads.submit(method, slot.session, *args)
        try:
            result = await self._result(future)
        except _TookTooLong:
            self.end(id)
            raise ProtocolError(SESSION_ERROR, "The server is busy. Try later.") from None
        except ProtocolError:
            raise
        except Exception as error:  # a fault of the environment, which ends no server
            raise ProtocolError(EXECUTION_ERROR, f"{error!r:.200}") from error
        finally:
            slot.used = time.monotonic()
        return result

    async def _result(self, future: Future[Any]) -> Any:
        """Returns the result of a call on a thread.

        Raises:
            _TookTooLong: if there is none in time. A call that still waits for a thread is dropped.
        """
        waiting = asyncio.wrap_future(future)
        # A call, and the environment that replaces one which hangs, each have a limit of their own.
        await asyncio.wait([waiting], timeout=3 * self.limits.env_seconds)
        if waiting.done():
            return waiting.result()
        future.cancel()
        waiting.cancel()
        raise _TookTooLong

    def end(self, id: str) -> None:
        """Ends a session. Its environment is closed when a call in progress has returned."""
        slot = self._slots.pop(id, None)
        if slot is None:
            return
        if slot.running is not None and slot.busy:
            slot.running.add_done_callback(lambda _: slot.session.close())
        else:
            self._threads.submit(slot.session.close)

    async def watch(self) -> None:
        """Ends idle sessions, forever."""
        while True:
            await asyncio.sleep(min(5.0, self.limits.idle_seconds / 2))
            late = time.monotonic() - self.limits.idle_seconds
            for id, slot in list(self._slots.items()):
                if not slot.busy and slot.used < late:
                    self.end(id)

    def close(self) -> None:
        """Ends all sessions."""
        for id in list(self._slots):
            self.end(id)
        self._threads.shutdown(wait=False)


def _close(started: Future[Session]) -> None:
    if started.exception() is None:
        started.result().close()


def make_app(
    makers: Mapping[str, Callable[[], TextGym]],
    limits: Limits,
    token: str = "",
    hosts: Collection[str] = (),
) -> Starlette:
    """Returns the application (ASGI) that serves environments.

    Args:
        makers: functions that make them, by name. The first one is also served without a name.
        limits: bounds of the server.
        token: what clients send as `Authorization: Bearer TOKEN`. "": nothing, and only programs on
            this machine are admitted.
        hosts: names and addresses of the server, besides those of the local machine.
    """
    sessions = Sessions(limits)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.sessions = sessions
        watch = asyncio.create_task(sessions.watch())
        yield
        watch.cancel()
        sessions.close()

    served = {name: _Served(name, make, sessions) for name, make in makers.items()}
    first = next(iter(served.values()))
    mounts = [Mount(f"/{name}", routes=each.routes()) for name, each in served.items()]
    gate = Middleware(Admission, token=token, hosts=hosts)
    return Starlette(routes=[*mounts, *first.routes()], lifespan=lifespan, middleware=[gate])


class _Served:
    """The routes of one environment."""

    def __init__(self, name: str, make: Callable[[], TextGym], sessions: Sessions):
        self.name, self.make, self.sessions = name, make, sessions
        env = make()
        self.about = about(name, env)
        env.close()

    def routes(self) -> list[BaseRoute]:
        """Returns the routes, without the name of the environment."""
        posts = {"/reset": self.reset, "/step": self.step, "/close": self.close}
        posts["/mcp"] = self.mcp
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
        data = await self._body(request)
        id = data.pop("session_id", None)
        arguments = {name: value for name, value in data.items() if name in RESET}
        new = id is None
        if new:
            id = await self.sessions.start(self.name, self.make)
        try:
            return await self._call(id, Session.reset, arguments)
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
        body, limits = b"", self.sessions.limits
        try:
            async with asyncio.timeout(limits.message_seconds):
                async for part in request.stream():
                    body += part
                    if len(body) > limits.message_bytes:
                        raise ProtocolError(VALIDATION_ERROR, "The message is too long.")
        except TimeoutError:
            raise ProtocolError(
                VALIDATION_ERROR, f"The message took over {limits.message_seconds:g} s."
            ) from None
        return read_message(body or b"{}")

    async def websocket(self, socket: WebSocket) -> None:
        """Serves a session over a WebSocket until the client leaves or is idle for too long."""
        await socket.accept()
        id = ""
        with contextlib.suppress(WebSocketDisconnect, RuntimeError, TimeoutError):
            try:
                id = await self.sessions.start(self.name, self.make)
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
                reply = await self.sessions.call(self.name, id, Session.answer, message)
            except ProtocolError as error:
                if error.code == SESSION_ERROR:  # the session has ended, and the connection with it
                    raise
                reply = error.reply()
            if reply is None:
                return
            await _send(socket, reply)


async def _send(socket: WebSocket, message: Mapping[str, Any]) -> None:
    await socket.send_text(json.dumps(message))


def _json(content: Any, status: int = 200) -> Response:
    return Response(json.dumps(content), status, media_type="application/json")


def _status(error: ProtocolError) -> int:
    return STATUS.get(error.code, 422)
