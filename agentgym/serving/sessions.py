"""`Sessions`: the sessions of a server, their number and their time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from agentgym.serving.protocol import (
    CAPACITY_REACHED,
    EXECUTION_ERROR,
    SESSION_ERROR,
    ProtocolError,
)
from agentgym.serving.session import Session


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

    async def start(self, env: str, begin: Callable[[], Session]) -> str:
        """Starts a session of an environment and returns its id. See `start_all`."""
        [id] = await self.start_all(env, [begin])
        return id

    async def start_all(self, env: str, begins: Sequence[Callable[[], Session]]) -> list[str]:
        """Starts sessions of an environment, all or none, and returns their ids.

        Half of the threads start them, so that other sessions go on.

        Args:
            env: the name of the environment.
            begins: functions that make the sessions.

        Raises:
            ProtocolError: if there are too many sessions, or one of them cannot be made, or not in
                the time of a call.
        """
        if len(self) + len(begins) > self.limits.sessions:
            raise ProtocolError(
                CAPACITY_REACHED,
                f"{len(self)} of {self.limits.sessions} sessions are in use, and {len(begins)} "
                "more were asked for. Try later.",
            )
        self._starting += len(begins)
        gate = asyncio.Semaphore(max(1, self.limits.threads // 2))
        tasks = [asyncio.create_task(self._start(begin, gate)) for begin in begins]
        try:
            sessions = await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            for found in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(found, Session):
                    self._threads.submit(found.close)
            raise
        finally:
            self._starting -= len(begins)
        self._slots |= {session.id: _Slot(env, session) for session in sessions}
        return [session.id for session in sessions]

    async def _start(self, begin: Callable[[], Session], gate: asyncio.Semaphore) -> Session:
        async with gate:
            future = self._threads.submit(begin)
            try:
                return await self._result(future)
            except BaseException as error:
                future.add_done_callback(_close)  # a session that comes too late
                if isinstance(error, _TookTooLong):
                    busy = ProtocolError(CAPACITY_REACHED, "The server is busy. Try later.")
                    raise busy from None
                if isinstance(error, ProtocolError) or not isinstance(error, Exception):
                    raise
                raise ProtocolError(SESSION_ERROR, f"No environment: {error!s:.200}") from error

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
    if not started.cancelled() and started.exception() is None:
        started.result().close()
