"""`Callback`: a user's hooks into training, in the vocabulary of Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentgym.evaluation.report import Report
    from agentgym.trainers.data.trajectory import Trajectory
    from agentgym.trainers.hooks.run import Run


class Callback:
    """Callbacks that do nothing. Override the ones you need.

    Training stops after the current iteration when `on_iteration_start`, `on_rollout_end`,
    `on_update_end` or `on_evaluation_end` returns False. The run is then saved and concluded as if
    its budget were spent.

    The trainer offers `trainer.config`, `trainer.policy`, `trainer.state` (iteration, env_steps,
    episodes) and `trainer.folder.path`. Callbacks are not part of a checkpoint.
    """

    def on_training_start(self, trainer: Run) -> None:
        """Called once, before the first evaluation."""

    def on_iteration_start(self, trainer: Run) -> bool | None:
        """Called before the episodes of an iteration are played."""

    def on_rollout_end(self, trainer: Run, trajectories: Sequence[Trajectory]) -> bool | None:
        """Called with the trajectories that the policy played in this iteration."""

    def on_update_end(self, trainer: Run, metrics: Mapping[str, float]) -> bool | None:
        """Called after the update with the scalars of the iteration, as in metrics.jsonl."""

    def on_evaluation_end(self, trainer: Run, report: Report) -> bool | None:
        """Called after an evaluation on held-out tasks."""

    def on_training_end(self, trainer: Run) -> None:
        """Called once, after the last checkpoint, and not after an error or a signal."""


class CallbackList:
    """Several callbacks, called in order.

    Args:
        callbacks: the callbacks.

    Attributes:
        stopped: whether a callback has asked training to stop.
    """

    def __init__(self, callbacks: Iterable[Callback]):
        if isinstance(callbacks, Callback):
            raise TypeError("callbacks is a sequence: write callbacks=[...] around a single one.")
        self.callbacks = list(callbacks)
        self.stopped = False
        for callback in self.callbacks:
            if not isinstance(callback, Callback):
                raise TypeError(
                    f"A callback is an instance of agentgym.trainers.Callback, got {callback!r:.80}"
                    f" ({type(callback).__name__})."
                )

    def call(self, event: str, *args: Any) -> None:
        """Calls a method of every callback, by its name."""
        for callback in self.callbacks:
            if getattr(callback, event)(*args) is False:
                self.stopped = True
