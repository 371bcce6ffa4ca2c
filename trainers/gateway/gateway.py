"""`Gateway`: a policy at an OpenAI-compatible address, with a session for each episode.

with Gateway(policy) as gateway:
with gateway.session(task="order 17", seed=3) as session:
subprocess.run(["python", "my_agent.py"], env=session.environ)
trajectory = session.trajectory(reward=1.0)
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import gymnasium

from agentgym.errors import AgentGymError, ConfigError, needs_extra
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.gateway.environment import HeldEnv
from agentgym.trainers.gateway.prompts import Prompts
from agentgym.trainers.gateway.session import Session, SessionSpec
from agentgym.trainers.gateway.sessions import Batching, Sessions
from agentgym.trainers.gateway.task import Task
from agentgym.trainers.gateway.trace_file import TraceFile
from agentgym.trainers.policy.sampling import Sampling

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from agentgym.trainers.policy.policy import Policy


class Gateway:
    """Answers the requests of programs with a policy, at an address on this machine.

    Args:
        policy: the policy.
        sampling: sampling parameters. None: those of training by default.
        prompts: builds the prompts. None: with the default arguments.
        batching: which requests are generated together. None: on a CPU, one of each session, so
            that runs of deterministic programs repeat, and on a GPU those that have come.
        model: the name of the policy in replies.
        max_tokens: maximum length of prompt plus reply in tokens. None: the limit of the model.
        host: address to listen on.
        port: port to listen on. 0: any free one.
        record: a new file that gets the trace of each session at its end. None: none.
        routes: returns further routes of the server. None: there are none.

    Attributes:
        sessions: the sessions in progress. Their `run` answers the requests.
        url: where the gateway is reached.
        traces: the file of traces, None without one.

    Raises:
        ConfigError: if the port is in use, or the file exists or cannot be written.
        MissingExtraError: without the extra `serve`.
    """

    def __init__(
        self,
        policy: Policy,
        sampling: Sampling | None = None,
        *,
        prompts: Prompts | None = None,
        batching: Batching | None = None,
        model: str = "policy",
        max_tokens: int | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        record: str | Path | None = None,
        routes: Callable[[Gateway], Sequence[BaseRoute]] | None = None,
    ):
        with needs_extra("The gateway", "serve"):
            from agentgym.trainers.gateway.environment_routes import environment_routes
            from agentgym.trainers.gateway.server import GatewayServer
        chosen = batching or ("lockstep" if policy.device.type == "cpu" else "continuous")
        self.sessions = Sessions(
            policy, sampling or Sampling(), prompts, chosen, model, max_tokens=max_tokens
        )
        self._held: dict[str, HeldEnv] = {}
        self._tasks: dict[str, Task] = {}
        self._over, self._numbers = False, itertools.count()
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        self.traces = None if record is None else TraceFile(record)
        found = [*environment_routes(self._find), *(routes(self) if routes is not None else ())]
        try:
            self._server = GatewayServer(self.sessions, host, port, routes=found)
        except OSError as error:
            if self.traces is not None:
                self.traces.path.unlink()  # it is new and empty
            raise ConfigError(
                f"The gateway cannot listen at {host}, port {port}: {error}. Choose another port."
            ) from error
        self.url = self._server.url

    def _find(self, key: str) -> HeldEnv | None:
        """Returns the environment of a session in progress."""
        session = self.sessions.find(key)
        return None if session is None else self._held.get(session.token)

    def open(self, spec: SessionSpec, held: HeldEnv | None = None) -> Session:
        """Begins a session.

        Args:
            spec: its description.
            held: its environment, after the reset. None: there is none.

        Raises:
            AgentGymError: if an error has ended the thread that answers.
        """
        session = self.sessions.open(spec, None if held is None else held.info)
        if self._error is not None:
            self.sessions.close(session)  # nobody would answer it
            raise AgentGymError("The gateway has failed, and answers no more.") from self._error
        if held is not None:
            held.attach(partial(self.sessions.step, session))
            self._held[session.token] = held
        return session

    def close_session(self, session: Session) -> None:
        """Ends a session: its requests, also those in progress, are refused. Writes its trace."""
        held = self._held.pop(session.token, None)
        if held is not None:
            held.close()
        self.sessions.close(session)
        task = self._tasks.pop(session.token, None)
        if self.traces is not None and task is not None:
            self.traces.add(session, task, self.sessions.sampling)

    def task(
        self, session: Session, held: HeldEnv | None, *, env: str = "", task: str, seed: int
    ) -> Task:
        """Returns the task of a session's program."""
        known = Task(env, task, seed, model=self.sessions.model, url=self.url, key=session.token)
        if held is not None:
            known = dataclasses.replace(
                known,
                env=held.env_id,
                instructions=held.instructions,
                observation=str(held.observation),
                admissible=tuple(held.info.get("admissible", ())),
                tools=held.tools,
                data={name: each for name, each in held.data.items() if not name.startswith("_")},
            )
        self._tasks[session.token] = known
        return known

    @contextlib.contextmanager
    def sampling(self, sampling: Sampling) -> Iterator[None]:
        """Returns a context in which sessions have other sampling parameters."""
        before, self.sessions.sampling = self.sessions.sampling, sampling
        try:
            yield
        finally:
            self.sessions.sampling = before

    def close(self) -> None:
        """Ends the server."""
        self._server.close()

    # With programs that the caller starts.

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over = True
        self.sessions.wake()
        if self._thread is not None:
            self._thread.join()
        self.close()
        if self._error is not None and exc[0] is None:
            raise self._error

    def _answer(self) -> None:
        try:
            self.sessions.run(lambda: self._over)
        except BaseException as error:
            self._error = error
            self.sessions.close_all()

    @contextlib.contextmanager
    def session(
        self,
        task: str = "",
        seed: int = 0,
        env: gymnasium.Env[Any, Any] | None = None,
        *,
        key: Sequence[int] | None = None,
        calls: int = 256,
    ) -> Iterator[OpenSession]:
        """Begins a session of a program that the caller starts, and ends it with the block.

        Args:
            task: name of the task. "" with an environment: one that the seed draws.
            seed: seed of the episode, and of the sampled replies.
            env: an environment that the program plays through the gateway. It is reset.
            key: seed of the sampled replies. None: the number of the session and `seed`. Equal keys
                and prompts have equal replies.
            calls: maximum number of requests.
        """
        held = None if env is None else HeldEnv(env, task, seed)
        words = tuple(key) if key is not None else (next(self._numbers), seed)
        session = self.open(SessionSpec(words, calls), held)
        try:
            name = task if held is None else str(held.info.get("task", task))
            yield OpenSession(session, self.task(session, held, task=name, seed=seed))
        finally:
            self.close_session(session)


class OpenSession:
    """A session of a program that the caller starts.

    Args:
        session: the session.
        task: what the program plays.

    Attributes:
        task: what the program plays.
        record: the calls so far.
    """

    def __init__(self, session: Session, task: Task):
        self.task, self.record = task, session.record
        self._session = session

    @property
    def openai(self) -> dict[str, str]:
        """Arguments of `openai.OpenAI`: address and key."""
        return self.task.openai

    @property
    def environ(self) -> dict[str, str]:
        """Environment variables of the program, few of them from this process."""
        return self.task.environ()

    def trajectory(
        self, reward: float | Mapping[str, float] | Sequence[float] | None = None
    ) -> Trajectory | None:
        """Returns the trajectory of the episode, or None if there was no request.

        Args:
            reward: reward of the last turn, by terms or as a number, or rewards of all turns, added
                to those of the environment.
        """
        if reward is not None:
            self.record.score(reward)
        task = self.task
        return self.record.trajectory(
            task.env, task.task, task.seed, episode=self._session.spec.key,
            pending=self._session.pending(), instructions=task.instructions,
        )  # fmt: skip
