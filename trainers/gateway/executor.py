"""`HarnessExecutor`: episodes are played by a program of the user, which talks to a gateway.

The thread of the trainer generates. Each slot has a thread, which resets the environment, runs the
program and scores the episode. An episode without an outcome is played again, and then left out of
its group: it never counts as one with reward 0.
"""

from __future__ import annotations

import gc
import queue
import threading
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentgym.errors import AgentGymError, ConfigError
from agentgym.time_step import UNJUDGED
from agentgym.trainers.data.trajectory import Tokens, Trajectory
from agentgym.trainers.gateway.environment import HeldEnv
from agentgym.trainers.gateway.gateway import Gateway
from agentgym.trainers.gateway.played import Played, checked_score, played
from agentgym.trainers.gateway.programs import Outcome, Program
from agentgym.trainers.gateway.session import Session, SessionSpec
from agentgym.trainers.gateway.sessions import POLL
from agentgym.trainers.gateway.task import Task
from agentgym.trainers.rollout.context import AtLimit
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.rollout.executor import OnEpisode, OnProgress
from agentgym.trainers.rollout.failures import Failures

if TYPE_CHECKING:
    from agentgym.trainers.rollout.env_pool import EnvPool

TRIES = 2
"""Times that an episode without an outcome is played."""
MOST_LOST = 0.5
"""Share of the episodes of a rollout that may have no outcome."""
FIRST = 4
"""Episodes without outcome after which a rollout ends if none had one."""
IDLE = (
    "The program took no action in the environment in any episode, and there is no score. Either "
    "the model calls no tool yet (clone demonstrations first, or take a larger model), or the "
    "program does not act: send actions to AGENTGYM_ENV_URL or AGENTGYM_MCP_URL, return a number, "
    "or set harness_score."
)
"""Warning about a rollout without an action."""
PATIENCE = 5.0
"""Seconds that the end of a rollout waits for programs."""


class ProgramError(AgentGymError, RuntimeError):
    """Too many episodes of a program have no outcome."""


@dataclass(eq=False)
class _Live:
    """An episode in progress."""

    index: int
    slot: int
    tries: int
    held: HeldEnv
    session: Session
    task: Task


@dataclass
class HarnessExecutor:
    """Plays episodes with a program.

    Attributes:
        gateway: the gateway.
        program: the program.
        pool: the environments.
        score: returns the score of a finished episode, or the rewards of its turns. None: there are
            the rewards of the environment, and the number that the program returned.
        constrain: whether replies are restricted to the admissible actions.
        calls: maximum number of requests of an episode.
        turn_limit: the end of an episode at the turn limit of its environment.
        failures: the episodes whose environments may fail.
        on_progress: called before each call of the model with the number of finished episodes.
        on_episode: called with each finished episode and its trajectories.
    """

    gateway: Gateway
    program: Program
    pool: EnvPool
    score: Callable[[Played], Any] | None = None
    constrain: bool = False
    calls: int = 256
    turn_limit: AtLimit = "truncate"
    failures: Failures = field(default_factory=Failures)
    on_progress: OnProgress | None = None
    on_episode: OnEpisode | None = None
    _counts: dict[str, float] = field(default_factory=dict, init=False)

    def start(self, episodes: Sequence[EpisodeSpec]) -> Callable[[], list[list[Trajectory]]]:
        """Returns a function that plays the episodes."""
        return lambda: self.play(episodes)

    def play(self, episodes: Sequence[EpisodeSpec]) -> list[list[Trajectory]]:
        """Plays episodes and returns their trajectories, none for those without an outcome.

        Raises:
            ConfigError: for episodes that begin with recorded actions, or have several seats.
            ProgramError: if more than half of the episodes have no outcome, or none of the first.
        """
        for each in episodes:
            if type(each) is not EpisodeSpec or each.replayed or each.older_share:
                raise ConfigError(
                    "The program of `harness` plays episodes of one agent from their start, and "
                    "this recipe replays recorded actions or seats other players: choose a recipe "
                    "such as grpo, gigpo, poad or turn."
                )
        rollout = _Rollout(self, episodes)
        self.gateway.sessions.forget()
        # Requests are so many objects that the collector often looks at all objects of the process,
        # for a fifth of a second with PyTorch and transformers. It leaves out those of before,
        # unless somebody has already told it which ones.
        freezes = not gc.get_freeze_count()
        if freezes:
            gc.freeze()
        try:
            rollout.run()
        finally:
            if freezes:
                gc.unfreeze()
            rollout.leave()
        for name, count in rollout.counts().items():
            self._counts[name] = self._counts.get(name, 0.0) + count
        return [each or [] for each in rollout.results]

    def metrics(self) -> dict[str, float]:
        """Returns counts of episodes and turns since the last call."""
        counts, self._counts = self._counts, {}
        if self.failures.share:
            counts["env_failures"] = float(self.failures.take())
        return counts

    def close(self) -> None:
        """Ends programs and gateway."""
        self.program.close()
        self.gateway.sessions.close_all()
        self.gateway.close()


