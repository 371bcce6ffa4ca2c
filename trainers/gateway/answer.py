"""`Answer`: waits for a reply, keeps the connection alive meanwhile, and sends it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agentgym.trainers.gateway.dialect import Dialect, sse
from agentgym.trainers.gateway.pending import Pending
from agentgym.trainers.gateway.wire import ChatReply, Refused

RETRY_SECONDS = 1
"""Seconds after which a client may repeat a request that can succeed later."""


def error_response(error: Refused, dialect: Dialect) -> Response:
    """Returns the response with an error. Its headers say whether clients repeat the request."""
    headers = {"x-should-retry": "true" if error.retry else "false"}
    if error.retry:
        headers["Retry-After"] = str(RETRY_SECONDS)
    text = json.dumps(dialect.error(error))
    return Response(text, error.status, headers, media_type="application/json")


class Answer:
    """The response to a request in progress.

    A reply that takes long is preceded by blanks, or by comments in a stream, so that no time limit
    of a client or a proxy is reached. An error behind them is an event of the stream. A reply that
    is not streamed has no place for one then, and the connection is closed.

    Args:
        pending: the request.
        dialect: the form of the reply.
        seconds: seconds between signs of life.
        leave: called with the request when the client has gone or has got its reply.
    """

    def __init__(
        self,
        pending: Pending,
        dialect: Dialect,
        seconds: float,
        leave: Callable[[Pending], None],
    ):
        self._pending, self._dialect = pending, dialect
        self._seconds, self._leave = seconds, leave
        self._stream = pending.request.stream
        self._started = False
        self._time: asyncio.Timeout | None = None  # of the present wait

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the reply when it is there."""
        self._pending.readers += 1
        try:
            if await self._wait(receive, send):
                await self._finish(self._pending.result(), scope, receive, send)
        finally:
            self._pending.readers -= 1
            self._leave(self._pending)

    async def _wait(self, receive: Receive, send: Send) -> bool:
        """Returns whether the reply is there and the client, too."""
        loop, future = asyncio.get_running_loop(), self._pending.future

        def wake(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the server has ended
                loop.call_soon_threadsafe(self._stop_waiting)

        future.add_done_callback(wake)
        while not future.done():
            try:
                async with asyncio.timeout(self._seconds) as self._time:
                    while (await receive())["type"] != "http.disconnect":
                        pass
                return False
            except TimeoutError:
                if not future.done():
                    await self._part(": waiting\n\n" if self._stream else " ", send)
        return True

    def _stop_waiting(self) -> None:
        if self._time is not None:
            with contextlib.suppress(RuntimeError):  # it is over
                self._time.reschedule(asyncio.get_running_loop().time())

    async def _part(self, text: str, send: Send, *, more: bool = True) -> None:
        """Sends a part of the body, behind the head if it is the first one."""
        body = text.encode("utf-8", "replace")
        if not self._started:
            self._started = True
            kind = b"text/event-stream" if self._stream else b"application/json"
            headers = [(b"content-type", kind), (b"cache-control", b"no-store")]
            if not more:
                headers.append((b"content-length", b"%d" % len(body)))
            await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": more})

    async def _finish(
        self, result: ChatReply | Refused, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Sends a reply or an error."""
        pending, dialect = self._pending, self._dialect
        if isinstance(result, Refused):
            if not self._started:
                await error_response(result, dialect)(scope, receive, send)
            elif self._stream:
                await self._part(dialect.error_event(result), send, more=False)
            return  # otherwise without an end, on which the server closes the connection
        pending.delivered = True
        parts = result, pending.request, pending.id, pending.created
        if self._stream:
            text = "".join(sse(name, data) for name, data in dialect.events(*parts))
        else:
            text = json.dumps(dialect.write(*parts))
        await self._part(text, send, more=False)
