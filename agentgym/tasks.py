"""The tasks of an environment and their splits.

A task is identified by its name, a string. The same name denotes the same task in every process.
`NumberedTasks` represents millions of tasks in constant memory.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from agentgym.errors import UnknownTaskError, did_you_mean
from agentgym.utils.fast_pcg64 import Draws
from agentgym.utils.serialization import to_json

Level = TypeVar("Level")


class NumberedTasks(Sequence[str]):
    """A lazy sequence of the task names "prefix0", "prefix1", ...

    Args:
        prefix: prefix of the number, such as "goal/".
        numbers: the numbers in order, such as `range(2**31)` for generated levels.
    """

    def __init__(self, prefix: str, numbers: range):
        self.prefix = prefix
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return NumberedTasks(self.prefix, self.numbers[index])
        return f"{self.prefix}{self.numbers[index]}"

    def __iter__(self) -> Iterator[str]:
        return (f"{self.prefix}{number}" for number in self.numbers)

    def __contains__(self, task: object) -> bool:
        if not isinstance(task, str) or not task.startswith(self.prefix):
            return False
        digits = task[len(self.prefix) :]
        canonical = digits.isascii() and digits.isdigit() and str(int(digits[:20])) == digits
        return canonical and int(digits) in self.numbers

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, NumberedTasks)
            and other.prefix == self.prefix
            and other.numbers == self.numbers
        )

    def __hash__(self) -> int:
        return hash((NumberedTasks, self.prefix, self.numbers))

    def __repr__(self) -> str:
        return f"NumberedTasks({self.prefix!r}, {self.numbers})"


@dataclass(frozen=True)
class Tasks:
    """The task names of an environment, split into disjoint training and test tasks.

    Args:
        train: names of the training tasks.
        test: names of the held-out tasks.

    Raises:
        ValueError: if a split is empty or not a sequence of names, which are str.

    Warns:
        RuntimeWarning: if lists of names have names in common.
    """

    train: Sequence[str]
    test: Sequence[str]

    def __post_init__(self) -> None:
        for name in ("train", "test"):
            tasks = getattr(self, name)
            if isinstance(tasks, str) or not isinstance(tasks, Sequence) or not len(tasks):
                raise ValueError(
                    f"Tasks needs a non-empty sequence of names for {name!r}, got {tasks!r:.80}."
                )
            if not isinstance(tasks[0], str):  # the first one only: they may be many
                raise ValueError(
                    f"Tasks needs names that are str for {name!r}, got {tasks[0]!r:.80}."
                )
        if isinstance(self.train, (list, tuple)) and isinstance(self.test, (list, tuple)):
            if shared := {*self.train} & {*self.test}:
                warn_not_held_out(
                    f"{len(shared)} of {len(self.test)} test tasks are training tasks, such as "
                    f"{min(shared)!r}"
                )

    def split(self, name: str) -> Sequence[str]:
        """Returns the tasks of a split ("train" or "test").

        Raises:
            ValueError: for another name.
        """
        if name not in ("train", "test"):
            raise ValueError(f"split must be 'train' or 'test', got {name!r}.")
        return self.train if name == "train" else self.test

    def __contains__(self, task: object) -> bool:
        return task in self.train or task in self.test

    def check(self, task: object) -> str:
        """Returns the task if it exists.

        Raises:
            UnknownTaskError: if it does not. The message shows examples of task names.
        """
        if isinstance(task, str) and task in self:
            return str.__str__(task)  # not of a subclass, such as that of NumPy
        examples = [self.train[0], self.train[-1], self.test[0], self.test[-1]]
        hint = did_you_mean(task, examples) if isinstance(task, str) else ""
        raise UnknownTaskError(
            f"Unknown task {task!r}.{hint} This environment has {len(self.train):,} training tasks "
            f"({examples[0]!r} .. {examples[1]!r}) and {len(self.test):,} test tasks "
            f"({examples[2]!r} .. {examples[3]!r})."
        )

    @classmethod
    def generated(cls, size: int = 2**31 - 1) -> Tasks:
        """Returns the tasks "train/0", "train/1", ... and "test/0", "test/1", ...

        They are for environments that generate levels with `task_rng`.

        Args:
            size: number of tasks per split.
        """
        return cls(NumberedTasks("train/", range(size)), NumberedTasks("test/", range(size)))


def warn_not_held_out(problem: str) -> None:
    """Warns that training tasks are played in tests.

    Args:
        problem: which tasks are.
    """
    message = f"{problem}, so that evaluations are not held out. Expected other tasks for tests: "
    warnings.warn(f"{message}add tasks, or evaluate in another environment.", RuntimeWarning, 4)


def task_number(task: str) -> int:
    """Returns the number at the end of a numbered task: 12 for "goal/12"."""
    return int(task.rpartition("/")[2])


def task_rng(task: str, salt: str = "") -> np.random.Generator:
    """Returns a random generator for level generation, seeded by the task's name and a salt.

    Random events within an episode use `env.np_random` instead.
    """
    return np.random.Generator(np.random.PCG64(task_seed(task, salt)))


def task_draws(task: str, salt: str = "", block: int = 8) -> Draws:
    """Returns the numbers of `task_rng` one at a time: fast for levels of many single numbers.

    Args:
        task: name of the task.
        salt: distinguishes several streams of a task.
        block: outputs of the generator that are read at once.
    """
    return Draws(task_seed(task, salt), block)


def task_seed(task: str, salt: str = "") -> np.ndarray:
    """Returns the 128-bit seed of a task's random stream as four words of 32 bits.

    The same number as an int gives the same stream, but takes longer to read.
    """
    digest = hashlib.sha256(f"{salt}\0{task}".encode("utf-8", "surrogatepass")).digest()
    return np.frombuffer(digest, "<u4", 4)


def draw_level(
    task: str, draw: Callable[[], Level], content: Callable[[Level], Any] = lambda level: level
) -> Level:
    """Samples levels until one belongs to the task's split, and returns it.

    For level spaces so small that two tasks may sample the same level: it keeps training and test
    levels disjoint. A digest of the level's content determines its split. A quarter of all levels
    are test levels. If 100 samples all belong to the other split, there are too few levels to
    split, and the last one is returned.

    Args:
        task: "train/..." or "test/...".
        draw: samples a new level.
        content: returns the part of a level that makes it another task for an agent, without, for
            example, the names of files that nobody has to open. Default: the whole level.
            `agentgym.utils.serialization` can convert it to JSON.
    """
    test, level = task.startswith("test/"), draw()
    for _ in range(100):
        if is_test_level(content(level)) == test:
            break
        level = draw()
    return level


def is_test_level(content: Any) -> bool:
    """Returns whether `draw_level` keeps levels with this content for the test tasks."""
    digest = hashlib.sha256(repr(to_json(content)).encode()).digest()
    return digest[0] % 4 == 0
