"""Stops training when its task is solved."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from agentgym.trainers.callbacks import Callback
from agentgym.trainers.hooks.run import Run


class UntilSolved(Callback):
    """Stops training when the mean return of three iterations exceeds a bar.

    Args:
        bar: the bar.
    """

    def __init__(self, bar: float = 0.85) -> None:
        self.bar = bar
        self.returns: list[float] = []

    @property
    def solved(self) -> bool:
        """Whether the mean return of the last three iterations exceeds the bar."""
        return len(self.returns) >= 3 and bool(np.mean(self.returns[-3:]) > self.bar)

    def on_update_end(self, trainer: Run, metrics: Mapping[str, float]) -> bool:
        """Notes the return."""
        self.returns.append(metrics["rollout/return"])
        return not self.solved
