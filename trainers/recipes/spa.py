"""SPA: turn rewards from a model that splits the return into contributions.

"SPA-RL: Reinforcing LLM Agents via Stepwise Progress Attribution" (arXiv 2505.20732). A progress
model is trained so that its predictions for the turns of an episode add up to the return. These
predictions, plus a bonus for valid actions, are the rewards of turn-level PPO.

Kept: the sum as the model's only supervision. Changed: the bonus is 0 by default (`valid_bonus`,
theirs: 0.5). The model takes tokens (the authors' is a linear layer on logits) and is trained along
with the policy instead of once. Its error is added to the last turn, so the rewards add up to the
return exactly. GAE is over turns (theirs: over tokens, with a KL penalty in the reward, and their
code multiplies the reward of a turn by the number of turns after it).
Advantages that vary more than returns lower the learning rate (`lr_by_reliability`), so that
contributions to equal returns, which are its errors, change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike

from agentgym.trainers.algorithm import Algorithm, PolicyGradient, value_head
from agentgym.trainers.credit import two_clock
from agentgym.trainers.credit.turn_rewards import attribute_progress, outcome_returns
from agentgym.trainers.data.batch import Batch, Credit, Values
from agentgym.trainers.hooks.turn_judge import TurnJudge
from agentgym.trainers.settings import Fraction, LossConfig, NonNegative, Positive, defaults
from agentgym.trainers.settings.kinds import ActorCriticConfig
from agentgym.trainers.update.losses import Sum
from agentgym.trainers.update.offline_losses import span_sums

if TYPE_CHECKING:
    from torch import Tensor

    from agentgym.trainers.hooks.run import Run
    from agentgym.trainers.update.learner import ForwardPass


@dataclass
class Config(ActorCriticConfig):
    """Settings of SPA."""

    loss: LossConfig = defaults(LossConfig, ratio="turn")
    gamma: Fraction = 0.99
    """Discount between turns."""
    lambda_turn: Fraction = 0.95
    """GAE lambda between turns."""
    model_lr: NonNegative = 1e-3
    """Learning rate of the progress model."""
    model_epochs: Positive = 2
    """Epochs of the progress model per iteration."""
    valid_bonus: float = 0.0
    """Reward of a valid action (the paper: 0.5). If nearly all actions are valid, as with
    under a constraint, it rewards long episodes."""


class ProgressEstimator(TurnJudge):
    """Rewards turns with their contributions to the return.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    def __init__(self, trainer: Run, config: Config):
        epochs = config.model_epochs
        super().__init__(trainer, lr=config.model_lr, epochs=epochs, loss=error_of_sums)
        self.valid_bonus = config.valid_bonus

    def on_rewards(
        self, batch: Batch, forward: ForwardPass | None, iteration: int, rng: np.random.Generator
    ) -> Batch:
        """Fits the model to the batch and returns the batch with contributions as rewards."""
        totals = np.add.reduceat(batch.rewards, batch.turn_offsets[:-1])
        error = self.model.fit(batch, totals, rng)[-1]
        contributions = self.model.predict(batch)
        predicted = np.add.reduceat(contributions, batch.turn_offsets[:-1])
        self.metrics = {
            "progress_loss": error,
            "progress_error": float(np.abs(predicted - totals).mean()),
        }
        return attribute_progress(batch, contributions, valid_bonus=self.valid_bonus)


@dataclass(frozen=True)
class ProgressGAE(two_clock.TwoClockGAE):
    """GAE over contributions, whose spread is compared to that of whole returns."""

    def __call__(
        self, batch: Batch, values: Values | None, token_rewards: ArrayLike | None = None
    ) -> Credit:
        """Returns advantages and value targets: see `TwoClockGAE`."""
        credit = super().__call__(batch, values, token_rewards)
        return replace(credit, returns=outcome_returns(batch, self.gamma_turn))


def error_of_sums(values: Tensor, targets: Tensor, index: Tensor, batch: Batch) -> Sum:
    """Returns half the squared error of sums over trajectories, with their returns as targets."""
    owner = torch.from_numpy(batch.turn_trajectory).to(index.device)[index]
    trajectory, place = torch.unique(owner, return_inverse=True)
    error = span_sums(values, place, len(trajectory)) - targets[trajectory]
    return Sum(0.5 * error.square().sum(), error.new_tensor(float(len(error))))


def build(config: Config) -> Algorithm:
    """Returns the parts of SPA."""
    return Algorithm(
        PolicyGradient(
            ProgressGAE(gamma_turn=config.gamma, lambda_turn=config.lambda_turn, reads="turns"),
            critic=value_head("turns", config),
        ),
        seats="shared",
        hooks=lambda trainer: ProgressEstimator(trainer, config),
    )