class _Rollout:
    """Episodes in progress."""

    def __init__(self, executor: HarnessExecutor, episodes: Sequence[EpisodeSpec]):
        self.executor, self.episodes = executor, episodes
        self.results: list[list[Trajectory] | None] = [None] * len(episodes)
        self._waiting = deque((index, 0) for index in range(len(episodes)))
        self._bound = executor.failures.bound(len(episodes))
        self._lock = threading.Lock()
        self._finished: queue.SimpleQueue[tuple[int, list[Trajectory]]] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lost = self._retried = self._over_time = 0
        self._won = self._acted = False
        self._error: BaseException | None = None

    def run(self) -> None:
        """Plays all episodes."""
        executor = self.executor
        slots = min(executor.pool.num_envs, len(self.episodes))
        # All of them before the first request, so that requests in lockstep wait for each other.
        first = [self._begin(slot) for slot in range(slots)]
        for live in first:
            thread = threading.Thread(target=self._work, args=(live,), daemon=True)
            self._threads.append(thread)
        for thread in self._threads:
            thread.start()
        executor.gateway.sessions.run(self._is_over, self._progress)
        if self._error is not None:
            raise self._error
        self._progress()
        if self._won and not self._acted:
            warnings.warn(IDLE, stacklevel=3)

    def _is_over(self) -> bool:
        return self._error is not None or not any(each.is_alive() for each in self._threads)

    def leave(self) -> None:
        """Ends the programs that still run."""
        if any(thread.is_alive() for thread in self._threads):
            self._error = self._error or ProgramError("The rollout was ended.")
            self.executor.program.close()
        self.executor.gateway.sessions.close_all()
        for thread in self._threads:
            thread.join(PATIENCE)

    def counts(self) -> dict[str, float]:
        """Returns numbers to log."""
        return {
            "program_lost": float(self._lost),
            "program_retried": float(self._retried),
            "program_timeouts": float(self._over_time),
        }

    def _progress(self) -> None:
        """Hands out finished episodes, in the thread of the trainer."""
        executor = self.executor
        while not self._finished.empty():
            index, trajectories = self._finished.get()
            self.results[index] = trajectories
            if executor.on_episode is not None:
                executor.on_episode(self.episodes[index], trajectories)
        if executor.on_progress is not None:
            executor.on_progress(sum(each is not None for each in self.results))

    # In the threads of the slots.

    def _work(self, live: _Live | None) -> None:
        try:
            while live is not None and self._error is None:
                live = self._play(live)
        except BaseException as error:
            self._error = self._error or error
        finally:
            if live is not None:
                self.executor.gateway.close_session(live.session)
            self.executor.gateway.sessions.wake()

    def _begin(self, slot: int) -> _Live | None:
        """Begins the next episode in a slot: resets its environment and opens a session."""
        executor = self.executor
        with self._lock:
            if not self._waiting:
                return None
            index, tries = self._waiting.popleft()
        spec, pool = self.episodes[index], executor.pool
        while True:
            with self._lock:  # environments are made in the order of the slots
                env = pool.env(slot)
            try:
                held = HeldEnv(env, spec.task, spec.seed, spec.max_turns, pool.calls(slot))
                break
            except Exception as error:
                self._fail(slot, error)
        session = executor.gateway.open(
            SessionSpec(spec.key, executor.calls, executor.constrain), held
        )
        task = executor.gateway.task(session, held, task=spec.task, seed=spec.seed)
        return _Live(index, slot, tries, held, session, task)

    def _fail(self, slot: int, error: Exception) -> None:
        """Counts a failure of an environment, and replaces it, or raises the failure."""
        with self._lock:
            self._bound.count(error)
            self.executor.pool.renew(slot)

    def _play(self, live: _Live) -> _Live | None:
        """Plays an episode and returns the next one of its slot, already begun."""
        outcome = self.executor.program.run(live.task)
        if self._error is not None:
            return live
        live.held.close()
        problem, trajectories = "", list[Trajectory]()
        if live.held.error is not None:
            self._fail(live.slot, live.held.error)
            with self._lock:
                self._waiting.appendleft((live.index, live.tries))
        else:
            problem, trajectories = self._conclude(live, outcome)
            if live.held.timed_out:
                self.executor.pool.replace(live.slot, live.held.timed_out)
            self._settle(live, problem, trajectories)
        following = self._begin(live.slot)
        self.executor.gateway.close_session(live.session)
        return following

    def _settle(self, live: _Live, problem: str, trajectories: list[Trajectory]) -> None:
        """Keeps an episode with an outcome. Another one is played again, or left out."""
        if not problem:
            self._won = True
            self._finished.put((live.index, trajectories))
            return
        spec = self.episodes[live.index]
        where = f"task {spec.task!r}, seed {spec.seed}"
        with self._lock:
            if live.tries + 1 < TRIES:
                self._retried += 1
                self._waiting.appendleft((live.index, live.tries + 1))
                return
            self._lost += 1
            lost = self._lost
            too_many = lost > MOST_LOST * len(self.episodes) or (not self._won and lost >= FIRST)
        self._finished.put((live.index, []))
        if too_many:
            raise ProgramError(
                f"{lost} of {len(self.episodes)} episodes have no outcome. The last one ({where}): "
                f"{problem}"
            )
        warnings.warn(f"An episode is left out ({where}): {problem}", stacklevel=2)

    def _conclude(self, live: _Live, outcome: Outcome) -> tuple[str, list[Trajectory]]:
        """Returns why an episode has no outcome, or "", and its trajectories."""
        executor, spec, record = self.executor, self.episodes[live.index], live.session.record
        self._over_time += outcome.timed_out
        scored = outcome.score is not None or executor.score is not None
        if outcome.error and not record.over:
            return outcome.error, []
        self._acted = self._acted or scored or live.held.steps > 0
        success = None
        try:
            if outcome.score is not None:
                record.score(outcome.score)
            if executor.score is not None:
                finished = played(record, live.task, outcome, live.held.data)
                record.score(checked_score(executor.score(finished)))
            if scored and not live.held.steps:
                success = sum(call.reward for call in record.turns()) > 0
        except Exception as error:
            return f"The score raised {error!r:.1000}", []
        trajectory = record.trajectory(
            live.held.env_id,
            spec.task,
            spec.seed,
            success=success,
            cut_off=outcome.timed_out,
            pending=self._last_prompt(live, outcome),
            instructions=live.held.instructions,
        )
        if trajectory is None:
            return f"The program asked for no reply. The end of its output:\n{outcome.output}", []
        trajectory.final_observation = str(live.held.observation)
        trajectory.stats.env_turns = live.held.turns
        trajectory.stats.timed_out = outcome.timed_out or bool(live.held.timed_out)
        trajectory.stats.unjudged = UNJUDGED in live.held.info and not scored
        if trajectory.truncated and executor.turn_limit == "terminate" and record.over:
            trajectory.terminated, trajectory.truncated, trajectory.bootstrap = True, False, None
        return "", [trajectory]

    def _last_prompt(self, live: _Live, outcome: Outcome) -> Tokens | None:
        """Returns the prompt of the last state of an episode that was cut off, for a critic."""
        record = live.session.record
        cut = outcome.timed_out or record.truncated
        if not cut or record.terminated or not self.episodes[live.index].bootstraps:
            return None
        pending = live.session.pending()
        if pending is not None:
            return pending
        sessions = self.executor.gateway.sessions
        found = sessions.following(live.session, str(live.held.observation))
        while self._error is None:
            try:
                return found.result(POLL)
            except TimeoutError:
                continue
        return None
