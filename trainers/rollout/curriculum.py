"""Curricula over tasks. They can be combined with every recipe.

- "window": tasks of intermediate difficulty, with a success rate inside a window.
- "spread": tasks in proportion to the standard deviation of their success, as in Single-stream
  Policy Optimization (arXiv 2509.13232).
- "failures": half of the tasks are sampled from those that mostly failed.
- "progress": tasks with the largest change of predicted competence. The prediction uses the task's
  text and so generalises between tasks, as in MAGELLAN (arXiv 2502.07709).
- "regret": half of the tasks are replayed in proportion to their regret, the best return so far
  minus the mean of the last group. Prioritized Level Replay (arXiv 2010.03934) as regret-based
  environment design (PAIRED, arXiv 2012.02096, and Robust PLR, arXiv 2110.02439).
- "levels": several environments in their order. The next one joins when the success rate of the
  last one is high, as automatic domain randomisation widens a range (arXiv 1910.07113).
- "FILE.json": the tasks of a file alone, such as those of `agentgym compare --solved`.
- "module:function": a function proposes the tasks from the success rates so far.
- "chat:MODEL@URL" or another language model: new tasks that are like the failed ones, as in WebRL
  (arXiv 2411.02337). In an environment with the wrapper `WrittenGoal`, the model writes them.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.agents import make_agent
from agentgym.agents.basic.replies import Replies
from agentgym.agents.text_model import MODELS
from agentgym.errors import ConfigError
from agentgym.registration.mixture import MixedTasks
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.rollout import written_tasks
from agentgym.trainers.rollout.learning_progress import PROMPT, LearningProgress, Related
from agentgym.trainers.rollout.task_sampling import (
    Curriculum,
    SuccessRates,
    Weighted,
    draw_tasks,
    filled,
)
from agentgym.trainers.rollout.written_tasks import Written
from agentgym.utils.importing import imported
from agentgym.wrappers.written_goal import GoalTasks

Propose = Callable[[Sequence[str], Mapping[str, float], int, np.random.Generator], Sequence[str]]
"""Maps the training tasks, the success rates of those played, a number of tasks and a random
generator to the tasks to play next. The rates are moving averages."""


class SuccessWindow(Weighted, SuccessRates):
    """Prefers tasks with a success rate between `low` and `high`, and tasks not played yet."""

    low, high = 0.1, 0.9

    def weights(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Returns 1 for tasks inside the window and for new tasks, else 0."""
        middle = (self.low + self.high) / 2
        rates = np.array([self.rates.get(name, middle) for name in names])
        return ((rates >= self.low) & (rates <= self.high)).astype(np.float64)


