"""Requests in progress, and replies that are kept for clients that ask again."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field, replace

from agentgym.trainers.gateway.wire import Backend, ChatReply, ChatRequest, Refused

OVER = Refused(
    400, "session_over", "The session has ended: start a new episode to send further requests."
)
"""The answer to requests of a session that has ended. Clients do not repeat it."""


@dataclass(eq=False)
class Pending:
    """A request that was handed to the backend.

    Attributes:
        key: key of the session.
        request: the request, without its messages.
        future: ends with the reply.
        id: identifies the reply.
        created: seconds since 1970.
        names: names under which a repetition finds it.
        readers: number of clients that wait for the reply.
        delivered: whether the reply was sent to one of them.
    """

    key: str
    request: ChatRequest
    future: Future[ChatReply]
    id: str
    created: int
    names: tuple[str, ...]
    begun: float = field(default_factory=time.monotonic)
    readers: int = 0
    delivered: bool = False

    def result(self) -> ChatReply | Refused:
        """Returns the reply of a request that is done, or the error that is sent in its place."""
        try:
            return self.future.result(timeout=0)
        except CancelledError:
            return OVER
        except Refused as error:
            return error
        except Exception as error:  # a fault of the backend, which ends no server
            return failed(error)


def failed(error: Exception) -> Refused:
    """Returns the answer to a request on which the trainer failed."""
    return Refused(500, "internal_error", f"The trainer failed: {error!r:.200}")


class PendingRequests:
    """The requests of all sessions. All methods run in the event loop of the server.

    Args:
        backend: answers requests.
        at_once: maximum number of requests in progress per session.
        kept: number of requests per session that are kept for repetitions.
        seconds: seconds for which they are kept.
    """

    def __init__(self, backend: Backend, at_once: int, kept: int, seconds: float):
        self._backend, self._at_once = backend, at_once
        self._kept, self._seconds = kept, seconds
        self._by_key: dict[str, OrderedDict[str, Pending]] = {}

    def begin(self, key: str, request: ChatRequest, body: bytes, id: str) -> Pending:
        """Hands a request to the backend, or finds the one that it repeats.

        Args:
            key: key of the session.
            request: the request.
            body: the body, by which a repetition is known.
            id: identifies the reply if it is a new one.

        Raises:
            Refused: if too many are in progress, or the backend refuses it.
        """
        names = _names(request, body)
        if key not in self._by_key:
            self._forget_sessions()
        known = self._by_key.setdefault(key, OrderedDict())
        self._forget(known)
        if (found := self._repeated(known, request, names)) is not None:
            return found
        if sum(not each.future.done() for each in set(known.values())) >= self._at_once:
            raise Refused(
                429,
                "too_many_requests",
                f"A session may have {self._at_once} requests in progress, and has as many now: "
                "wait for a reply.",
                retry=True,
            )
        future = self._backend.submit(key, request)
        kept = replace(request, messages=())
        pending = Pending(key, kept, future, id, int(time.time()), names)
        for name in names:
            known[name] = pending
            known.move_to_end(name)
        return pending

    def _repeated(
        self, known: Mapping[str, Pending], request: ChatRequest, names: tuple[str, ...]
    ) -> Pending | None:
        """Returns the earlier request that a request repeats, or None."""
        digest, *keys = names
        for name in [*keys, *([digest] if request.retry else [])]:
            found = known.get(name)
            if found is None:
                continue
            if found.names[0] != digest:
                raise Refused(
                    422,
                    "idempotency_mismatch",
                    "The Idempotency-Key was used for another body: send a new one.",
                )
            failed = found.future.done() and isinstance(found.result(), Refused)
            return None if failed else found
        return None

    def _forget(self, known: OrderedDict[str, Pending]) -> None:
        """Forgets old requests of a session."""
        late = time.monotonic() - self._seconds
        done = [name for name, each in known.items() if each.future.done()]
        old = [name for name in done if known[name].begun < late]
        for name in {*old, *done[: max(0, len(known) - self._kept)]}:
            del known[name]

    def _forget_sessions(self) -> None:
        """Forgets the requests of sessions that have ended."""
        for key in [key for key in self._by_key if not self._backend.knows(key)]:
            if all(each.future.done() for each in self._by_key[key].values()):
                del self._by_key[key]

    def leave(self, pending: Pending) -> None:
        """Ends a request whose last reader has gone, unless its reply was sent."""
        if pending.readers or pending.delivered:
            return
        known = self._by_key.get(pending.key, OrderedDict())
        for name in pending.names:
            if known.get(name) is pending:
                del known[name]
        self._backend.cancel(pending.future)


def _names(request: ChatRequest, body: bytes) -> tuple[str, ...]:
    """Returns the names of a request: the digest of its body, and its key."""
    digest = f"body {hashlib.sha256(body).hexdigest()} {request.agent}"
    return (digest, f"key {request.retry_key}") if request.retry_key else (digest,)
