"""Curricula over tasks and episode lengths. They can be combined with every recipe.

- "window": tasks of intermediate difficulty, with a success rate inside a window.
- "failures": half of the tasks are sampled from those that mostly failed, as WebRL generates new
  tasks from failed ones (arXiv 2411.02337).
- "progress": tasks with the largest change of predicted competence. The prediction uses the task's
  text and so generalises between tasks, as in MAGELLAN (arXiv 2502.07709).
- "regret": half of the tasks are replayed in proportion to their regret, the best return so far
  minus the mean of the last group. Prioritized Level Replay (arXiv 2010.03934) as regret-based
  environment design (PAIRED, arXiv 2012.02096, and Robust PLR, arXiv 2110.02439).
- "module:function": a function proposes the tasks from the success rates so far.
- `adaptive_groups`: more episodes for tasks with a less certain outcome (`group_sizes`).
- `horizons`: the maximum episode length grows in stages, as in ScalingInter-RL (arXiv 2509.08755).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.errors import ConfigError
from agentgym.trainers.credit.shaping import imported
from agentgym.trainers.trajectory import Trajectory

FEATURES = 512
OVERSAMPLE = 4
"""Number of candidate tasks per sampled task."""
MINIMUM = 2
"""Minimum number of episodes per task, with which a group has a baseline."""
Propose = Callable[[Sequence[str], Mapping[str, float], int, np.random.Generator], Sequence[str]]
"""Maps the training tasks, the success rates of those played, a number of tasks and a random
generator to the tasks to play next. The rates are moving averages."""


class Curriculum:
    """Samples tasks uniformly. Subclasses sample with other preferences.

    Args:
        tasks: the training tasks.
        first: samples from the first `first` tasks only. None samples from all tasks.
    """

    def __init__(self, tasks: Sequence[str], first: int | None = None):
        self.tasks, self.first = tasks, first

    def draw(self, count: int, rng: np.random.Generator) -> list[tuple[str, int]]:
        """Returns `count` sampled tasks, each with a seed."""
        return draw_tasks(self.tasks, count, rng, self.first)

    def observe(self, trajectories: Sequence[Trajectory]) -> None:
        """Updates the curriculum with the trajectories of an iteration."""

    def state_dict(self) -> dict[str, Any]:
        """Returns the state as plain Python values."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the state of a checkpoint."""


def draw_preferred(
    curriculum: Curriculum,
    weights: Callable[[Sequence[str]], NDArray[np.float64]],
    count: int,
    rng: np.random.Generator,
) -> list[tuple[str, int]]:
    """Samples candidate tasks uniformly, and from these the result in proportion to weights.

    Tasks of weight 0 are used only if there are too few others.

    Args:
        curriculum: curriculum that holds the tasks.
        weights: function from task names to non-negative weights.
        count: number of tasks to sample.
        rng: random generator.

    Returns:
        `count` tasks, each with a seed.
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
    """Tracks an exponential moving average of the success rate of every task played."""

    memory = 0.5

    def __init__(self, tasks: Sequence[str], first: int | None = None):
        super().__init__(tasks, first)
        self.rates: dict[str, float] = {}

    def observe(self, trajectories: Sequence[Trajectory]) -> None:
        """Updates the success rates of the tasks played."""
        outcomes: dict[str, list[float]] = {}
        for trajectory in trajectories:
            outcomes.setdefault(trajectory.task, []).append(float(trajectory.success))
        for task, results in outcomes.items():
            now = float(np.mean(results))
            old = self.rates.get(task)
            self.rates[task] = now if old is None else self.memory * old + (1 - self.memory) * now

    def state_dict(self) -> dict[str, Any]:
        """Returns the success rates."""
        return {"rates": dict(self.rates)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the state of a checkpoint."""
        self.rates = dict(state["rates"])