class Spread(Weighted, SuccessRates):
    """Samples tasks in proportion to sqrt(p (1 - p)) + 0.05, with their success rate p.

    Tasks that were not played yet have the rate 1/2.
    """

    def weights(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Returns the weights of tasks."""
        rates = np.array([self.rates.get(name, 0.5) for name in names])
        return np.sqrt(rates * (1 - rates)) + 0.05


class Failures(SuccessRates):
    """Samples half of the tasks from those with a success rate below 0.5."""

    def draw(self, count: int, rng: np.random.Generator) -> list[tuple[str, int]]:
        """Returns `count` sampled tasks, each with a seed."""
        failed = [task for task, rate in self.rates.items() if rate < 0.5]
        again = min(count // 2, len(failed))
        chosen = rng.choice(len(failed), again, replace=False) if again else ()
        old = [(failed[int(i)], int(rng.integers(2**31))) for i in chosen]
        return filled(old, super().draw(count, rng))


class Regret(Curriculum):
    """Samples half of the tasks in proportion to regret, if there are such tasks.

    The regret is the best return so far minus the mean return of the last iteration: 0 for tasks
    that are mastered, and for those that were never solved. In a game, it is the largest regret of
    a seat, since the returns of all seats of a zero-sum game cancel.
    """

    def __init__(self, tasks: Sequence[str]):
        super().__init__(tasks)
        self.best: dict[str, dict[str, float]] = {}
        self.mean: dict[str, dict[str, float]] = {}

    def observe(self, trajectories: Sequence[Trajectory]) -> None:
        """Updates best and mean returns of the tasks played, by seat."""
        returns: dict[tuple[str, str], list[float]] = {}
        for trajectory in trajectories:
            seat = trajectory.task, trajectory.agent
            returns.setdefault(seat, []).append(trajectory.episode_return)
        for (task, agent), found in returns.items():
            best = self.best.setdefault(task, {})
            best[agent] = max(best.get(agent, -np.inf), *found)
            self.mean.setdefault(task, {})[agent] = float(np.mean(found))

    def regret(self, task: str) -> float:
        """Returns the regret of a task that was played."""
        return max(best - self.mean[task][agent] for agent, best in self.best[task].items())

    def draw(self, count: int, rng: np.random.Generator) -> list[tuple[str, int]]:
        """Returns `count` sampled tasks, each with a seed."""
        regrets = {task: self.regret(task) for task in self.best}
        names = [task for task, regret in regrets.items() if regret > 1e-9]
        again = min(count // 2, len(names))
        weights = np.array([regrets[task] for task in names])
        p = weights / weights.sum()
        chosen = rng.choice(len(names), again, replace=False, p=p) if again else ()
        old = [(names[int(i)], int(rng.integers(2**31))) for i in chosen]
        return filled(old, super().draw(count, rng))

    def state_dict(self) -> dict[str, Any]:
        """Returns best and mean returns."""
        return {"best": copy.deepcopy(self.best), "mean": copy.deepcopy(self.mean)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the state of a checkpoint."""
        self.best, self.mean = copy.deepcopy(state["best"]), copy.deepcopy(state["mean"])


class Proposed(SuccessRates):
    """Plays the tasks that a function proposes.

    Args:
        propose: the function.
        tasks: the training tasks.
    """

    def __init__(self, propose: Propose, tasks: Sequence[str]):
        super().__init__(tasks)
        self.propose = propose

    def draw(self, count: int, rng: np.random.Generator) -> list[tuple[str, int]]:
        """Returns `count` proposed tasks, each with a seed.

        Raises:
            ConfigError: if the function returns another number of tasks, or unknown ones.
        """
        names = list(self.propose(self.tasks, dict(self.rates), count, rng))
        unknown = [name for name in names if name not in self.tasks]
        if len(names) != count or unknown:
            found = f"the unknown {unknown[0]!r}" if unknown else f"{len(names)} tasks"
            raise ConfigError(f"curriculum must return {count} training tasks, got {found}.")
        return [(name, int(rng.integers(2**31))) for name in names]


class Levels(Curriculum):
    """Samples from the first environments of a mixture. The next one joins when they are mastered.

    Half of the tasks are from the environment that joined last, the others from all that have
    joined, in equal parts. The next one joins when the moving average of the success rate in the
    last one reaches `enough`.

    Args:
        tasks: the training tasks of several environments.
        first: samples from the first `first` tasks of each only. None: from all.
    """

    enough, memory = 0.7, 0.5

    def __init__(self, tasks: Sequence[str], first: int | None = None):
        if not isinstance(tasks, MixedTasks):
            raise ConfigError(
                "curriculum = 'levels' needs several environments, from easy to hard: "
                "--env-id KG-QA-v0:hops=1 KG-QA-v0:hops=2."
            )
        super().__init__(tasks)
        self.levels, self.first = dict(tasks.parts), first
        self.joined, self.rate = 1, 0.0

    def draw(self, count: int, rng: np.random.Generator) -> list[tuple[str, int]]:
        """Returns `count` sampled tasks, each with a seed."""
        names, half = list(self.levels)[: self.joined], count // 2
        older = names * (half // len(names))
        if rest := half % len(names):  # in equal parts over several iterations
            older += [names[int(i)] for i in rng.choice(len(names), rest, replace=False)]
        drawn = Counter(older + [names[-1]] * (count - len(older)))
        return [
            (f"{name} {task}", seed)
            for name, number in drawn.items()
            for task, seed in draw_tasks(self.levels[name], number, rng, self.first)
        ]

    def observe(self, trajectories: Sequence[Trajectory]) -> None:
        """Updates the success rate of the last environment, after which the next one may join."""
        last = list(self.levels)[self.joined - 1]
        results = [t.success for t in trajectories if t.task.startswith(f"{last} ")]
        if not results:
            return
        self.rate = self.memory * self.rate + (1 - self.memory) * float(np.mean(results))
        if self.rate >= self.enough and self.joined < len(self.levels):
            self.joined, self.rate = self.joined + 1, 0.0

    def state_dict(self) -> dict[str, Any]:
        """Returns the number of environments that have joined, and the success rate in the last."""
        return {"joined": self.joined, "rate": self.rate}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the state of a checkpoint."""
        self.joined, self.rate = int(state["joined"]), float(state["rate"])


KINDS: dict[str, type[Curriculum]] = {
    "uniform": Curriculum,
    "window": SuccessWindow,
    "spread": Spread,
    "failures": Failures,
    "regret": Regret,
    "progress": LearningProgress,
    "levels": Levels,
}


TASK_FILE = ".json"
"""Ending of a file of tasks."""


def make_curriculum(
    kind: str,
    tasks: Sequence[str],
    first: int | None = None,
    describe: Callable[[str], str] | None = None,
) -> Curriculum:
    """Returns a curriculum.

    Args:
        kind: a key of `KINDS`, "FILE.json" for the tasks of a file, "module:function" for one as in
            `Propose`, or a language model, such as chat:MODEL@URL.
        tasks: the training tasks.
        first: the curriculum uses the first `first` tasks only. None: all.
        describe: maps a task to its first observation, for a language model.

    Raises:
        ConfigError: if there is no such function, the file holds no list of training tasks, or
            "levels" has a single environment.
    """
    if kind == "levels":
        return Levels(tasks, first)
    some = tasks if first is None else tasks[:first]
    if kind in KINDS:
        return KINDS[kind](some)
    if kind.startswith(MODELS):
        assert describe is not None
        writes = isinstance(tasks, GoalTasks)
        made, prompt = (Written, written_tasks.PROMPT) if writes else (Related, PROMPT)
        return made(Replies(make_agent(kind), kind, prompt), describe, some)
    if kind.endswith(TASK_FILE):
        return Curriculum(listed_tasks(kind, tasks)[:first])
    return Proposed(imported(kind, "curriculum"), some)


def listed_tasks(file: str, tasks: Sequence[str]) -> list[str]:
    """Returns the tasks of a file, a JSON list of names.

    Raises:
        ConfigError: if the file holds anything else.
    """
    try:
        names = json.loads(Path(file).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"curriculum = {file!r} cannot be read as JSON: {error}.") from error
    if not isinstance(names, list) or not names or len({*map(repr, names)}) < len(names):
        raise ConfigError(
            f"curriculum = {file!r} must hold a JSON list of one or more different tasks, got "
            f"{names!r:.80}."
        )
    unknown = [name for name in names if name not in tasks]
    if unknown:
        raise ConfigError(
            f"curriculum = {file!r} must hold training tasks, such as {tasks[0]!r}, got "
            f"{unknown[0]!r:.80}. Evaluations of training tasks are played with --split train."
        )
    return names
