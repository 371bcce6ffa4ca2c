"""`Answer`: waits for a reply, keeps the connection alive meanwhile, and sends it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping

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


class Answer(Response):
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
        super().__init__()
        self._pending, self._dialect = pending, dialect
        self._seconds, self._leave = seconds, leave
        self._stream = pending.request.stream
        self._started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the reply when it is there."""
        self._pending.readers += 1
        gone = asyncio.create_task(_gone(receive))
        done = asyncio.create_task(_done(self._pending))
        try:
            if await self._wait(gone, done, send):
                await self._finish(self._pending.result(), scope, receive, send)
        finally:
            gone.cancel()
            done.cancel()
            self._pending.readers -= 1
            self._leave(self._pending)

    async def _wait(self, gone: asyncio.Task[None], done: asyncio.Task[None], send: Send) -> bool:
        """Returns whether the reply is there and the client, too."""
        while True:
            await asyncio.wait(
                {gone, done}, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if gone.done():
                return False
            if done.done():
                return True
            await self._part(": waiting\n\n" if self._stream else " ", send)

    async def _part(self, text: str, send: Send, *, more: bool = True) -> None:
        """Sends a part of the body, behind the head if it is the first one."""
        if not self._started:
            self._started = True
            kind = b"text/event-stream" if self._stream else b"application/json"
            headers = [(b"content-type", kind), (b"cache-control", b"no-store")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
        body = text.encode("utf-8", "replace")
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


async def _gone(receive: Receive) -> None:
    """Returns when the client has gone."""
    message: Mapping[str, object] = {}
    while message.get("type") != "http.disconnect":
        message = await receive()


async def _done(pending: Pending) -> None:
    """Returns when a request is done. Its future, which others may wait for, is not cancelled."""
    loop, event = asyncio.get_running_loop(), asyncio.Event()

    def wake(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # the server has ended
            loop.call_soon_threadsafe(event.set)

    pending.future.add_done_callback(wake)
    await event.wait()
