"""Learned turn rewards: hooks around a `TurnModel`."""

from __future__ import annotations

from typing import Any

from torch import nn

from agentgym.trainers.critics.turn_model import TurnModel
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.trainer import Trainer


class TurnJudge(RecipeHooks):
    """Keeps a turn model that starts from the policy.

    Args:
        trainer: the trainer of the policy.
        lr: learning rate of the model.
        epochs: epochs of the model per iteration.
    """

    one_policy = True

    def __init__(self, trainer: Trainer, *, lr: float, epochs: int):
        super().__init__()
        self.model = TurnModel(trainer.policy, lr=lr, epochs=epochs, seed=trainer.config.run.seed)

    def modules(self) -> tuple[nn.Module, ...]:
        """Returns the turn model."""
        return (self.model,)

    def state_dict(self) -> dict[str, Any]:
        """Returns the model and its optimiser."""
        return self.model.states()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        self.model.restore(state)
