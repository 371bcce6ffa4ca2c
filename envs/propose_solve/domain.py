"""`Domain`: a space of tasks that a proposer writes and the environment verifies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np


@dataclass
class Problem:
    """A verified task.

    Attributes:
        proposal: the text of the proposal in a unique form, by which repetitions are found.
        question: the text that solvers read.
        solution: an answer that is right.
        secret: data that `Domain.right` compares answers with, as JSON values.
        size: a measure of its difficulty, at least 1.
    """

    proposal: str
    question: str
    solution: str
    secret: dict[str, Any]
    size: int


class Domain(ABC):
    """A space of tasks."""

    kinds: ClassVar[tuple[str, ...]]
    """Kinds of tasks."""
    rules: str
    """Description of tasks, proposals and answers, for the instructions."""

    @abstractmethod
    def asks(self, kind: str) -> str:
        """Returns the request to the proposer for a task of a kind."""

    @abstractmethod
    def verify(self, kind: str, proposal: str, *, test: bool) -> Problem:
        """Returns the task of a proposal.

        Args:
            kind: the kind of the task.
            proposal: the text of the proposer.
            test: whether the episode is one of the test split. Training episodes refuse test tasks.

        Raises:
            InvalidMove: if it is not a task that can be solved and verified.
        """

    @abstractmethod
    def right(self, kind: str, problem: Problem, answer: str) -> bool:
        """Returns whether an answer, which may be any text, solves a task."""

    @abstractmethod
    def sample(self, task: str, kind: str, below: Callable[[int], int]) -> str:
        """Returns a random valid proposal.

        Args:
            task: the task of the episode.
            kind: the kind of the proposal.
            below: samples a number from 0 to its argument - 1.
        """

    @abstractmethod
    def guess(self, problem: Problem, rng: np.random.Generator) -> str:
        """Returns a random answer."""
