"""`Played`: a callback that keeps the trajectories of a run."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.trainers import Callback
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.run import Run


class Played(Callback):
    """Keeps the trajectories of a run.

    Attributes:
        trajectories: those of each iteration.
    """

    def __init__(self) -> None:
        self.trajectories: list[Sequence[Trajectory]] = []

    def on_rollout_end(self, trainer: Run, trajectories: Sequence[Trajectory]) -> None:
        self.trajectories.append(trajectories)

    @property
    def episodes(self) -> list[Trajectory]:
        """All trajectories, in the order of iterations."""
        return [each for iteration in self.trajectories for each in iteration]
