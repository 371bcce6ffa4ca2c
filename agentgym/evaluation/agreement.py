"""Agreement of a judge with the outcome of the environment: Cohen's kappa and both errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Agreement:
    """How often a judge and the environment consider an episode solved.

    Attributes:
        both: number of episodes that are solved by both.
        judge_only: number of those that only the judge considers solved.
        environment_only: number of those that only the environment considers solved.
        neither: number of those that are solved by neither.
        unread: number of episodes without a readable verdict, which do not count otherwise.
    """

    both: int = 0
    judge_only: int = 0
    environment_only: int = 0
    neither: int = 0
    unread: int = 0

    @classmethod
    def of(cls, outcomes: Sequence[bool], verdicts: Sequence[bool | None]) -> Agreement:
        """Counts the episodes.

        Args:
            outcomes: whether the environment considers each episode solved.
            verdicts: whether the judge does. None: unreadable.
        """
        pairs = [*zip(verdicts, outcomes, strict=True)]
        kinds = ((True, True), (True, False), (False, True), (False, False))
        unread = sum(verdict is None for verdict in verdicts)
        both, judge_only, environment_only, neither = (pairs.count(kind) for kind in kinds)
        return cls(both, judge_only, environment_only, neither, unread)

    @property
    def n(self) -> int:
        """Number of episodes with a readable verdict."""
        return self.both + self.judge_only + self.environment_only + self.neither

    @property
    def judged(self) -> int:
        """Number of episodes that the judge considers solved."""
        return self.both + self.judge_only

    @property
    def share(self) -> float | None:
        """Share of the episodes on which they agree. None without any."""
        return (self.both + self.neither) / self.n if self.n else None

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa, "A Coefficient of Agreement for Nominal Scales", 1960.

        It is 1 for perfect agreement and 0 for that of chance. None: both are constant, so that
        chance agrees perfectly, or there is no episode.
        """
        if self.share is None:
            return None
        judge, truth = self.judged / self.n, (self.both + self.environment_only) / self.n
        chance = judge * truth + (1 - judge) * (1 - truth)
        return (self.share - chance) / (1 - chance) if chance < 1 else None

    @property
    def false_success(self) -> float | None:
        """Share of the environment's failures that the judge considers solved. None without any."""
        failures = self.judge_only + self.neither
        return self.judge_only / failures if failures else None

    @property
    def false_failure(self) -> float | None:
        """Share of the environment's successes that the judge rejects. None without any."""
        successes = self.both + self.environment_only
        return self.environment_only / successes if successes else None

    def to_json(self) -> dict[str, Any]:
        """Returns the counts and rates as JSON values."""
        rates = ("share", "kappa", "false_success", "false_failure")
        return {**vars(self), **{name: getattr(self, name) for name in rates}}
