"""`Budget`: the limits of a certificate."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from agentgym.errors import ConfigError


@dataclass(frozen=True)
class Budget:
    """The limits of a certificate.

    Tasks, steps and turns limit the work, so that a certificate is the same on every machine.
    Seconds limit it for slow environments: the certificate names the parts that they cut short.

    Attributes:
        tasks: test tasks that every player plays.
        steps: environment steps of the searches, all tasks together.
        prints: tasks per split whose transcripts are compared.
        turns: turns after which an episode is left.
        seconds: wall-clock time of the long parts together.
        clock: returns the time in seconds.

    Raises:
        ConfigError: for a limit that leaves nothing to do.
    """

    tasks: int = 20
    steps: int = 2000
    prints: int = 200
    turns: int = 400
    seconds: float = 60.0
    clock: Callable[[], float] = time.perf_counter

    def __post_init__(self) -> None:
        for name, least in (("tasks", 2), ("steps", 1), ("prints", 2), ("turns", 1)):
            if (given := getattr(self, name)) < least:
                raise ConfigError(f"{name} must be at least {least}, got {given}.")
        if not self.seconds > 0:
            raise ConfigError(f"seconds must be above 0, got {self.seconds}.")

    def part(self, share: float) -> Callable[[], bool]:
        """Returns a function that returns whether a share of the seconds, from now, is used up."""
        end = self.clock() + share * self.seconds
        return lambda: self.clock() >= end
