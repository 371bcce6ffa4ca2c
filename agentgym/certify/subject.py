"""`Subject`: an environment under certification, with the record that the checks read."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentgym.certify.budget import Budget, Part
from agentgym.certify.calls import Calls
from agentgym.certify.episodes import Episode, expert, mean, play, seed_of
from agentgym.certify.fingerprints import Print, fingerprints
from agentgym.certify.making import author_of, make_text_env
from agentgym.certify.players import FLOOR_PLAYERS, canaries, vocabulary_of
from agentgym.certify.processes import Job, Processes, Replay
from agentgym.certify.search import Search, search
from agentgym.core import TextEnv
from agentgym.registration.making import full_id
from agentgym.tasks import task_rng

EXPERT = "expert"
REPLAYED = 3
"""Tasks whose episodes other processes replay."""
SEARCHED = 2
"""Tasks that are searched."""
BRANCHES = 3
"""Snapshots from which another process continues."""


class Subject:
    """An environment under certification. Every part of its record is made once, on demand.

    Args:
        name: an id, or "module:Class".
        env_kwargs: arguments of the environment.
        budget: the limits.
        processes: processes for replays.

    Attributes:
        asked: the limits before those of slow environments.
        budget: the limits.
        cut_short: the parts of the record that the budget cuts short, with their size.
        out_of_time: those that the clock cut short: another run may cut them elsewhere.
        calls: the limit of calls of the environment.
    """

    def __init__(
        self,
        name: str,
        env_kwargs: Mapping[str, Any] | None,
        budget: Budget,
        processes: Processes,
    ):
        self.name, self.env_kwargs = name, dict(env_kwargs or {})
        self.asked, self.budget = budget, budget.of(full_id(name))
        self.calls = Calls(budget.call_seconds)
        self._processes = processes
        self.cut_short: dict[str, str] = {}
        self.out_of_time: dict[str, str] = {}
        self._end = budget.clock() + budget.seconds

    def late(self) -> bool:
        """Returns whether the seconds of the budget have passed."""
        return self.budget.clock() >= self._end

    def part(self, share: float) -> Part:
        """Returns a part of the record, with a share of the steps of the budget."""
        return Part(share * self.budget.steps, self.late)

    def cut(self, name: str, size: str) -> None:
        """Keeps the size of a part that is cut short."""
        (self.out_of_time if self.late() else self.cut_short)[name] = size

    def make(self) -> TextEnv:
        """Makes the environment, whose calls have a time limit.

        Raises:
            CallTimeout: if that takes too long, or a call took too long before.
        """
        make = self.calls.limited(make_text_env)
        return self.calls.limit(make(self.name, **self.env_kwargs))

    @functools.cached_property
    def env(self) -> TextEnv:
        """The environment in which the players play."""
        return self.make()

    @functools.cached_property
    def declares(self) -> Mapping[str, str]:
        """The findings that the author declares, with their reasons."""
        return author_of(self.name, self.env).declares

    @functools.cached_property
    def test_tasks(self) -> list[str]:
        """Tasks of the test split, for the players."""
        return some_tasks(self.env.tasks.test, self.budget.tasks, "certify/tasks")

    def play(self, task: str, choose: Any, seed: int | None = None) -> Episode:
        """Plays an episode."""
        turns, clock = self.budget.turns, self.budget.cpu
        return play(self.env, task, choose, turns=turns, seed=seed, clock=clock)

    @functools.cached_property
    def has_expert(self) -> bool:
        """Whether the environment has a scripted expert."""
        task = self.test_tasks[0]
        self.env.reset(seed=seed_of(task), options={"task": task})
        return self.env.expert() is not None

    @functools.cached_property
    def record(self) -> dict[str, list[Episode]]:
        """The episodes of each player, in the same tasks."""
        found: dict[str, list[Episode]] = {EXPERT: []}
        part = self.part(0.3)
        for task in self.test_tasks:
            if part.over and len(found[EXPERT]) >= 2:
                self.cut("expert", f"{len(found[EXPERT])} tasks")
                break
            found[EXPERT].append(self.play(task, expert))
            part.spend(len(found[EXPERT][-1].actions))
        part = self.part(0.4)
        experts = found[EXPERT]
        vocabulary = vocabulary_of(experts)
        for number, own in enumerate(experts):
            if part.over and number >= 2:
                self.cut("players", f"{number} tasks")
                break
            foreign = experts[(number + 1) % len(experts)] if len(experts) > 1 else None
            for name, choose in canaries(own, foreign, vocabulary).items():
                found.setdefault(name, []).append(self.play(own.task, choose))
                part.spend(len(found[name][-1].actions))
        return found

    @property
    def experts(self) -> list[Episode]:
        """The episodes of the expert."""
        return self.record[EXPERT]

    @property
    def episodes(self) -> list[Episode]:
        """All episodes of the record."""
        return [episode for played in self.record.values() for episode in played]

    def returns(self, player: str) -> np.ndarray:
        """Returns the return of each episode of a player."""
        return np.array([episode.total for episode in self.record[player]])

    def paired(self, *players: str) -> list[np.ndarray]:
        """Returns the returns of each player in the first tasks, those that all of them played."""
        count = min(len(self.record[player]) for player in players)
        return [self.returns(player)[:count] for player in players]

    def success(self, player: str) -> float:
        """Returns the share of episodes with success."""
        return mean([episode.success for episode in self.record[player]])

    @property
    def floor(self) -> float:
        """The best mean return of a player that knows nothing."""
        return max(mean(list(self.returns(player))) for player in FLOOR_PLAYERS)

    @property
    def range(self) -> float:
        """Mean return of the expert above the floor."""
        return mean(list(self.returns(EXPERT))) - self.floor

    @property
    def is_seat(self) -> bool:
        """Whether the environment is a seat of a game, whose rules move for an invalid action."""
        return hasattr(self.env, "opponents")

    @functools.cached_property
    def uncertain(self) -> bool:
        """Whether chance, hidden facts or other players decide, too."""
        return self.is_seat or any(episode.chance for episode in self.experts) or self.hidden

    @functools.cached_property
    def hidden(self) -> bool:
        """Whether a task has facts that its observations do not show."""
        task = self.experts[0].task
        self.env.reset(seed=seed_of(task), options={"task": task})
        return bool(self.env.privileged_text())

    @functools.cached_property
    def searches(self) -> list[Search]:
        """Searches for reward without success and for cycles, in the first tasks of the record."""
        found = []
        vocabulary = vocabulary_of(self.experts)
        steps, turns = self.budget.search // SEARCHED, self.budget.turns
        for own in self.experts[:SEARCHED]:
            found.append(search(self.env, own.task, vocabulary, steps, turns, self.late))
        if self.late() or self.budget.search < self.asked.search:
            self.cut("search", f"{sum(each.steps for each in found)} steps")
        return found

    @functools.cached_property
    def prints(self) -> tuple[list[Print], list[Print]]:
        """The fingerprints of training and test tasks."""
        pools, count = (self.env.tasks.train, self.env.tasks.test), self.budget.prints
        train, test = (some_tasks(pool, self.asked.prints, "certify/prints") for pool in pools)
        found = fingerprints(self.env, train[:count], test[:count], self.part(0.3))
        if len(found[0]) < len(train) or len(found[1]) < len(test):
            self.cut("fingerprints", f"{len(found[0])} + {len(found[1])} tasks")
        return found

    @functools.cached_property
    def forward(self) -> tuple[Replay, Replay]:
        """The same episodes in two processes with other hash seeds, clocks and random states."""
        first, second = (
            self._run(
                Job(self.name, self.env_kwargs, self._replayed, poison=number),
                f"forward {number}",
                hash_seed=11 * number,
            )
            for number in (0, 1)
        )
        return first, second

    @functools.cached_property
    def backward(self) -> Replay:
        """These episodes in reverse order, beside a second environment, and the branches."""
        branches = [(snapshot, actions) for snapshot, actions, _ in self.branches]
        episodes = self._replayed[::-1]
        job = Job(self.name, self.env_kwargs, episodes, branches, beside=True)
        return self._run(job, "backward", hash_seed=0)

    def _run(self, job: Job, process: str, hash_seed: int) -> Replay:
        return self._processes.run(job, process, hash_seed, max(60.0, self.budget.seconds))

    @functools.cached_property
    def _replayed(self) -> list[tuple[str, int, list[str]]]:
        chosen = [
            self.record[player][number]
            for number in range(min(REPLAYED, len(self.record["random"])))
            for player in (EXPERT, "random")
        ]
        return [(each.task, each.seed, each.actions[:100]) for each in chosen]

    @functools.cached_property
    def branches(self) -> list[tuple[dict[str, Any], list[str], list[dict[str, Any]]]]:
        """Snapshots along an episode of the expert, with the actions and rows that follow."""
        episode = max(self.experts[:REPLAYED], key=lambda each: len(each.actions))
        count = len(episode.actions)
        turns = {round(count * part / BRANCHES) for part in range(BRANCHES)}
        found = []
        _, _ = self.env.reset(seed=episode.seed, options={"task": episode.task})
        for turn, action in enumerate(episode.actions):
            if turn in turns:
                rest = episode.rows[turn + 1 : turn + 101]
                found.append((self.env.snapshot(), episode.actions[turn : turn + 100], rest))
            self.env.step(action)
        return found


def some_tasks(pool: Sequence[str], count: int, salt: str) -> list[str]:
    """Returns different tasks of a split: all of a small one."""
    if len(pool) <= count:
        return list(pool)
    numbers = task_rng(str(pool[0]), salt).choice(min(len(pool), 2**31), count, replace=False)
    return [str(pool[int(number)]) for number in numbers]
