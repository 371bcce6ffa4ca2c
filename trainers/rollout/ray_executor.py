"""`RayExecutor`: episodes are played by Ray actors, on this machine or on a cluster.

Each worker has environments, a copy of the policy and an engine. The episodes of a call are split
into one share per worker. Weights are put into Ray's object store once per version, from where each
node copies them once.

A worker that dies is replaced by Ray, on any node with free resources, and plays its share again.
A share is returned as a whole, so every episode is counted once. With the same weights the repeated
episodes are the same, because an episode depends on the weights and its `EpisodeSpec` alone.

Shares may wait in the queues of the workers while the learner updates the weights. Workers take
over newer weights between two calls of the model, as the interruptible rollout workers of AReaL
(arXiv 2505.24298): between two turns, and with `continuous_batching` also within an action. Each
turn records the version that sampled it, or that of each token.
"""

from __future__ import annotations

import os
import pickle
import platform
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from agentgym.errors import AgentGymError, ConfigError, MissingExtraError
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.rollout.executor import LocalExecutor, OnEpisode, OnProgress

RESTARTS = 16
"""Number of times that each worker is replaced."""
POLL = 0.5
"""Seconds between two checks for signals while episodes are played."""

BuildWorker = Callable[[OnProgress], LocalExecutor]
"""Makes the executor inside a worker, which calls the given function between turns."""


class WorkersLostError(AgentGymError, RuntimeError):
    """A rollout worker died more often than it is replaced."""


@dataclass(frozen=True)
class Weights:
    """Published weights of a policy.

    Attributes:
        number: number of the publication. A higher one is newer.
        version: the version of the policy (see `Policy.version`).
        arrays: the bytes of `Policy.own_weights`, by name.
    """

    number: int
    version: int | None
    arrays: dict[str, NDArray[np.uint8]]

    @classmethod
    def of(cls, policy: Policy, number: int) -> Weights:
        """Returns the current weights of a policy."""
        arrays = {
            name: tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
            for name, tensor in policy.own_weights().items()
        }
        return cls(number, policy.version, arrays)

    def load_into(self, policy: Policy) -> None:
        """Replaces the weights of a policy."""
        old = policy.own_weights()
        new = {
            name: torch.tensor(array).view(old[name].dtype).view(old[name].shape)
            for name, array in self.arrays.items()
        }
        policy.load_own_weights(new)
        policy.version = self.version


class RolloutWorker:
    """Plays shares of episodes, in a process of Ray."""

    def __init__(self) -> None:
        self._local: LocalExecutor | None = None
        self._loaded = -1
        self._newest: Weights | None = None
        self._lock = threading.Lock()

    def name(self) -> str:
        """Returns the name of this process, which a worker that is replaced changes."""
        return f"{platform.node()}:{os.getpid()}"

    def renew(self, weights: Weights) -> None:
        """Offers newer weights to an episode in progress. Runs in a thread of its own."""
        with self._lock:
            if self._newest is None or weights.number > self._newest.number:
                self._newest = weights

    def play(
        self, build: list[Any], weights: Weights, episodes: Sequence[EpisodeSpec]
    ) -> tuple[str, bytes]:
        """Plays episodes with the given weights, or newer ones.

        Args:
            build: a list with the reference of a `BuildWorker`, which the first call of a process
                needs. Ray does not follow references in a list.
            weights: the weights.
            episodes: the episodes.

        Returns:
            The name of this process, and the pickled trajectories and metrics: the arrays of
            objects in Ray's object store cannot be written to.
        """
        if self._local is None:
            self._local = _import_ray().get(build[0])(self._take_over)
            assert self._local is not None
        self.renew(weights)
        self._take_over()
        played = self._local.play(episodes)
        return self.name(), pickle.dumps((played, self._local.metrics()))

    def _take_over(self, _: int = 0) -> None:
        with self._lock:
            weights = self._newest
        if self._local and weights and weights.number > self._loaded:
            assert isinstance(self._local.policy, Policy)
            weights.load_into(self._local.policy)
            self._loaded = weights.number


