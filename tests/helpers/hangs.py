"""An environment whose steps take an hour, and one whose threads end no sooner."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import gymnasium

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.trainers.rollout import collector

HOUR = 3600.0


def tell() -> None:
    """Writes a line at once: `print` writes it in two parts if Python does not buffer."""
    os.write(1, b"a step begins\n")


class Hangs(NumberLine):
    """Every step takes an hour.

    Args:
        patience: seconds that the process waits for steps before it stops. None: as always.
        **kwargs: arguments of NumberLine.
    """

    def __init__(self, *, patience: float | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        if patience is not None:
            collector.PATIENCE = patience

    def step(self, action: str) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Sleeps."""
        tell()
        time.sleep(HOUR)
        return super().step(action)


class KeepsThreads(NumberLine):
    """Starts a thread that keeps the process from ending, and waits for it when it is closed."""

    _thread: threading.Thread | None = None

    def step(self, action: str) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Starts the thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=time.sleep, args=(HOUR,))
            self._thread.start()
            tell()
            time.sleep(1)  # a signal of the reader comes in this step
        return super().step(action)

    def close(self) -> None:
        """Waits for the thread."""
        if self._thread is not None:
            self._thread.join()


for kind in (Hangs, KeepsThreads):
    gymnasium.register(f"{kind.__name__}-v0", entry_point=kind)
