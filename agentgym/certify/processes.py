"""Replays in processes of their own, with another hash seed, clock and global random state."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np

from agentgym.certify.episodes import Episode, Row, follow, play, row_of
from agentgym.certify.making import make_text_env
from agentgym.core import TextEnv

CODE = "from agentgym.certify.processes import main; main()"
SHIFT = 86_400.0 * 365
"""Seconds by which the clock of a process is moved per unit of its poison."""


@dataclass(frozen=True)
class Job:
    """The work of a process.

    Attributes:
        name: the environment.
        env_kwargs: its arguments.
        episodes: task, seed and actions of episodes, played one after the other.
        snapshots: a snapshot and the actions to play from it.
        poison: seed of the global random state, and shift of the clock.
        beside: whether a second environment plays the first episode at the same time.
    """

    name: str
    env_kwargs: dict[str, Any]
    episodes: list[tuple[str, int, list[str]]] = field(default_factory=list)
    snapshots: list[tuple[dict[str, Any], list[str]]] = field(default_factory=list)
    poison: int = 0
    beside: bool = False


@dataclass(frozen=True)
class Replay:
    """The result of a job.

    Attributes:
        episodes: trace of each episode.
        snapshots: rows after each snapshot.
        global_random: whether the global random state was used.
    """

    episodes: list[list[Row]]
    snapshots: list[list[Row]]
    global_random: bool


class Worker:
    """A process that runs jobs, with a hash seed.

    Args:
        hash_seed: order of the elements of sets and of the keys that are hashed.
    """

    def __init__(self, hash_seed: int):
        variables = {"PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": os.pathsep.join(sys.path)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", CODE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | variables,
        )

    def run(self, job: Job, seconds: float) -> Replay:
        """Runs a job.

        Raises:
            RuntimeError: if the job fails, or takes longer.
        """
        process = self.process
        assert process.stdin is not None and process.stdout is not None
        timer = threading.Timer(seconds, process.kill)
        timer.start()
        try:
            process.stdin.write(json.dumps(asdict(job)) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if not line:
            raise RuntimeError(f"The process of a replay ended, or took more than {seconds:.0f} s.")
        found = json.loads(line)
        if "error" in found:
            raise RuntimeError(f"A replay in another process failed: {found['error']}")
        return Replay(**found)

    def close(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.communicate()


class Processes:
    """Processes for the jobs of certificates, a context manager. They start when they are used."""

    def __init__(self) -> None:
        self._workers: dict[str, Worker] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Ends the processes."""
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()

    def run(self, job: Job, name: str, hash_seed: int, seconds: float) -> Replay:
        """Runs a job in the process of a name, which is started if necessary.

        Raises:
            RuntimeError: if the job fails, or takes longer.
        """
        worker = self._workers.get(name)
        if worker is None or worker.process.poll() is not None:
            worker = self._workers[name] = Worker(hash_seed)
        return worker.run(job, seconds)


def replay(job: Job) -> Replay:
    """Runs a job in this process."""
    env, other = (make_text_env(job.name, **job.env_kwargs) for _ in range(2))
    before = repr((random.getstate(), np.random.get_state()))
    traces = []
    for task, seed, actions in job.episodes:
        beside = Second(other, job.episodes[0]) if job.beside else None
        traces.append(played(env, task, seed, actions, beside).rows)
    after = [rows_from(env, snapshot, actions) for snapshot, actions in job.snapshots]
    changed = repr((random.getstate(), np.random.get_state())) != before
    return Replay(traces, after, changed)


class Second:
    """Plays an episode again and again, a step per call."""

    def __init__(self, env: TextEnv, episode: tuple[str, int, list[str]]):
        self.env, (self.task, self.seed, self.actions) = env, episode
        self.turn = 0

    def step(self) -> None:
        """Plays the next action, or starts again."""
        if self.turn == 0 or self.turn > len(self.actions):
            self.env.reset(seed=self.seed, options={"task": self.task})
            self.turn = 1
        else:
            self.env.step(self.actions[self.turn - 1])
            self.turn += 1


def played(
    env: TextEnv, task: str, seed: int, actions: Sequence[str], beside: Second | None = None
) -> Episode:
    """Replays an episode, with steps of a second environment between its own."""
    script = follow(actions, None)

    def choose(env: TextEnv, episode: Episode) -> str | None:
        if beside is not None:
            beside.step()
        return script(env, episode)

    return play(env, task, choose, turns=len(actions) + 1, seed=seed)


def rows_from(env: TextEnv, snapshot: dict[str, Any], actions: Sequence[str]) -> list[Row]:
    """Returns the results of actions that are played from a snapshot."""
    env.restore(snapshot)
    rows = []
    for action in actions:
        observation, reward, terminated, truncated, info = env.step(action)
        rows.append(row_of(observation, info, reward, terminated, truncated))
        if terminated or truncated:
            break
    return rows


def poison(amount: int, now: Callable[[], float]) -> None:
    """Sets the global random state and the clock, which no environment may depend on."""
    random.seed(amount)
    np.random.seed(amount)  # the global state is the subject
    time.time = lambda: now() + amount * SHIFT


def main() -> None:
    """Runs the jobs of standard input, one a line, and prints their results."""
    # What an environment prints goes to the standard error.
    results = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    now = time.time
    for line in sys.stdin:
        job = Job(**json.loads(line))
        poison(job.poison, now)
        try:
            found = asdict(replay(job))
        except Exception as error:  # an environment may raise anything
            found = {"error": f"{type(error).__name__}: {error!s:.300}"}
        print(json.dumps(found), file=results, flush=True)
