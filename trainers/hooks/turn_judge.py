"""Learned turn rewards: hooks around a `ValueModel` of actions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.trainers.critics.value_model import Loss, action_model, squared_error
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.policy_agent.agent import policy_agent
from agentgym.trainers.policy_agent.judge import Judge
from agentgym.trainers.system.checkpoint import replace_folder

if TYPE_CHECKING:
    from torch import nn

    from agentgym.trainers.hooks.run import Run


class TurnJudge(RecipeHooks):
    """Keeps a model of the values of actions that starts from the policy.

    Args:
        trainer: the trainer of the policy.
        lr: learning rate of the model.
        epochs: epochs of the model per iteration.
        loss: the loss of the model.

    Attributes:
        whole: whether the model predicts the return of the whole episode, see `Judge`.
    """

    whole = False

    def __init__(self, trainer: Run, *, lr: float, epochs: int, loss: Loss = squared_error):
        super().__init__()
        self.trainer = trainer
        self.model = action_model(
            trainer.policy,
            seed=trainer.config.run.seed,
            lr=lr,
            epochs=epochs,
            max_grad_norm=trainer.config.optimisation.max_grad_norm,
            loss=loss,
        )

    def modules(self) -> tuple[nn.Module, ...]:
        """Returns the model."""
        return (self.model,)

    def publish(self, folder: Path) -> None:
        """Writes the model to `folder/judge`, as a `Judge` of any agent's actions."""
        reader = policy_agent(self.trainer.config, self.model.trunk, "judge")
        replace_folder(folder / "judge", Judge(self.model, reader, whole=self.whole).save)

    def state_dict(self) -> dict[str, Any]:
        """Returns the model and its optimiser."""
        return self.model.states()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        self.model.restore(state)
