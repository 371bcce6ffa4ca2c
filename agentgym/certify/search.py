"""A search for reward without success, and for cycles of actions that pay again and again.

It plays on snapshots, and so it knows the future: a path is an exploit only if it also pays with
other seeds and tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from agentgym.certify.episodes import follow, play, seed_of
from agentgym.core import TextEnv
from agentgym.snapshots import state_key
from agentgym.tasks import task_rng

TINY = 1e-6
WIDTH, SPARE, BRANCHING = 6, 2, 10
"""States per level of the beam, further ones at random, and actions that are tried in each."""
ROUNDS = 4
"""Repetitions of a cycle that have to pay."""
TRIED = 6
"""Cycles whose repetition is tried, per search."""


@dataclass(frozen=True)
class Way:
    """Actions from the start, and their return."""

    total: float
    actions: tuple[str, ...]


@dataclass(frozen=True)
class Cycle:
    """A closed path with a positive reward that pays again and again.

    Attributes:
        before: actions from the start to the cycle.
        around: actions of the cycle.
        returns: return after 0 to `ROUNDS` repetitions.
    """

    before: tuple[str, ...]
    around: tuple[str, ...]
    returns: tuple[float, ...]


@dataclass
class Search:
    """The result of a search.

    Attributes:
        task: name of the task.
        failed: the best end without success.
        solved: the best end with success.
        best: the best state without success.
        cycle: a cycle that pays again and again.
        steps: environment steps of the search.
        tried: cycles whose repetition was tried.
    """

    task: str
    failed: Way | None = None
    solved: Way | None = None
    best: Way | None = None
    cycle: Cycle | None = None
    steps: int = 0
    tried: int = 0


@dataclass
class State:
    """A state of the beam. The trail holds both keys and the return of each state before."""

    snapshot: dict[str, Any]
    info: dict[str, Any]
    total: float = 0.0
    actions: tuple[str, ...] = ()
    trail: list[tuple[str, str, float]] = field(default_factory=list)


@dataclass
class Searcher:
    """A beam search with restarts in one task."""

    env: TextEnv
    vocabulary: Sequence[str]
    steps: int
    turns: int
    late: Callable[[], bool]
    found: Search
    rng: np.random.Generator

    @property
    def spent(self) -> bool:
        """Whether a limit is reached."""
        return self.found.steps >= self.steps or self.late()

    def start(self) -> State:
        """Returns the state at the start of the task."""
        task = self.found.task
        _, info = self.env.reset(seed=seed_of(task), options={"task": task})
        return State(self.env.snapshot(), info)

    def run(self) -> None:
        """Searches until a limit is reached."""
        while not self.spent:
            beam, known = [self.start()], set[str]()
            while beam and not self.spent:
                children = [child for state in beam for child in self.children(state, known)]
                children.sort(key=lambda state: -state.total + 1e-3 * self.rng.random())
                spare = children[WIDTH:]
                order = self.rng.permutation(len(spare))[:SPARE]
                beam = children[:WIDTH] + [spare[int(number)] for number in order]

    def children(self, state: State, known: set[str]) -> list[State]:
        """Returns the new states after one more action, without ends and cycles."""
        found = []
        here = (state_key(state.snapshot), state.info["state_key"], state.total)
        trail = [*state.trail, here]
        for action in self.actions(state):
            if self.spent:
                break
            child, over = self.step(state, action)
            child.trail = trail
            self.note(child, over)
            if over:
                continue
            key = state_key(child.snapshot)
            if not child.info["success"]:
                self.close(child, key)
            if key not in known and len(child.actions) < self.turns:
                known.add(key)
                found.append(child)
        return found

    def actions(self, state: State) -> list[str]:
        """Returns the actions to try: the last one again, and some of the others."""
        choices = state.info["admissible"] or self.vocabulary
        some = [choices[int(i)] for i in self.rng.permutation(len(choices))[:BRANCHING]]
        again = [each for each in state.actions[-1:] if each in choices]
        return list(dict.fromkeys([*again, *some]))

    def step(self, state: State, action: str) -> tuple[State, bool]:
        """Plays an action in a state."""
        self.env.restore(state.snapshot)
        _, reward, terminated, truncated, info = self.env.step(action)
        self.found.steps += 1
        total, actions = state.total + reward, (*state.actions, action)
        return State(self.env.snapshot(), info, total, actions), terminated or truncated

    def note(self, state: State, over: bool) -> None:
        """Keeps the state if it is the best of its kind."""
        way, success = Way(state.total, state.actions), state.info["success"]
        if over and success:
            self.found.solved = better(self.found.solved, way)
        elif over:
            self.found.failed = better(self.found.failed, way)
        elif not success:
            self.found.best = better(self.found.best, way)

    def close(self, state: State, key: str) -> None:
        """Looks for an earlier state that is the same with less reward, and goes round again."""
        for at, (full, seen, total) in enumerate(state.trail):
            same = full == key or seen == state.info["state_key"]
            if self.found.cycle or self.found.tried >= TRIED or not same:
                continue
            if state.total > total + TINY:
                self.found.tried += 1
                before, around = state.actions[:at], state.actions[at:]
                returns = [self.repeated(before + around * n) for n in range(ROUNDS + 1)]
                paid = tuple(round(each, 6) for each in returns if each is not None)
                if len(paid) == len(returns) and all(b > a + TINY for a, b in pairwise(paid)):
                    self.found.cycle = Cycle(before, around, paid)

    def repeated(self, actions: tuple[str, ...]) -> float | None:
        """Returns the return of actions from the start, or None if the episode ends before."""
        played = play(self.env, self.found.task, follow(actions, None), turns=len(actions) + 1)
        return None if played.over or played.success else played.total


def better(one: Way | None, other: Way) -> Way:
    """Returns the way with the higher return, of equals the first one."""
    return other if one is None or other.total > one.total + TINY else one


def search(
    env: TextEnv,
    task: str,
    vocabulary: Sequence[str],
    steps: int,
    turns: int,
    late: Callable[[], bool],
) -> Search:
    """Searches in a task.

    Args:
        env: the environment.
        task: name of the task.
        vocabulary: actions to try if the set of actions is open.
        steps: maximum number of environment steps.
        turns: maximum number of turns of an episode.
        late: returns whether the time is used up.
    """
    found = Search(task)
    rng = task_rng(task, "certify/search")
    Searcher(env, vocabulary, steps, turns, late, found, rng).run()
    if (best := found.best) and (found.failed is None or best.total > found.failed.total + TINY):
        # Kept to the end with actions that do nothing.
        kept = play(env, task, follow(best.actions), turns=len(best.actions) + turns)
        if kept.over and not kept.success:
            found.failed = better(found.failed, Way(kept.total, best.actions))
    return found
