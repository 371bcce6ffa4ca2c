"""`Budget`: the limits of a certificate."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from agentgym.errors import ConfigError

SLOW: dict[str, dict[str, int]] = {
    "AgentGym/TextWorld-Cooking-v0": {"prints": 10, "search": 500},
    "AgentGym/TextWorld-CoinCollector-v0": {"prints": 20, "search": 1000},
    "AgentGym/TextWorld-TreasureHunter-v0": {"prints": 20, "search": 1000},
}
"""Lower limits of ids whose starts take a second: the game of each task is written anew."""


@dataclass(frozen=True)
class Budget:
    """The limits of a certificate.

    Tasks, steps and turns limit the work, so that a certificate is the same on every machine. The
    clock only ends what hangs: the certificate names the parts that it cut short.

    Attributes:
        tasks: test tasks that every player plays.
        search: environment steps of the searches, all tasks together.
        prints: tasks per split whose transcripts are compared.
        turns: turns after which an episode is left.
        steps: environment steps of the expert, the players and the compared transcripts together.
        seconds: time after which the clock ends the long parts.
        call_seconds: time after which a reset or step that has not returned is given up.
        clock: returns the time in seconds.
        cpu: returns the processor time of this process in seconds, which judges how slow steps are:
            other programs of the machine do not change it.

    Raises:
        ConfigError: for a limit that leaves nothing to do.
    """

    tasks: int = 20
    search: int = 2000
    prints: int = 200
    turns: int = 400
    steps: int = 20_000
    seconds: float = 900.0
    call_seconds: float = 120.0
    clock: Callable[[], float] = time.perf_counter
    cpu: Callable[[], float] = time.process_time

    def __post_init__(self) -> None:
        leasts = {"tasks": 2, "search": 1, "prints": 2, "turns": 1, "steps": 1}
        for name, least in leasts.items():
            if (given := getattr(self, name)) < least:
                raise ConfigError(f"{name} must be at least {least}, got {given}.")
        for name in ("seconds", "call_seconds"):
            if not (given := getattr(self, name)) > 0:
                raise ConfigError(f"{name} must be above 0, got {given}.")

    def of(self, name: str) -> Budget:
        """Returns the budget of an environment, which is lower for slow ones."""
        lower = {key: min(value, getattr(self, key)) for key, value in SLOW.get(name, {}).items()}
        return replace(self, **lower)


@dataclass
class Part:
    """The steps of a part of a certificate.

    Attributes:
        left: environment steps that are left.
        late: returns whether the clock has ended the part.
    """

    left: float
    late: Callable[[], bool]

    def spend(self, steps: int) -> None:
        """Takes steps that were played."""
        self.left -= steps

    @property
    def over(self) -> bool:
        """Whether the steps are used up, or the clock has ended the part."""
        return self.left <= 0 or self.late()
