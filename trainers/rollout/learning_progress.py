"""Curricula that predict the success in a task from its first observation.

`LearningProgress` is that of MAGELLAN (arXiv 2502.07709), `Related` that of WebRL (arXiv
2411.02337).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.data.episode_text import LONGEST
from agentgym.reading.typography import without_thoughts
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.rollout.task_sampling import (
    OVERSAMPLE,
    SuccessRates,
    Weighted,
    filled,
)

FEATURES = 512
PROMPT = (
    "You choose the next tasks of an agent that learns. You read tasks that it has failed, and new "
    "ones with numbers. Choose those from which it learns most for the failed ones: new tasks of "
    "the same kind, which differ in details and are not harder. Reply with their numbers in one "
    "line, such as\n"
    "3, 7, 12"
)


_NUMBERS = re.compile(r"\d{1,4}(?:(?:\s*,\s*|\s*;\s*|\s+)(?:and\s+)?\d{1,4})*")
"""A line of numbers, without what stands around it."""


class LearningProgress(Weighted):
    """Prefers tasks whose predicted competence has changed most over recent iterations.

    Competence is predicted by logistic regression on hashed words of a task's first observation,
    fitted in every iteration. The change is measured against a slowly moving copy of its weights.
    """

    rate, slow, explore = 0.5, 0.1, 0.2

    def __init__(self, tasks: Sequence[str]):
        super().__init__(tasks)
        self.words: dict[str, list[int]] = {}
        self.now, self.then = np.zeros(FEATURES + 1), np.zeros(FEATURES + 1)

    def predict(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Returns the predicted success rates of tasks with these first observations."""
        return _sigmoid(np.stack([_features(_words(text)) for text in texts]) @ self.now)

    def _features(self, name: str) -> NDArray[np.float64]:
        return _features(self.words.get(name, []))

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
            self.words[trajectory.task] = _words(trajectory.turns[0].observation)
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


class Related(SuccessRates):
    """Plays new tasks that a language model finds like those that fail.

    The model reads the first observations of failed tasks and of new ones, and chooses half of the
    tasks. New ones are shown if their predicted success rate (see `LearningProgress`) is in
    `within`, as WebRL filters the tasks that a model generates by its critic. Here the environment
    generates them, so that their outcomes can be checked.

    Args:
        ask: answers texts.
        describe: maps a task to its first observation.
        tasks: the training tasks.
    """

    within = 0.05, 0.75
    most = 32

    def __init__(
        self,
        ask: Callable[[Sequence[str]], Sequence[str]],
        describe: Callable[[str], str],
        tasks: Sequence[str],
    ):
        super().__init__(tasks)
        self.ask, self.describe = ask, describe
        self.progress = LearningProgress(tasks)
        self.failed: dict[str, str] = {}

    def draw(self, count: int, rng: np.random.Generator) -> list[tuple[str, int]]:
        """Returns `count` sampled tasks, each with a seed."""
        drawn, wanted = super().draw(count, rng), min(count // 2, self.most)
        if not (self.failed and wanted):
            return drawn
        seen = dict.fromkeys(task for task, _ in super().draw(OVERSAMPLE * count, rng))
        shown = dict[str, str]()
        for task in seen:  # an environment may take long to begin
            if task not in self.rates and len(shown) < self.most:
                text = self.describe(task)
                if text and self.within[0] <= self.progress.predict([text])[0] <= self.within[1]:
                    shown[task] = text
        names = self._chosen(shown, wanted, rng) if shown else []
        return filled([(name, int(rng.integers(2**31))) for name in names], drawn)

    def _chosen(self, shown: Mapping[str, str], count: int, rng: np.random.Generator) -> list[str]:
        """Returns the tasks that the model names, at most `count`."""
        known = list(self.failed.values())
        sample = rng.choice(len(known), min(self.most // 4, len(known)), replace=False)
        parts = ["Failed tasks:", *(known[int(i)] for i in sample), "New tasks:"]
        parts += [f"{i}. {text[:LONGEST]}" for i, text in enumerate(shown.values(), 1)]
        [reply] = self.ask(["\n\n".join([*parts, f"Choose {count}."])])
        tasks = list(shown)
        found = [number for number in read_numbers(reply) if 1 <= number <= len(tasks)]
        return [tasks[number - 1] for number in found][:count]

    def observe(self, trajectories: Sequence[Trajectory]) -> None:
        """Updates the success rates, the predictions, and the texts of failed tasks."""
        super().observe(trajectories)
        self.progress.observe(trajectories)
        for trajectory in trajectories:
            if self.rates[trajectory.task] < 0.5:
                self.failed[trajectory.task] = trajectory.turns[0].observation[:LONGEST]
            else:
                self.failed.pop(trajectory.task, None)

    def state_dict(self) -> dict[str, Any]:
        """Returns the success rates, the predictions, and the texts of failed tasks."""
        progress = self.progress.state_dict()
        return super().state_dict() | {"progress": progress, "failed": dict(self.failed)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the state of a checkpoint."""
        super().load_state_dict(state)
        self.progress.load_state_dict(state["progress"])
        self.failed = dict(state["failed"])


def read_numbers(reply: str) -> list[int]:
    """Returns the numbers of the last line of a reply that has nothing else, without repetitions.

    A short label may precede them, as in `**Tasks:** 3, 7`. Thoughts are ignored.
    """
    for line in reversed(without_thoughts(reply)[-LONGEST:].split("\n")):
        label, _, numbers = line.rpartition(":")
        if len(label.split()) <= 3 and _NUMBERS.fullmatch(numbers.strip(" *_`.[]()\t\r")):
            return list(dict.fromkeys(map(int, re.findall(r"\d+", numbers))))
    return []


def _words(text: str) -> list[int]:
    """Returns the numbers of the hashed words of a text."""
    words = text.lower().split()
    return sorted({zlib.crc32(word.encode("utf-8", "replace")) % FEATURES for word in words})


def _features(words: Sequence[int]) -> NDArray[np.float64]:
    found = np.zeros(FEATURES + 1)
    found[list(words)] = 1.0 / max(len(words), 1) ** 0.5
    found[-1] = 1.0
    return found


def _sigmoid(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-np.clip(x, -30, 30)))
