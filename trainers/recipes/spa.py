"""SPA: a model splits the final reward into the contributions of the turns (arXiv 2505.20732).

"SPA-RL: Reinforcing LLM Agents via Stepwise Progress Attribution". A progress model is trained so
that its numbers about the turns of an episode add up to the episode's return; these numbers, plus a
bonus for actions that the environment understood, are the rewards of turn-level PPO.

Kept: the sum as the model's only supervision, the bonus for grounded actions. Changed: the model
reads tokens (the authors' is a linear layer on logits), it is trained as the policy changes instead
of once, and what it misses is added to the last turn, so that rewards add up to the return exactly.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import torch
from agentgym.trainers.critics.turn_model import TurnJudge
from torch import Tensor

from agentgym.evaluation.report import Report
from agentgym.trainers.credit import two_clock
from agentgym.trainers.credit.turn_rewards import attribute_progress
from agentgym.trainers.critics.heads import TurnValueHead, value_head
from agentgym.trainers.recipes import turn
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.trajectory import Batch
from agentgym.trainers.update.learner import Reading
from agentgym.trainers.update.losses import Sum
from agentgym.trainers.update.offline_losses import span_sums


@dataclass
class Config(turn.Config):
    """Settings of SPA."""

    model_lr: float = 1e-3
    """Learning rate of the progress model."""
    model_epochs: int = 2
    """Passes of the progress model over a round."""
    valid_bonus: float = 0.0
    """Reward of an action that the environment understood (the paper: 0.5). Where nearly all are,
    as with constrained actions, it would pay for long episodes."""


class Progress(TurnJudge):
    """Rewards of turns as their contributions to the return."""

    def relabel(
        self, batch: Batch, reading: Reading | None, iteration: int, rng: np.random.Generator
    ) -> Batch:
        """Fits the model to the round and returns the batch with its contributions as rewards."""
        error = self.model.fit(batch, sum_loss(batch), rng)
        contributions = self.model.predict(batch)
        totals = np.add.reduceat(batch.rewards, batch.turn_offsets[:-1])
        predicted = np.add.reduceat(contributions, batch.turn_offsets[:-1])
        self.metrics = {
            "progress_loss": error,
            "progress_error": float(np.abs(predicted - totals).mean()),
        }
        return attribute_progress(batch, contributions, valid_bonus=self.config.valid_bonus)


def sum_loss(batch: Batch):
    """Half the squared error of the sums over trajectories, as a loss for `TurnModel.fit`."""
    owner = torch.from_numpy(batch.turn_trajectory)
    totals = np.add.reduceat(batch.rewards, batch.turn_offsets[:-1])
    targets = torch.from_numpy(totals.astype(np.float32))

    def loss(numbers: Tensor, turn: Tensor) -> Sum:
        trajectory, index = torch.unique(owner.to(turn.device)[turn], return_inverse=True)
        sums = span_sums(numbers, index, len(trajectory))
        error = sums - targets.to(sums.device)[trajectory]
        return Sum(0.5 * error.square().sum(), error.new_tensor(float(len(error))))

    return loss


def main(config: Config) -> list[Report]:
    """Trains a policy with SPA; returns its evaluations."""
    return Trainer(
        "spa",
        config,
        credit=two_clock.turn(config.gamma, config.lambda_turn),
        critic=value_head(TurnValueHead, config),
        experience=lambda trainer: Progress(trainer, config),
    ).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("spa", sys.argv[1:]))
