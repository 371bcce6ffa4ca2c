"""`EnvPool`: the environments of a rollout, one per slot."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import gymnasium

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

    Raises:
        ValueError: if `num_envs` is below 1.
    """

    def __init__(self, make_env: MakeEnv, num_envs: int, workers: int = 0):
        if num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, got {num_envs}.")
        self._make_env = make_env
        self.num_envs = num_envs
        self._envs: list[gymnasium.Env[Any, Any]] = []
        self._threads = ThreadPoolExecutor(workers, "env") if workers else None

    def env(self, slot: int) -> gymnasium.Env[Any, Any]:
        """Returns the environment of a slot."""
        while len(self._envs) <= slot:
            self._envs.append(self._make_env())
        return self._envs[slot]

    def submit(self, call: Callable[[], None]) -> Future[None]:
        """Runs a call on a worker, or immediately if there are no workers."""
        if self._threads is not None:
            return self._threads.submit(call)
        future: Future[None] = Future()
        call()
        future.set_result(None)
        return future

    def close(self) -> None:
        """Closes the environments and ends the workers."""
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        for env in self._envs:
            env.close()
        self._envs.clear()

    def __enter__(self) -> EnvPool:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
