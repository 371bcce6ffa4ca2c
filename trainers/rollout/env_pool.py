"""`EnvPool`: the environments of a rollout, one per slot."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

import gymnasium

from agentgym.registration.making import env_name
from agentgym.registration.mixture import Mixture
from agentgym.time_limits import BoundedCalls, CallTimeout
from agentgym.trainers.rollout.failures import Failures

MakeEnv = Callable[[], gymnasium.Env[Any, Any]]


class EnvPool:
    """Pool of environments for rollouts, created lazily and reused.

    Args:
        make_env: creates one environment.
        num_envs: number of slots (episodes played in parallel).
        workers: number of threads that step environments. 0 steps them sequentially in the calling
            thread, which is fastest for environments that need microseconds per step. With workers,
            the model continues as soon as half of the slots have finished their step, so slow
            environments do not block the others.
        seconds: time limit of a call into an environment. None: no limit.
        failures: share of the episodes of a rollout that may fail.

    Attributes:
        failures: the episodes whose environments failed.

    Raises:
        ValueError: if `num_envs` is below 1.
    """

    def __init__(
        self,
        make_env: MakeEnv,
        num_envs: int,
        workers: int = 0,
        seconds: float | None = None,
        failures: float = 0.0,
    ):
        if num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, got {num_envs}.")
        self._make_env = make_env
        self.num_envs = num_envs
        self.failures = Failures(failures)
        self._envs: dict[int, gymnasium.Env[Any, Any]] = {}
        self._seconds = seconds
        self._calls: dict[int, BoundedCalls] = {}
        self._threads = _Threads(workers) if workers else None

    def env(self, slot: int) -> gymnasium.Env[Any, Any]:
        """Returns the environment of a slot."""
        for number in range(slot + 1):
            if number not in self._envs:
                self._envs[number] = self._make_env()
        return self._envs[slot]

    def first_observation(self, task: str) -> str:
        """Returns the first observation of a task, in an environment in which nothing is played.

        It is "" if the environment does not begin in time.
        """
        if -1 not in self._envs:
            self._envs[-1] = self._make_env()
        env, calls = self._envs[-1], self.calls(-1)

        def begin() -> str:
            observation, _ = env.reset(seed=0, options={"task": task})
            return observation

        try:
            return begin() if calls is None else calls(begin)
        except CallTimeout as error:
            del self._envs[-1]  # left to itself
            warnings.warn(f"The task {task!r} is left out: {error}.", RuntimeWarning, stacklevel=2)
            return ""

    def renew(self, slot: int) -> None:
        """Closes the environment of a slot that has failed. The next one is a fresh one."""
        with contextlib.suppress(Exception):  # it may be in any state
            self._envs.pop(slot).close()

    def abandon(self, slot: int) -> None:
        """Leaves a call that does not end to itself. The slot gets a fresh environment."""
        self._envs.pop(slot, None)
        if self._threads is not None:
            self._threads.add()

    def calls(self, slot: int) -> BoundedCalls | None:
        """Returns the calls into the environment of a slot, None without a time limit."""
        if self._seconds is None:
            return None
        return self._calls.setdefault(slot, BoundedCalls(self._seconds))

    def replace(self, slot: int, problem: str) -> None:
        """Abandons the environment of a slot, in which a call did not return, for a new one.

        Args:
            slot: the slot.
            problem: description of the call, for a warning.
        """
        warnings.warn(f"{problem} The episode is truncated.", RuntimeWarning, stacklevel=2)
        self._envs[slot] = self._make_env()

    def submit(self, call: Callable[[], None]) -> Future[None]:
        """Runs a call on a worker, or immediately if there are no workers."""
        if self._threads is not None:
            return self._threads.submit(call)
        future: Future[None] = Future()
        try:
            call()
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(None)
        return future

    def close(self) -> None:
        """Closes the environments and ends the workers."""
        if self._threads is not None:
            self._threads.close()
        for slot, env in self._envs.items():
            calls = self.calls(slot)
            if calls is None:
                env.close()
                continue
            with contextlib.suppress(CallTimeout):
                calls(env.close)
            calls.close()
        self._envs.clear()

    def __enter__(self) -> EnvPool:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _Threads:
    """Threads that run calls. Unlike those of `ThreadPoolExecutor`, none is waited for at exit.

    A step of an environment may never end, and a process must be able to.
    """

    def __init__(self, count: int):
        self._waiting: SimpleQueue[tuple[Future[None], Callable[[], None]] | None] = SimpleQueue()
        self._count, self._started = count, 0

    def add(self) -> None:
        """Adds a thread."""
        self._count += 1

    def submit(self, call: Callable[[], None]) -> Future[None]:
        """Runs a call on the next free thread."""
        while self._started < self._count:
            threading.Thread(target=self._run, name="env", daemon=True).start()
            self._started += 1
        future: Future[None] = Future()
        self._waiting.put((future, call))
        return future

    def close(self) -> None:
        """Ends the threads after their calls."""
        for _ in range(self._started):
            self._waiting.put(None)

    def _run(self) -> None:
        while (item := self._waiting.get()) is not None:
            future, call = item
            try:
                call()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(None)


def instructions_of(env: gymnasium.Env[Any, Any]) -> str:
    """Returns the instructions of an environment, or "" if it has none."""
    try:
        return str(env.get_wrapper_attr("instructions"))
    except AttributeError:
        return ""


def turns_of(env: gymnasium.Env[Any, Any]) -> int:
    """Returns the number of turns that an environment has counted, 0 if it does not."""
    return getattr(env.unwrapped, "_turn", 0)


def instructions_by_id(env: gymnasium.Env[Any, Any]) -> dict[str, str]:
    """Returns the instructions of an environment, or of those of a mixture, by id."""
    envs = env.envs.values() if isinstance(env, Mixture) else (env,)
    return {env_name(each): instructions_of(each) for each in envs}
