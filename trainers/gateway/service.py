"""Sessions over HTTP: `POST /sessions` begins one, `DELETE /sessions/KEY` ends it.

They are for programs that nobody trains at the moment, whose episodes are recorded.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from agentgym.errors import AgentGymError
from agentgym.serving.admission import Admission
from agentgym.trainers.gateway.answer import error_response
from agentgym.trainers.gateway.body import BODY_SECONDS, bounded_body, read_object
from agentgym.trainers.gateway.dialect import CHAT
from agentgym.trainers.gateway.environment import HeldEnv
from agentgym.trainers.gateway.played import checked_score
from agentgym.trainers.gateway.session import Session, SessionSpec
from agentgym.trainers.gateway.wire import Refused

if TYPE_CHECKING:
    from agentgym.trainers.gateway.gateway import Gateway

LONGEST = 1 << 20
"""Bytes of a body."""
MOST = 256
"""Maximum number of sessions in progress."""
CALLS = 1024
"""Maximum number of requests of a session."""
IDLE = 3600.0
"""Seconds without a request, a reply or a step after which a session ends."""


class SessionService:
    """Begins and ends sessions for clients. Its methods may be called by any thread.

    Args:
        gateway: the gateway.
        make: makes the environment of a session. None: sessions have none.
    """

    def __init__(self, gateway: Gateway, make: Callable[[], gymnasium.Env[Any, Any]] | None = None):
        self._gateway, self._make = gateway, make
        self._open: dict[str, tuple[Session, gymnasium.Env[Any, Any] | None]] = {}
        self._lock, self._numbers = threading.Lock(), itertools.count()
        self._places = threading.BoundedSemaphore(MOST)

    def begin(self, task: str, seed: int) -> dict[str, Any]:
        """Begins a session.

        Args:
            task: name of the task. "" with an environment: one that the seed draws.
            seed: seed of the episode, and of the sampled replies.

        Returns:
            the key, the environment variables of the program, and its task.

        Raises:
            Refused: if the environment refuses the task, or there are too many sessions.
        """
        if not self._places.acquire(blocking=False):
            raise Refused(
                429,
                "too_many_sessions",
                f"{MOST} sessions are in progress: end some with DELETE /sessions/KEY.",
            )
        try:
            return self._begin(next(self._numbers), task, seed)
        except BaseException:
            self._places.release()
            raise

    def _begin(self, number: int, task: str, seed: int) -> dict[str, Any]:
        env = held = None
        try:
            if self._make is not None:
                env = self._make()
                held = HeldEnv(env, task, seed)
        except Exception as error:
            if env is not None:
                env.close()
            if isinstance(error, AgentGymError | gymnasium.error.Error):
                raise Refused(422, "invalid_task", f"{error!s:.500}", param="task") from error
            problem = f"The environment has failed: {error!r:.500}"
            raise Refused(500, "environment_failed", problem) from error
        session = self._gateway.open(SessionSpec((number, seed), CALLS), held)
        name = task if held is None else str(held.info.get("task", task))
        shown = self._gateway.task(session, held, task=name, seed=seed)
        with self._lock:
            self._open[session.token] = session, env
        return {"key": shown.key, "environ": shown.variables, "task": shown.to_json()}

    def end(self, key: str, reward: Any = None) -> dict[str, Any]:
        """Ends a session.

        Args:
            key: its key.
            reward: reward of its last turn, by terms or as a number, or rewards of all turns. None:
                that of the environment alone.

        Returns:
            the number of turns.

        Raises:
            Refused: if no session has the key, or the reward does not fit.
        """
        with self._lock:
            session, env = self._open.get(key, (None, None))
            if session is None:
                raise Refused(404, "no_session", "The key belongs to no session in progress.")
            if reward is not None:
                try:
                    session.record.score(checked_score(reward))
                except (TypeError, ValueError) as error:
                    raise Refused(
                        422, "invalid_reward", f"{error!s:.500}", param="reward"
                    ) from error
            del self._open[key]
        self._places.release()
        self._gateway.close_session(session)
        if env is not None:
            env.close()
        return {"turns": len(session.record.turns())}

    def expire(self) -> None:
        """Ends the sessions that are idle for too long."""
        with self._lock:
            open = list(self._open.items())
        self._end_all([key for key, (session, _) in open if session.idle > IDLE])

    def close(self) -> None:
        """Ends all sessions."""
        with self._lock:
            keys = list(self._open)
        self._end_all(keys)

    def _end_all(self, keys: Sequence[str]) -> None:
        for key in keys:
            with contextlib.suppress(Refused):  # its client was faster
                self.end(key)


def session_routes(
    service: SessionService,
    token: str = "",
    hosts: Sequence[str] = (),
    body_seconds: float = BODY_SECONDS,
) -> list[BaseRoute]:
    """Returns the routes of sessions.

    Args:
        service: begins and ends the sessions.
        token: token of clients. "": none, and only programs on this machine are admitted.
        hosts: names and addresses of the server.
        body_seconds: maximum seconds of the arrival of a body.
    """

    async def begin(request: Request) -> Response:
        body = await _body(request, {"task", "seed"}, body_seconds)
        task, seed = body.get("task", ""), body.get("seed", 0)
        if not isinstance(task, str):
            raise Refused(
                422, "invalid_task", f"task must be a text, got {task!r:.80}.", param="task"
            )
        if type(seed) is not int or not 0 <= seed < 2**63:
            problem = f"seed must be an integer of at least 0, got {seed!r:.80}."
            raise Refused(422, "invalid_seed", problem, param="seed")
        return _json(await run_in_threadpool(service.begin, task, seed), 201)

    async def end(request: Request) -> Response:
        body = await _body(request, {"reward"}, body_seconds)
        key = request.path_params["key"]
        return _json(await run_in_threadpool(service.end, key, body.get("reward")))

    gate = [Middleware(Admission, token=token, hosts=hosts)]
    return [
        Route("/sessions", _safely(begin), methods=["POST"], middleware=gate),
        Route("/sessions/{key}", _safely(end), methods=["DELETE"], middleware=gate),
    ]


def _safely(
    endpoint: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    async def safe(request: Request) -> Response:
        try:
            return await endpoint(request)
        except ClientDisconnect:
            return Response(status_code=499)
        except Refused as error:
            return error_response(error, CHAT)

    return safe


async def _body(request: Request, known: set[str], seconds: float) -> dict[str, Any]:
    """Returns the object of a body, {} for an empty one.

    Raises:
        Refused: if it is too long or too slow, no object, or has other keys than the known ones.
    """
    data = await bounded_body(request, LONGEST, seconds)
    body = read_object(data) if data.strip() else {}
    if unknown := sorted(body.keys() - known):
        problem = f"Expected the keys {', '.join(sorted(known))}, got {unknown[0]!r:.80}."
        raise Refused(422, "unknown_key", problem, param=unknown[0][:80])
    return body


def _json(content: Mapping[str, Any], status: int = 200) -> Response:
    return Response(json.dumps(content), status, media_type="application/json")
