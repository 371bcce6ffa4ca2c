"""`Session`: an episode of a foreign program in progress, and its requests."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import numpy as np

from agentgym.trainers.data.trajectory import Tokens
from agentgym.trainers.gateway.messages import History, call_ids
from agentgym.trainers.gateway.record import Call, Record
from agentgym.trainers.gateway.replies import read_reply, signatures
from agentgym.trainers.gateway.wire import (
    ChatReply,
    ChatRequest,
    Refused,
    TokenLogprob,
    ToolCall,
)
from agentgym.trainers.policy.sampling import Request, Sample

_HALF = "\ufffd"
"""What stands for a character without its last bytes."""
_LONGEST = 16
"""Tokens after which bytes that make no character are text."""


@dataclass(frozen=True)
class SessionSpec:
    """An episode of a foreign program.

    Attributes:
        key: seed of the policy's sampling, such as (run seed, iteration, index).
        calls: maximum number of requests. Later ones get the reply `SPENT`.
        constrain: whether replies to requests without tools are restricted to the admissible
            actions of the environment.
    """

    key: tuple[int, ...]
    calls: int = 256
    constrain: bool = False


class Session:
    """An episode of a foreign program in progress.

    Attributes:
        token: the secret by which the program names the session.
        spec: its description.
        record: its calls.
    """

    def __init__(self, spec: SessionSpec, history: History, info: Mapping[str, Any] | None = None):
        self.token = secrets.token_hex(16)
        self.spec, self.record = spec, Record(info)
        self.history = history
        self.name = "/".join(map(str, spec.key))
        self.requests = 0
        self.depths: dict[int, int] = {}  # of the calls of the first chain
        self.slots: dict[int, str] = {}
        self.repeated: dict[bytes, int] = {}
        self.waiting: list[Waiting] = []
        self.answered: dict[Future[ChatReply], Call] = {}
        self._rng = np.random.default_rng(np.random.SeedSequence(spec.key))
        self._seen = monotonic()

    def touch(self) -> None:
        """Notes a request, a reply or a step of the environment."""
        self._seen = monotonic()

    @property
    def idle(self) -> float:
        """Seconds since the last sign of life, 0 while a request is in progress."""
        return 0.0 if self.waiting else monotonic() - self._seen

    def pending(self) -> Tokens | None:
        """Returns the prompt of the last request if it has no reply."""
        calls = self.record.calls
        return calls[-1].prompt.tokens if calls and calls[-1].ended is None else None

    def random(self, call: Call) -> np.random.Generator:
        """Returns the generator of a call: along the first conversation, that of a rollout."""
        parent, depths = call.prompt.parent, self.depths
        depth = depths.get(parent, -1) + 1 if parent is not None else 0
        first = parent in depths if parent is not None else not depths
        if first and depth not in depths.values():
            depths[call.number] = depth
            return self._rng  # its parent has drawn all numbers of its own
        digest = hashlib.sha256(call.prompt.tokens.tobytes()).digest()
        count = self.repeated[digest] = self.repeated.get(digest, -1) + 1
        words = np.frombuffer(digest, np.uint32).tolist()
        return np.random.default_rng(np.random.SeedSequence((*self.spec.key, *words, count)))

    def slot(self, call: Call) -> str:
        """Returns the slot of the cache: that of the call that this one goes on from, or a new."""
        parent = call.prompt.parent
        slot = self.slots.pop(parent, None) if parent is not None else None
        self.slots[call.number] = slot or f"{self.token}/{call.number}"
        return self.slots[call.number]

    def reply(self, call: Call, sample: Sample) -> ChatReply:
        """Returns a sample as the client reads it, without the name of the model."""
        request = call.request
        tools = signatures(request.tools) if request.tool_choice == "auto" else {}
        found = read_reply(sample.text, tools, thinking=call.prompt.thinking)
        ids = call_ids(self.name, call.number, len(found.calls))
        made = zip(ids, found.calls, strict=True)
        calls = tuple(ToolCall(id, each.name, each.arguments) for id, each in made)
        if not request.parallel:
            calls = calls[:1]
        stop = "tool_calls" if calls else "stop"
        return ChatReply(
            found.text,
            found.reasoning,
            calls,
            stop if sample.finished else "length",
            prompt_tokens=len(call.prompt.tokens),
            completion_tokens=len(sample.tokens),
        )


@dataclass(eq=False)
class Waiting:
    """A request that is not answered yet."""

    session: Session
    request: ChatRequest
    begun: int
    future: Future[ChatReply]
    call: Call | None = None
    generation: Request | None = None
    lost: bool = False
    since: float = field(default_factory=monotonic)

    def lose(self) -> None:
        """Notes that nobody waits for the reply any more."""
        self.lost = True
        if self.generation is not None:
            self.generation.cancelled = True

    def let_go(self) -> None:
        """Takes it from those of its session."""
        if self in self.session.waiting:
            self.session.waiting.remove(self)


def one_each(waiting: Sequence[Waiting]) -> list[Waiting]:
    """Returns the first request of each session."""
    first = {each.session.token: each for each in reversed(waiting)}
    return [each for each in waiting if first[each.session.token] is each]


def logprobs_of(sample: Sample, decode: Callable[[Sequence[int]], str]) -> tuple[TokenLogprob, ...]:
    """Returns the tokens of a sample as text, with their log-probabilities.

    The text of a character that several tokens write is that of the last of them.
    """
    found: list[TokenLogprob] = []
    begun: list[int] = []  # tokens of a character that is not whole
    for token, logprob in zip(sample.tokens.tolist(), sample.logprobs.tolist(), strict=True):
        begun.append(token)
        text = decode(begun)
        if text.endswith(_HALF) and len(begun) < _LONGEST and len(found) + 1 < len(sample.tokens):
            text = ""
        else:
            begun.clear()
        found.append(TokenLogprob(text, text.encode(), logprob))
    return tuple(found)


def stop_of(sample: Sample, stops: Sequence[str], decode: Callable[[Sequence[int]], str]) -> str:
    """Returns the stop string that ended a sample, "" if none of these did."""
    if not stops or not sample.finished:
        return ""
    whole = decode(sample.tokens.tolist())
    rest = whole[whole.find(sample.text) + len(sample.text) :]
    return next((stop for stop in stops if rest.startswith(stop)), "")


def ended() -> Refused:
    """Returns the answer to requests of a session that has ended."""
    return Refused(400, "session_ended", "The session of this key has ended: start another one.")


def refuse(future: Future[ChatReply], error: Exception) -> None:
    """Ends a request with an error, unless it has ended."""
    if not future.done():
        future.set_exception(error)
