"""`Sessions`: answers the requests of many foreign programs with one policy, in one thread.

Web servers and programs hand requests over from their threads (`submit`). The thread of the trainer
builds the prompts, generates, and hands the replies back (`run`). A sample depends on the weights,
the key of its episode and its prompt, not on when the request arrives. The last bits of
probabilities depend on the batch.
"""

from __future__ import annotations

import hashlib
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from agentgym.errors import ConfigError
from agentgym.trainers.data.trajectory import Tokens
from agentgym.trainers.gateway.messages import Answered
from agentgym.trainers.gateway.prompts import Prompt, Prompts
from agentgym.trainers.gateway.session import (
    Session,
    SessionSpec,
    Waiting,
    ended,
    logprobs_of,
    one_each,
    refuse,
    stop_of,
)
from agentgym.trainers.gateway.wire import ChatReply, ChatRequest, Message, Refused, ToolCall
from agentgym.trainers.policy.sampling import Request, Sample, Sampling

if TYPE_CHECKING:
    from agentgym.trainers.policy.policy import Policy

Batching = Literal["continuous", "lockstep", "single"]
"""Which requests are generated together. "continuous": those that have come. "lockstep": one of
each session, as soon as all have asked. "single": one at a time."""
POLL = 0.5
"""Seconds between two calls of `on_progress` while there are no requests."""
GATHER = 0.02
"""Seconds without a new request after which an idle model begins with those that have come."""
LOCKSTEP = 30.0
"""Seconds after which a batch in lockstep begins without the sessions that have not asked."""
SPENT = "The episode has used up its budget of requests. Please stop here."
"""The reply to a request beyond the budget of a session. It is not recorded."""


