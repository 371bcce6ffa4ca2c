"""`Failures`: episodes that their environment ends with an exception, and that are played again."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field


@dataclass
class Failures:
    """The episodes of a run whose environments failed.

    Attributes:
        share: share of the episodes of a rollout that may fail. 0: an exception ends the rollout.
        counted: number of failures since the last `take`.
    """

    share: float = 0.0
    counted: int = field(default=0, init=False)

    def bound(self, episodes: int) -> Bound:
        """Returns the bound of a rollout of so many episodes."""
        return Bound(self, episodes)

    def take(self) -> int:
        """Returns the number of failures since the last call."""
        count, self.counted = self.counted, 0
        return count


@dataclass
class Bound:
    """The failures of one rollout.

    Attributes:
        failures: counts those of all rollouts.
        episodes: number of episodes of the rollout.
        failed: number of failures.
    """

    failures: Failures
    episodes: int
    failed: int = 0

    def count(self, error: BaseException) -> None:
        """Counts a failure, or raises it if more episodes failed than may.

        Raises:
            BaseException: the failure.
        """
        self.failed += 1
        share = self.failures.share
        if not isinstance(error, Exception) or self.failed > share * self.episodes:
            if share:
                error.add_note(
                    f"{self.failed} of {self.episodes} episodes failed, and env_failures = "
                    f"{share:g} allows that share to be played again."
                )
            raise error
        self.failures.counted += 1
        where = "".join(f" {note}" for note in getattr(error, "__notes__", ()))
        warnings.warn(
            f"An episode failed and is played again in a fresh environment: {error!r}.{where}",
            stacklevel=2,
        )