class RayExecutor:
    """Plays episodes with Ray actors.

    Args:
        policy: the policy, whose weights are published when they have changed.
        build: makes the executor inside a worker. It is sent to the workers.
        workers: number of workers.
        cpus: CPU cores of a worker.
        gpus: GPUs of a worker, which may be a fraction.
        address: address of a Ray cluster, "auto" for the one that runs on this machine. None starts
            Ray on this machine. It is not used if this process is connected to a cluster already.
        on_progress: called while waiting for episodes, with 0. An exception in it ends the wait.
        on_episode: called with each finished episode and its trajectory.

    Raises:
        ConfigError: if the cluster cannot be reached, has too few cores or GPUs, or the environment
            cannot be sent to it.
        MissingExtraError: if Ray is not installed.
    """

    def __init__(
        self,
        policy: Policy,
        build: BuildWorker,
        *,
        workers: int,
        cpus: int = 1,
        gpus: float = 0.0,
        address: str | None = None,
        on_progress: OnProgress | None = None,
        on_episode: OnEpisode | None = None,
    ):
        self._ray = _import_ray()
        self._policy = policy
        self._on_progress, self._on_episode = on_progress, on_episode
        self._started = not self._ray.is_initialized()
        if self._started:
            self._connect(address, workers * cpus)
        self._check_resources({"CPU": workers * cpus, "GPU": workers * gpus})
        self._build = self._put(build)
        self._workers = self._make_workers(workers, cpus, gpus)
        self._names: list[str] = self._ray.get([each.name.remote() for each in self._workers])
        self._running: set[Any] = set()
        self._published: Any = None
        self._key: tuple[int | None, int] | None = None
        self._number = 0
        self._restarts = 0
        self._metrics: Counter[str] = Counter()

    def _connect(self, address: str | None, cores: int) -> None:
        local = {"num_cpus": max(cores, os.cpu_count() or 1), "include_dashboard": False}
        try:
            self._ray.init(
                address=address or "local",
                log_to_driver=False,
                logging_level="warning",
                **({} if address else local),
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"There is no Ray cluster at ray_address = {address!r} ({error}). Start one with "
                "`ray start --head`, or leave ray_address at None to start Ray on this machine."
            ) from error

    def _check_resources(self, needed: dict[str, float]) -> None:
        found = self._ray.cluster_resources()
        for name, count in needed.items():
            if count > found.get(name, 0.0):
                raise ConfigError(
                    f"The rollout workers need {count:g} {name}s, and the Ray cluster has "
                    f"{found.get(name, 0.0):g}: lower rollout_workers, worker_cpus or worker_gpus, "
                    "or add nodes with `ray start --address`."
                )

    def _put(self, build: BuildWorker) -> Any:
        try:
            return self._ray.put(build)
        except TypeError as error:
            raise ConfigError(
                f"The environment or its reward cannot be sent to the workers ({error}): pass "
                "env_id, or a function of a module that makes the environment."
            ) from error

    def _make_workers(self, count: int, cpus: int, gpus: float) -> list[Any]:
        actor: Any = self._ray.remote(
            num_cpus=cpus,
            num_gpus=gpus,
            max_restarts=RESTARTS,
            max_task_retries=-1,
            concurrency_groups={"weights": 1},
            scheduling_strategy="SPREAD",
        )(RolloutWorker)
        return [actor.remote() for _ in range(count)]

    def start(self, episodes: Sequence[EpisodeSpec]) -> Callable[[], list[list[Trajectory]]]:
        """Starts episodes with the current weights, or those of later calls.

        Returns:
            A function that waits for the trajectories and returns them, in the order of `episodes`.
            It raises WorkersLostError if a worker died too often, and the exceptions of
            environments.
        """
        weights = self._publish()
        shares = np.array_split(np.arange(len(episodes)), len(self._workers))
        running: dict[Any, tuple[int, list[int]]] = {}
        for number, share in enumerate(shares):
            if len(share):
                some = [episodes[i] for i in share]
                reference = self._workers[number].play.remote([self._build], weights, some)
                running[reference] = (number, share.tolist())
        self._running |= running.keys()
        return lambda: self._wait(episodes, running)

    def _publish(self) -> Any:
        """Returns the reference of the current weights, and offers new ones to busy workers."""
        key = self._policy.version, self._policy.weights_version()
        if key != self._key:
            self._key, self._number = key, self._number + 1
            self._published = self._ray.put(Weights.of(self._policy, self._number))
            for worker in self._workers if self._running else ():
                renew = worker.renew.options(concurrency_group="weights")
                renew.remote(self._published)
        return self._published

    def _wait(
        self, episodes: Sequence[EpisodeSpec], running: dict[Any, tuple[int, list[int]]]
    ) -> list[list[Trajectory]]:
        found: dict[int, list[Trajectory]] = {}
        while running:
            done, _ = self._ray.wait(list(running), timeout=POLL)
            for reference in done:
                number, share = running.pop(reference)
                self._running.discard(reference)
                for i, trajectory in zip(share, self._result(number, reference), strict=True):
                    found[i] = trajectory
                    if self._on_episode is not None:
                        self._on_episode(episodes[i], trajectory)
            if self._on_progress is not None:
                self._on_progress(0)
        return [found[i] for i in range(len(episodes))]

    def _result(self, number: int, reference: Any) -> list[list[Trajectory]]:
        try:
            name, played = self._ray.get(reference)
        except self._ray.exceptions.RayActorError as error:
            raise WorkersLostError(
                f"Rollout worker {number} died and was replaced {RESTARTS} times. Does the "
                f"environment or the model exceed the memory of its node? ({error})"
            ) from error
        self._restarts += name != self._names[number]
        self._names[number] = name
        trajectories, metrics = pickle.loads(played)
        self._metrics.update(metrics)
        return trajectories

    def metrics(self) -> dict[str, float]:
        """Returns the number of workers replaced since the start, and the workers' numbers."""
        found, self._metrics = dict(self._metrics), Counter()
        return {"worker_restarts": float(self._restarts), **found}

    def close(self) -> None:
        """Ends the workers, and Ray if it was started here."""
        if not self._ray.is_initialized():
            return
        for worker in self._workers:
            self._ray.kill(worker)
        if self._started:
            self._ray.shutdown()


def _import_ray() -> Any:
    try:
        import ray  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise MissingExtraError("rollout_workers", "ray") from error
    return ray
