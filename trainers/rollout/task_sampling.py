"""Sampling of tasks, episodes per task and episode lengths.

- `adaptive_groups`: more episodes for tasks with a less certain outcome (`group_sizes`).
- `horizons`: the maximum episode length grows in stages, as in ScalingInter-RL (arXiv 2509.08755),
  or is that of the successes in a task, as in DART (arXiv 2509.23866, `SolvedLengths`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.trainers.data.trajectory import Trajectory

OVERSAMPLE = 4
"""Number of candidate tasks per sampled task."""
MINIMUM = 2
"""Minimum number of episodes per task, with which a group has a baseline."""


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


class Curriculum:
    """Samples tasks uniformly. Subclasses sample with other preferences.

    Args:
        tasks: the training tasks.
    """

    def __init__(self, tasks: Sequence[str]):
        self.tasks = tasks

    def draw(self, count: int, rng: np.random.Generator) -> list[tuple[str, int]]:
        """Returns `count` sampled tasks, each with a seed."""
        return draw_tasks(self.tasks, count, rng)

    def observe(self, trajectories: Sequence[Trajectory]) -> None:
        """Updates the curriculum with the trajectories of an iteration."""

    def state_dict(self) -> dict[str, Any]:
        """Returns the state as plain Python values."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the state of a checkpoint."""


class Weighted(Curriculum):
    """Samples candidate tasks uniformly, and from these the result in proportion to weights.

    Tasks of weight 0 are used only if there are too few others.
    """

    def weights(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Returns the non-negative weights of tasks."""
        raise NotImplementedError

    def draw(self, count: int, rng: np.random.Generator) -> list[tuple[str, int]]:
        """Returns `count` sampled tasks, each with a seed."""
        looked_at = Curriculum.draw(self, OVERSAMPLE * count, rng)
        names = list(dict.fromkeys(task for task, _ in looked_at))
        wanted = self.weights(names)
        size = min(count, int((wanted > 0).sum()))
        shares = wanted / wanted.sum() if size else None
        chosen = rng.choice(len(names), size, replace=False, p=shares) if size else ()
        found = [names[int(i)] for i in chosen]
        found += [task for task in names if task not in set(found)][: count - size]
        found += [task for task, _ in looked_at][: count - len(found)]
        return [(task, int(rng.integers(2**31))) for task in found]


def filled(again: list[tuple[str, int]], drawn: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Returns as many tasks as were drawn, those to play again first, none twice if possible."""
    known = {task for task, _ in again}
    return (again + [start for start in drawn if start[0] not in known] + drawn)[: len(drawn)]


class SuccessRates(Curriculum):
    """Tracks an exponential moving average of the success rate of every task played."""

    memory = 0.5

    def __init__(self, tasks: Sequence[str]):
        super().__init__(tasks)
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


class SolvedLengths:
    """The length of the longest success in every task, in turns that its turn limit counts."""

    def __init__(self) -> None:
        self.turns: dict[str, int] = {}

    def observe(self, trajectories: Sequence[Trajectory]) -> None:
        """Updates the lengths with the successes among some trajectories."""
        for each in trajectories:
            if each.success:
                turns = each.stats.env_turns or len(each.turns)
                self.turns[each.task] = max(self.turns.get(each.task, 0), turns)

    def limit(self, task: str, limits: Sequence[int]) -> int:
        """Returns the shortest limit of all successes in a task, the last one if there is none."""
        longest = self.turns.get(task)
        known = [each for each in limits if longest is not None and each >= longest]
        return min(known, default=limits[-1])


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
