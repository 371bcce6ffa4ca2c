"""`Phases`: shows how far a run is, with a bar on a terminal and with a line a minute elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from agentgym.trainers.data.run_state import RunState
from agentgym.trainers.settings.running import RunConfig

MINUTE = 60.0
"""Seconds between two lines about a phase, where there is no terminal."""


class Phases:
    """The phase that a run is in, the share of its budget that is spent, and the time left.

    Args:
        console: where to show it.
        budget: the budget of the run, of which the part that ends first counts.
        state: the counters of the run at its start.
        bar: whether the console is a terminal that shows bars.
        clock: returns seconds.
    """

    def __init__(
        self,
        console: Console,
        budget: RunConfig,
        state: RunState,
        *,
        bar: bool,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._console, self._budget, self._clock = console, budget, clock
        self._iteration = state.iteration
        self._share = self._first_share = self._spent(state)
        self._iterating_since: float | None = None  # when the first iteration of this process began
        self._name, self._total, self._done = "", 0, 0
        self._begun = self._shown = clock()
        self._bar: Progress | None = None
        self._main = self._inner = TaskID(0)
        if bar:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[count]}"),
                TimeRemainingColumn(),
                console=console,
            )
            self._main = self._bar.add_task("iterations", total=1.0, count=self._count)
            self._bar.update(self._main, completed=self._share)
            self._bar.start()

    def _spent(self, state: RunState) -> float:
        """Returns the share of the budget that is spent."""
        shares = [state.iteration / max(1, self._budget.iterations)]
        if self._budget.env_steps:
            shares.append(state.env_steps / self._budget.env_steps)
        return min(1.0, max(shares))

    @property
    def _count(self) -> str:
        return f"{self._iteration}/{self._budget.iterations}"

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds until the budget is spent. None before the first iteration ends."""
        done = self._share - self._first_share
        if self._iterating_since is None or done <= 0:
            return None
        return (self._clock() - self._iterating_since) * (1 - self._share) / done

    def advance(self, state: RunState) -> None:
        """Takes note of a finished iteration."""
        self._iteration, self._share = state.iteration, self._spent(state)
        self._shown = self._clock()
        if self._bar is not None:
            self._bar.update(self._main, completed=self._share, count=self._count)

    @contextmanager
    def phase(self, name: str, total: int = 0) -> Iterator[None]:
        """Shows a phase while its block runs.

        Args:
            name: its name, such as "play".
            total: number of its steps (0: unknown).
        """
        if name in ("play", "update") and self._iterating_since is None:
            self._iterating_since = self._clock()
        before = self._name, self._total, self._done, self._begun
        self._name, self._total, self._done, self._begun = name, total, 0, self._clock()
        if self._bar is not None and not before[0]:
            self._inner = self._bar.add_task(name, total=total or None, count="")
        try:
            yield
        finally:
            self._name, self._total, self._done, self._begun = before
            if self._bar is not None and not before[0]:
                self._bar.remove_task(self._inner)

    def tick(self, done: int | None = None) -> None:
        """Shows a step of the phase.

        Args:
            done: number of finished steps. None: one more.
        """
        self._done = self._done + 1 if done is None else done
        if not self._name:
            return
        count = f"{self._done}/{self._total}" if self._total else f"{self._done}"
        if self._bar is not None:
            self._bar.update(self._inner, completed=self._done, count=count)
        elif (now := self._clock()) - self._shown >= MINUTE:
            self._shown = now
            self._console.print(
                f"iteration {self._iteration + 1:4d}  {self._name} {count}, "
                f"{duration(now - self._begun)}",
                markup=False,
                soft_wrap=True,
            )

    def close(self) -> None:
        """Ends the bar."""
        if self._bar is not None:
            self._bar.stop()


def duration(seconds: float) -> str:
    """Returns a time in words: "45 s", "12 min", "3.5 h"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"


def memory_gib() -> float:
    """Returns the memory in GiB: the peak of the GPU if it was used, else that of the process."""
    if torch.cuda.is_available() and (used := torch.cuda.max_memory_allocated()):
        return used / 2**30
    return psutil.Process().memory_info().rss / 2**30