class Sessions:
    """A `Backend` that answers with a policy.

    Args:
        policy: the policy, whose weights must not change while `run` generates.
        sampling: sampling parameters. Wishes of clients for others are not followed.
        prompts: builds the prompts. None: with the default arguments.
        batching: which requests are generated together.
        model: name of the model.
        max_tokens: maximum length of prompt plus reply in tokens. None: the limit of the model.

    Attributes:
        model: name of the model.
        sampling: sampling parameters, which may be replaced while there is no session.
    """

    def __init__(
        self,
        policy: Policy,
        sampling: Sampling,
        prompts: Prompts | None = None,
        batching: Batching = "continuous",
        model: str = "policy",
        *,
        max_tokens: int | None = None,
    ):
        if batching not in get_args(Batching):
            known = ", ".join(get_args(Batching))
            raise ConfigError(f"batching must be one of {known}, got {batching!r}.")
        self.model = model
        limits = [limit for limit in (max_tokens, policy.max_length) if limit is not None]
        self._limit = min(limits, default=None)
        self._policy, self.sampling, self._batching = policy, sampling, batching
        self._prompts = prompts or Prompts(policy.tokenizer, policy.format)
        self._cache: Any = policy.session()
        self._changed = threading.Condition()
        self._live: dict[bytes, Session] = {}  # by digests, whose comparison tells nothing of a key
        self._queue: list[Waiting] = []
        self._jobs: list[tuple[Callable[[], Any], Future[Any]]] = []
        self._closed: list[Session] = []
        self._acting: dict[int, Waiting] = {}
        self._over: Callable[[], bool] = lambda: True
        self._on_progress: Callable[[], None] = lambda: None
        self._warned = False

    # Called by any thread.

    def open(self, spec: SessionSpec, info: Mapping[str, Any] | None = None) -> Session:
        """Begins a session.

        Args:
            spec: its description.
            info: the `info` of its environment after the reset, if it has one.
        """
        session = Session(spec, self._prompts.history(), info)
        with self._changed:
            self._live[_digest(session.token)] = session
        return session

    def close(self, session: Session) -> None:
        """Ends a session. Its open requests are refused, and its key is forgotten."""
        with self._changed:
            self._live.pop(_digest(session.token), None)
            for waiting in session.waiting:
                waiting.lose()
                refuse(waiting.future, ended())
            session.waiting.clear()
            self._closed.append(session)
            self._changed.notify_all()

    def close_all(self) -> None:
        """Ends all sessions."""
        with self._changed:
            live = list(self._live.values())
        for session in live:
            self.close(session)

    def step(self, session: Session, *outcome: Any, call: ToolCall | None = None) -> None:
        """Records a step of the environment: the arguments are those of `Record.step`."""
        session.touch()
        with self._changed:
            session.record.step(*outcome, call=call)

    def wake(self) -> None:
        """Lets `run` look again whether it is over."""
        with self._changed:
            self._changed.notify_all()

    def knows(self, key: str) -> bool:
        """Returns whether a key belongs to a session in progress."""
        return self.find(key) is not None

    def find(self, key: str) -> Session | None:
        """Returns the session in progress with a key, None if there is none."""
        with self._changed:
            return self._live.get(_digest(key))

    def submit(self, key: str, request: ChatRequest) -> Future[ChatReply]:
        """Begins to answer a request and returns at once."""
        session = self.find(key)
        if session is None:
            raise ended()
        future: Future[ChatReply] = Future()
        session.touch()
        with self._changed:
            session.requests += 1
            if session.requests > session.spec.calls:
                future.set_result(ChatReply(SPENT, model=self.model))
                return future
            request = session.history.shared(request)
            waiting = Waiting(session, request, session.record.tick(), future)
            session.waiting.append(waiting)
            self._queue.append(waiting)
            if self._batching != "lockstep" or self._have_all_asked():
                self._changed.notify_all()
        return future

    def count(self, key: str, request: ChatRequest) -> Future[int]:
        """Begins to count the prompt tokens of a request. Nothing of it is recorded."""
        session = self.find(key)
        if session is None:
            raise ended()
        session.touch()
        return self._later(lambda: len(self._prompts.prompt(request, session.history).tokens))

    def following(self, session: Session, observation: str) -> Future[Tokens | None]:
        """Begins to build the prompt of the state after the last reply of a session.

        Args:
            session: the session, which may have ended.
            observation: the answer to the reply, that of a tool if it calls one.

        Returns:
            A future of the prompt, of None if there is no reply.
        """

        def build() -> Tokens | None:
            turns = session.record.turns()
            if not turns or turns[-1].reply is None:
                return None
            request, reply = turns[-1].request, turns[-1].reply
            said = Message("assistant", reply.text, reply.reasoning, reply.calls)
            results = [Message("tool", observation, call_id=call.id) for call in reply.calls[:1]]
            answer = results or [Message("user", observation)]
            messages = (*request.messages, said, *answer)
            return self._prompts.prompt(replace(request, messages=messages), session.history).tokens

        return self._later(build)

    def _later(self, job: Callable[[], Any]) -> Future[Any]:
        """Begins a job of the thread of the trainer, which alone uses the tokenizer."""
        future: Future[Any] = Future()
        with self._changed:
            self._jobs.append((job, future))
            self._changed.notify_all()
        return future

    def cancel(self, future: Future[ChatReply]) -> None:
        """Ends a request whose client has gone. If it was answered, its reply was not read."""
        with self._changed:
            for session in self._live.values():
                for waiting in session.waiting:
                    if waiting.future is future:
                        waiting.lose()
                if (call := session.answered.pop(future, None)) is not None:
                    session.record.lose(call)

    # Called by the thread of the trainer.

    def run(self, over: Callable[[], bool], on_progress: Callable[[], None] | None = None) -> None:
        """Answers requests until all is over.

        Args:
            over: whether no request will come any more.
            on_progress: called before each call of the model, and every `POLL` seconds while there
                are no requests. An exception in it ends the loop.
        """
        self._over = over
        self._on_progress = on_progress or (lambda: None)
        while requests := self._answer((), False):
            self._policy.serve(requests, self.sampling, self._cache, self._answer, eager=True)

    def forget(self) -> None:
        """Forgets the contexts of all sessions."""
        self._cache.clear()

    def _answer(self, done: Sequence[tuple[Request, Sample]], busy: bool) -> list[Request]:
        """Hands finished samples over, and returns the next requests, or none at the end."""
        self._finish([(self._acting.pop(id(request)), sample) for request, sample in done])
        while True:
            self._on_progress()
            self._tidy()
            if not busy and self._batching == "continuous":
                self._gather()
            begun = map(self._begin, self._take(busy))
            found = [request for request in begun if request is not None]
            if found or busy:
                return found
            with self._changed:
                if self._jobs or self._are_ready():
                    continue
                if not self._queue and self._over():
                    return []
                self._changed.wait(POLL)

    def _gather(self) -> None:
        """Waits while requests come: programs that were answered together ask soon after."""
        count = 0
        while count < len(self._queue) < len(self._live):
            count = len(self._queue)
            time.sleep(GATHER)

    def _tidy(self) -> None:
        """Does the jobs, and forgets the contexts of sessions that have ended."""
        with self._changed:
            jobs, self._jobs = self._jobs, []
            closed, self._closed = self._closed, []
        for job, future in jobs:
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(job())
            except ConfigError:
                raise
            except Exception as error:
                future.set_exception(error)
        for session in closed:
            for slot in session.slots.values():
                self._cache.drop(slot)

    def _take(self, busy: bool) -> list[Waiting]:
        """Returns the requests that begin now."""
        with self._changed:
            if not self._are_ready() or (busy and self._batching != "continuous"):
                return []
            taken = sorted(self._queue, key=lambda waiting: waiting.session.spec.key)
            if self._batching != "continuous":
                taken = taken[:1] if self._batching == "single" else one_each(taken)
            self._queue = [waiting for waiting in self._queue if waiting not in taken]
            return taken

    def _are_ready(self) -> bool:
        """Whether there are requests and, in lockstep, each session has asked or ended."""
        if not self._queue or self._batching != "lockstep":
            return bool(self._queue)
        if self._have_all_asked():
            return True
        if time.monotonic() < min(waiting.since for waiting in self._queue) + LOCKSTEP:
            return False
        if not self._warned:
            warnings.warn(
                f"A program has asked for nothing in {LOCKSTEP:.0f} seconds. The others go on "
                "without it, so that the last bits of this run may not be repeatable.",
                stacklevel=2,
            )
        self._warned = True
        return True

    def _have_all_asked(self) -> bool:
        """Whether each session has a request that has not begun."""
        asking = {id(waiting.session) for waiting in self._queue}
        return all(id(session) in asking for session in self._live.values())

    def _begin(self, waiting: Waiting) -> Request | None:
        """Returns the generation of a request, or None if it was refused."""
        session, request = waiting.session, waiting.request
        with self._changed:
            if waiting.lost or not waiting.future.set_running_or_notify_cancel():
                waiting.let_go()
                return None
        try:
            prompt = self._prompts.prompt(request, session.history)
            most = self._room(prompt, request)
        except ConfigError:
            raise
        except Exception as error:  # one request ends no run
            with self._changed:
                waiting.let_go()
                refuse(waiting.future, error)
            return None
        call = session.record.begin(request, prompt, waiting.begun)
        state, free = session.record.info, bool(request.tools) or not session.spec.constrain
        waiting.call = call
        waiting.generation = Request(
            prompt.tokens,
            session.random(call),
            None if free else tuple(state.get("admissible", ())) or None,
            slot=session.slot(call),
            max_new_tokens=most,
            stop=request.stop,
            cancelled=waiting.lost,
        )
        self._acting[id(waiting.generation)] = waiting
        return waiting.generation

    def _room(self, prompt: Prompt, request: ChatRequest) -> int:
        """Returns the maximum number of tokens of a reply."""
        most = [self.sampling.max_new_tokens]
        if request.max_tokens is not None:
            most.append(request.max_tokens)
        if (length := self._limit) is not None:
            most.append(length - len(prompt.tokens))
            if most[-1] < 1:
                raise Refused(
                    400,
                    "context_length_exceeded",
                    f"The model's maximum context length is {length} tokens, and the messages have "
                    f"{len(prompt.tokens)}: the prompt is too long. Shorten the messages.",
                    param="messages",
                )
        return max(1, min(most))

    def _finish(self, done: Sequence[tuple[Waiting, Sample]]) -> None:
        """Records the replies to requests and sends them, together: programs compete for time."""
        replies = [self._reply(waiting, sample) for waiting, sample in done]
        with self._changed:
            for (waiting, sample), reply in zip(done, replies, strict=True):
                session, call = waiting.session, waiting.call
                assert call is not None
                session.touch()
                waiting.let_go()
                if waiting.lost:
                    continue
                session.record.end(call, sample, reply)
                answered = call.number, call.prompt.chain, call.prompt.tokens, sample.tokens, reply
                session.history.add(Answered(*answered))
                session.answered[waiting.future] = call
                waiting.future.set_result(reply)

    def _reply(self, waiting: Waiting, sample: Sample) -> ChatReply:
        """Returns a sample as its client reads it."""
        call = waiting.call
        assert call is not None
        return replace(
            waiting.session.reply(call, sample),
            model=call.request.model or self.model,
            logprobs=logprobs_of(sample, self._policy.decode) if call.request.logprobs else (),
            stop=stop_of(sample, call.request.stop, self._policy.decode),
        )


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
