"""Which tasks a round is played in, and how long its episodes may be; works with every recipe.

- "window": tasks that are neither hopeless nor solved: their success rate lies in a window.
- "failures": half of the tasks are ones that failed last time, as WebRL seeds its tasks by what it
  could not do (arXiv 2411.02337).
- "progress": tasks on which competence is changing fastest, predicted from their text, so that what
  was learnt about one task says something about others: the idea of MAGELLAN (arXiv 2502.07709).
- `horizons`: episodes get longer in stages, ScalingInter-RL (arXiv 2509.08755).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.trainers.rollout.collector import draw_tasks
from agentgym.trainers.trajectory import Trajectory

FEATURES = 512
OVERSAMPLE = 4
"""Tasks looked at for each one that is chosen."""


class Curriculum:
    """Draws tasks uniformly; subclasses prefer some.

    Args:
        tasks: the training tasks.
        first: draw among the first so many only; None: among all.
    """

    def __init__(self, tasks: Sequence[str], first: int | None = None):
        self.tasks, self.first = tasks, first

    def draw(self, count: int, rng: np.random.Generator) -> list[tuple[str, int]]:
        """Returns so many tasks, each with a seed."""
        return draw_tasks(self.tasks, count, rng, self.first)

    def observe(self, trajectories: Sequence[Trajectory]) -> None:
        """Takes in how a round went."""

    def state_dict(self) -> dict[str, Any]:
        """Returns plain Python values."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a checkpoint."""


def draw_preferred(
    curriculum: Curriculum,
    weights: Callable[[Sequence[str]], NDArray[np.float64]],
    count: int,
    rng: np.random.Generator,
) -> list[tuple[str, int]]:
    """Looks at more tasks than are needed and draws by weight; a weight of 0 comes last.

    Args:
        curriculum: whose tasks.
        weights: how much each of some tasks is wanted.
        count: how many.
        rng: draws.
    """
    looked_at = Curriculum.draw(curriculum, OVERSAMPLE * count, rng)
    names = list(dict.fromkeys(task for task, _ in looked_at))
    wanted = weights(names)
    size = min(count, int((wanted > 0).sum()))
    chosen = rng.choice(len(names), size, replace=False, p=wanted / wanted.sum()) if size else ()
    found = [names[int(i)] for i in chosen]
    found += [task for task in names if task not in set(found)][: count - size]
    found += [task for task, _ in looked_at][: count - len(found)]
    return [(task, int(rng.integers(2**31))) for task in found]