def group_sizes(rates: Sequence[float], size: int) -> list[int]:
    """Divides episodes among tasks, more for tasks whose outcome is less certain.

    A task gets at least 2 episodes, and the others in proportion to the standard deviation of its
    success, sqrt(p (1 - p)). For a given total, this minimises the variance of the sum of the mean
    returns of the tasks (Neyman, 1934). GVM (arXiv 2505.02391) and Reinforce-Ada (arXiv 2510.04996)
    also give more episodes to tasks with a larger variance. Here the rates are those of earlier
    iterations, and no episode is dropped.

    Args:
        rates: success rate p of each task.
        size: mean number of episodes per task, at least 2.

    Returns:
        The number of episodes of each task, with the sum `size * len(rates)`.
    """
    p = np.asarray(rates, np.float64)
    deviations = np.sqrt(p * (1 - p))
    if not deviations.any():
        deviations = np.ones(len(p))
    shares = (size - MINIMUM) * len(p) * deviations / deviations.sum()
    sizes = np.floor(shares).astype(int)
    largest = np.argsort(sizes - shares, kind="stable")  # of the remainders
    sizes[largest[: (size - MINIMUM) * len(p) - sizes.sum()]] += 1
    return (MINIMUM + sizes).tolist()


class SuccessWindow(SuccessRates):
    """Prefers tasks with a success rate inside a window, and tasks not played yet.

    Args:
        tasks: the training tasks.
        first: samples from the first `first` tasks only. None samples from all tasks.
        low: lowest success rate of the window.
        high: highest success rate of the window.
    """

    def __init__(
        self, tasks: Sequence[str], first: int | None = None, low: float = 0.1, high: float = 0.9
    ):
        super().__init__(tasks, first)
        self.low, self.high = low, high

    def weights(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Returns 1 for tasks inside the window and for new tasks, else 0."""
        middle = (self.low + self.high) / 2
        rates = np.array([self.rates.get(name, middle) for name in names])
        return ((rates >= self.low) & (rates <= self.high)).astype(np.float64)

    def draw(self, count: int, rng: np.random.Generator) -> list[tuple[str, int]]:
        """Returns `count` sampled tasks, each with a seed."""
        return draw_preferred(self, self.weights, count, rng)


class Failures(SuccessRates):
    """Samples half of the tasks from those with a success rate below 0.5."""

    def draw(self, count: int, rng: np.random.Generator) -> list[tuple[str, int]]:
        """Returns `count` sampled tasks, each with a seed."""
        failed = [task for task, rate in self.rates.items() if rate < 0.5]
        again = min(count // 2, len(failed))
        chosen = rng.choice(len(failed), again, replace=False) if again else ()
        old = [(failed[int(i)], int(rng.integers(2**31))) for i in chosen]
        return old + super().draw(count - again, rng)


class Regret(Curriculum):
    """Samples half of the tasks in proportion to regret, if there are such tasks.

    The regret is the best return so far minus the mean return of the last iteration: 0 for tasks
    that are mastered, and for those that were never solved.
    """

    def __init__(self, tasks: Sequence[str], first: int | None = None):
        super().__init__(tasks, first)
        self.best: dict[str, float] = {}
        self.mean: dict[str, float] = {}

    def observe(self, trajectories: Sequence[Trajectory]) -> None:
        """Updates best and mean returns of the tasks played."""
        returns: dict[str, list[float]] = {}
        for trajectory in trajectories:
            returns.setdefault(trajectory.task, []).append(trajectory.episode_return)
        for task, found in returns.items():
            self.best[task] = max(self.best.get(task, -np.inf), *found)
            self.mean[task] = float(np.mean(found))

    def draw(self, count: int, rng: np.random.Generator) -> list[tuple[str, int]]:
        """Returns `count` sampled tasks, each with a seed."""
        regrets = {task: best - self.mean[task] for task, best in self.best.items()}
        names = [task for task, regret in regrets.items() if regret > 1e-9]
        again = min(count // 2, len(names))
        weights = np.array([regrets[task] for task in names])
        p = weights / weights.sum()
        chosen = rng.choice(len(names), again, replace=False, p=p) if again else ()
        old = [(names[int(i)], int(rng.integers(2**31))) for i in chosen]
        known = {task for task, _ in old}
        drawn = super().draw(count, rng)
        return (old + [start for start in drawn if start[0] not in known] + drawn)[:count]

    def state_dict(self) -> dict[str, Any]:
        """Returns best and mean returns."""
        return {"best": dict(self.best), "mean": dict(self.mean)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the state of a checkpoint."""
        self.best, self.mean = dict(state["best"]), dict(state["mean"])


class Proposed(SuccessRates):
    """Plays the tasks that a function proposes.

    Args:
        propose: the function.
        tasks: the training tasks.
        first: the function gets the first `first` tasks only. None: all.
    """

    def __init__(self, propose: Propose, tasks: Sequence[str], first: int | None = None):
        super().__init__(tasks, first)
        self.propose = propose

    def draw(self, count: int, rng: np.random.Generator) -> list[tuple[str, int]]:
        """Returns `count` proposed tasks, each with a seed.

        Raises:
            ConfigError: if the function returns another number of tasks, or unknown ones.
        """
        tasks = self.tasks if self.first is None else self.tasks[: self.first]
        names = list(self.propose(tasks, dict(self.rates), count, rng))
        unknown = [name for name in names if name not in tasks]
        if len(names) != count or unknown:
            found = f"the unknown {unknown[0]!r}" if unknown else f"{len(names)} tasks"
            raise ConfigError(f"curriculum must return {count} training tasks, got {found}.")
        return [(name, int(rng.integers(2**31))) for name in names]


class LearningProgress(Curriculum):
    """Prefers tasks whose predicted competence has changed most over recent iterations.

    Competence is predicted by logistic regression on hashed words of a task's first observation,
    fitted in every iteration. The change is measured against a slowly moving copy of its weights.
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
        """Returns `count` sampled tasks, each with a seed."""
        return draw_preferred(self, self.weights, count, rng)

    def weights(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Returns weights in proportion to the change of competence, mixed with uniform ones."""
        x = np.stack([self._features(name) for name in names])
        change = np.abs(_sigmoid(x @ self.now) - _sigmoid(x @ self.then))
        total = change.sum()
        chance = np.full(len(names), 1.0 / len(names))
        return chance if total <= 0 else (1 - self.explore) * change / total + self.explore * chance

    def observe(self, trajectories: Sequence[Trajectory]) -> None:
        """Fits the competence to the iteration's episodes, then updates the slow copy."""
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
        """Returns the words of the tasks and the weights of both regressions."""
        return {"words": dict(self.words), "now": self.now.tolist(), "then": self.then.tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the state of a checkpoint."""
        self.words = dict(state["words"])
        self.now, self.then = np.array(state["now"]), np.array(state["then"])


KINDS: dict[str, type[Curriculum]] = {
    "uniform": Curriculum,
    "window": SuccessWindow,
    "failures": Failures,
    "regret": Regret,
    "progress": LearningProgress,
}


def make_curriculum(kind: str, tasks: Sequence[str], first: int | None = None) -> Curriculum:
    """Returns a curriculum.

    Args:
        kind: a key of `KINDS`, or "module:function" for a function as in `Propose`.
        tasks: the training tasks.
        first: the curriculum uses the first `first` tasks only. None: all.

    Raises:
        ConfigError: if there is no such function.
    """
    if kind in KINDS:
        return KINDS[kind](tasks, first)
    return Proposed(imported(kind, "curriculum"), tasks, first)


def horizon(horizons: Sequence[int], every: int, iteration: int) -> int | None:
    """Returns the maximum episode length of an iteration, or None for the environment's own.

    Args:
        horizons: maximum lengths in turns, one per stage. The last one stays in effect.
        every: iterations per stage.
        iteration: the current iteration, from 0.
    """
    return horizons[min(iteration // every, len(horizons) - 1)] if horizons else None


def draw_tasks(
    tasks: Sequence[str], count: int, rng: np.random.Generator, first: int | None = None
) -> list[tuple[str, int]]:
    """Samples tasks, each with a seed, without replacement as long as there are enough tasks.

    Args:
        tasks: tasks to sample from.
        count: number of tasks to sample.
        rng: random generator.
        first: samples from the first `first` tasks only. None samples from all tasks.
    """
    size = len(tasks) if first is None else min(first, len(tasks))
    numbers: list[int] = []
    while len(numbers) < count:
        numbers += rng.choice(size, min(size, count - len(numbers)), replace=False).tolist()
    return [(tasks[number], int(rng.integers(2**31))) for number in numbers]


def _sigmoid(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-np.clip(x, -30, 30)))
