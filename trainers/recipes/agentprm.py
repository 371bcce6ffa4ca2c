"""AgentPRM: a process reward model of Monte-Carlo turn values (Choudhury, arXiv 2502.10325).

"Process Reward Models for LLM Agents: Practical Framework and Directions". A model Q(s, a) is
regressed on the mean discounted outcome of all rollouts of a group that took the same action in the
same state. An action's credit is how much its Q improves on that of the action before, which is
what the state it was taken in promised.

Kept: the targets, gamma = 0.95, groups of 16, iterating. Changed: outcomes are discounted by the
distance to the *end* (the authors' code counts from the start); the policy is updated by the
clipped surrogate instead of online DPO.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import torch
from agentgym.trainers.critics.turn_model import Loss, TurnJudge
from torch import Tensor

from agentgym.errors import ConfigError
from agentgym.evaluation.report import Report
from agentgym.trainers.config import Normalize
from agentgym.trainers.credit.turn_rewards import TurnReward, monte_carlo_values, value_gains
from agentgym.trainers.policy_agent.agent import PolicyAgent
from agentgym.trainers.policy_agent.best_of import BestOf
from agentgym.trainers.recipes import grpo
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.trajectory import Batch
from agentgym.trainers.update.learner import Reading
from agentgym.trainers.update.losses import Sum


@dataclass
class Config(grpo.GroupConfig):
    """Settings of AgentPRM."""

    group_size: int = 16
    """Episodes with the same start; at least 2."""
    normalize_advantages: Normalize = "batch"
    """Bring advantages to mean 0 and deviation 1: over the round, each task, agent or group."""
    gamma: float = 0.95
    """Discount of the outcome for each turn between an action and the end."""
    model_lr: float = 1e-3
    """Learning rate of the process reward model."""
    model_epochs: int = 2
    """Passes of the process reward model over a round."""
    best_of: int = 1
    """Answers drawn a turn in evaluations, of which the model's favourite is said."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if self.best_of < 1:
            raise ConfigError(f"best_of must be at least 1, got {self.best_of}.")
        if not self.gamma:
            raise ConfigError("gamma must be above 0: gains are divided by it.")


class ProcessReward(TurnJudge):
    """Rewards of turns as gains of their predicted values."""

    def relabel(
        self, batch: Batch, reading: Reading | None, iteration: int, rng: np.random.Generator
    ) -> Batch:
        """Fits the model to the round; rewards turns by what they gained."""
        gamma = self.config.gamma
        values = monte_carlo_values(batch, gamma)
        error = self.model.fit(batch, turn_loss(values), rng)
        predicted = self.model.predict(batch)
        spread = float(np.var(values))
        explained = 1 - float(np.var(values - predicted)) / spread if spread > 1e-12 else 0.0
        self.metrics = {"process_loss": error, "process_explained_variance": explained}
        return value_gains(batch, predicted, gamma)

    def agent(self, policy: PolicyAgent) -> PolicyAgent:
        """Returns the policy that says the best of several answers."""
        best_of = self.config.best_of
        return BestOf(policy, self.model, best_of) if best_of > 1 else policy


def turn_loss(targets: np.ndarray) -> Loss:
    """Half the squared error of every turn against targets [M], for `TurnModel.fit`."""
    wanted = torch.from_numpy(np.asarray(targets, np.float32))

    def loss(numbers: Tensor, turn: Tensor) -> Sum:
        error = numbers - wanted.to(numbers.device)[turn]
        return Sum(0.5 * error.square().sum(), error.new_tensor(float(len(error))))

    return loss


def main(config: Config) -> list[Report]:
    """Trains a policy with a process reward model; returns its evaluations."""
    return Trainer(
        "agentprm",
        config,
        credit=TurnReward(),
        experience=lambda trainer: ProcessReward(trainer, config),
    ).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("agentprm", sys.argv[1:]))