class SuccessRates(Curriculum):
    """Keeps a moving success rate of every task it has seen."""

    memory = 0.5

    def __init__(self, tasks: Sequence[str], first: int | None = None):
        super().__init__(tasks, first)
        self.rates: dict[str, float] = {}

    def observe(self, trajectories: Sequence[Trajectory]) -> None:
        """Moves the rates of the tasks that were played."""
        outcomes: dict[str, list[float]] = {}
        for trajectory in trajectories:
            outcomes.setdefault(trajectory.task, []).append(float(trajectory.success))
        for task, results in outcomes.items():
            now = float(np.mean(results))
            old = self.rates.get(task)
            self.rates[task] = now if old is None else self.memory * old + (1 - self.memory) * now

    def state_dict(self) -> dict[str, Any]:
        """Returns the rates."""
        return {"rates": dict(self.rates)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a checkpoint."""
        self.rates = dict(state["rates"])


class SuccessWindow(SuccessRates):
    """Leaves out tasks that always or never succeed; tasks not seen yet are welcome.

    Args:
        tasks: the training tasks.
        first: draw among the first so many only.
        low: lowest success rate.
        high: highest.
    """

    def __init__(
        self, tasks: Sequence[str], first: int | None = None, low: float = 0.1, high: float = 0.9
    ):
        super().__init__(tasks, first)
        self.low, self.high = low, high

    def weights(self, names: Sequence[str]) -> NDArray[np.float64]:
        """1 inside the window and for new tasks, else 0."""
        middle = (self.low + self.high) / 2
        rates = np.array([self.rates.get(name, middle) for name in names])
        return ((rates >= self.low) & (rates <= self.high)).astype(np.float64)

    def draw(self, count: int, rng: np.random.Generator) -> list[tuple[str, int]]:
        """Returns so many tasks, each with a seed."""
        return draw_preferred(self, self.weights, count, rng)


class Failures(SuccessRates):
    """Draws half of the tasks among those that mostly failed."""

    def draw(self, count: int, rng: np.random.Generator) -> list[tuple[str, int]]:
        """Returns so many tasks, each with a seed."""
        failed = [task for task, rate in self.rates.items() if rate < 0.5]
        again = min(count // 2, len(failed))
        chosen = rng.choice(len(failed), again, replace=False) if again else ()
        old = [(failed[int(i)], int(rng.integers(2**31))) for i in chosen]
        return old + super().draw(count - again, rng)


class LearningProgress(Curriculum):
    """Prefers tasks whose predicted competence has changed most since some rounds ago.

    Competence is a logistic regression on hashed words of a task's first observation, fitted as
    episodes come in; a slow copy of it remembers how things were.
    """

    rate, slow, explore = 0.5, 0.1, 0.2

    def __init__(self, tasks: Sequence[str], first: int | None = None):
        super().__init__(tasks, first)
        self.words: dict[str, list[int]] = {}
        self.now, self.then = np.zeros(FEATURES + 1), np.zeros(FEATURES + 1)

    def _features(self, name: str) -> NDArray[np.float64]:
        found = np.zeros(FEATURES + 1)
        words = self.words.get(name, [])
        found[words] = 1.0 / max(len(words), 1) ** 0.5
        found[-1] = 1.0
        return found

    def draw(self, count: int, rng: np.random.Generator) -> list[tuple[str, int]]:
        """Returns so many tasks, each with a seed."""
        return draw_preferred(self, self.weights, count, rng)

    def weights(self, names: Sequence[str]) -> NDArray[np.float64]:
        """The change of competence, and a share of chance."""
        x = np.stack([self._features(name) for name in names])
        change = np.abs(_sigmoid(x @ self.now) - _sigmoid(x @ self.then))
        total = change.sum()
        chance = np.full(len(names), 1.0 / len(names))
        return chance if total <= 0 else (1 - self.explore) * change / total + self.explore * chance

    def observe(self, trajectories: Sequence[Trajectory]) -> None:
        """Fits the competence to the round, then lets the memory follow."""
        for trajectory in trajectories:
            words = trajectory.turns[0].observation.lower().split()
            numbers = {zlib.crc32(word.encode("utf-8", "replace")) % FEATURES for word in words}
            self.words[trajectory.task] = sorted(numbers)
        x = np.stack([self._features(trajectory.task) for trajectory in trajectories])
        y = np.array([float(trajectory.success) for trajectory in trajectories])
        for _ in range(20):
            self.now -= self.rate * x.T @ (_sigmoid(x @ self.now) - y) / len(y)
        self.then += self.slow * (self.now - self.then)

    def state_dict(self) -> dict[str, Any]:
        """Returns words and both regressions."""
        return {"words": dict(self.words), "now": self.now.tolist(), "then": self.then.tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a checkpoint."""
        self.words = dict(state["words"])
        self.now, self.then = np.array(state["now"]), np.array(state["then"])


KINDS: dict[str, type[Curriculum]] = {
    "uniform": Curriculum,
    "window": SuccessWindow,
    "failures": Failures,
    "progress": LearningProgress,
}


def horizon(horizons: Sequence[int], every: int, iteration: int) -> int | None:
    """Returns the longest episode of a round; None: the environment's own limit."""
    return horizons[min(iteration // every, len(horizons) - 1)] if horizons else None


def _sigmoid(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-np.clip(x, -30, 30)))
