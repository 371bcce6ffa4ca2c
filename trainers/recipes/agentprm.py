"""AgentPRM: turn advantages from a process reward model of Monte-Carlo values.

"Process Reward Models for LLM Agents: Practical Framework and Directions" (Choudhury, arXiv
2502.10325). A model Q(s, a) is regressed on the mean discounted outcome of all rollouts of a group
that took the same action in the same state. The advantage of an action is the increase of Q over
the previous action, whose Q is the value of the state.

Kept: the targets, gamma = 0.95, groups of 16, iterated training. Changed: outcomes are discounted
by the distance to the *end* (the authors' code counts from the start). The policy is updated by the
clipped surrogate (the paper's method: online DPO).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Gt, Le

from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit.turn_rewards import monte_carlo_values, turn_credit, value_gains
from agentgym.trainers.hooks.turn_judge import TurnJudge
from agentgym.trainers.policy_agent.agent import PolicyAgent
from agentgym.trainers.policy_agent.best_of import BestOf
from agentgym.trainers.settings import (
    GroupRolloutConfig,
    NonNegative,
    Positive,
    RolloutConfig,
    defaults,
)
from agentgym.trainers.trainer import Algorithm, Trainer
from agentgym.trainers.trajectory import Batch, Credit
from agentgym.trainers.update.learner import ForwardPass


@dataclass
class Config(TrainConfig):
    """Settings of AgentPRM."""

    rollout: RolloutConfig = defaults(GroupRolloutConfig, group_size=16)
    gamma: Annotated[float, Gt(0.0), Le(1.0)] = 0.95
    """Discount of the outcome per turn between an action and the end."""
    model_lr: NonNegative = 1e-3
    """Learning rate of the process reward model."""
    model_epochs: Positive = 2
    """Epochs of the process reward model per iteration."""
    best_of: Positive = 1
    """Actions sampled per turn in evaluations, of which the one with the highest Q is played."""


class ProcessReward(TurnJudge):
    """Assigns the gains of predicted values as advantages.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    def __init__(self, trainer: Trainer, config: Config):
        super().__init__(trainer, lr=config.model_lr, epochs=config.model_epochs)
        self.gamma, self.best_of = config.gamma, config.best_of

    def credit(
        self, batch: Batch, forward: ForwardPass | None, iteration: int, rng: np.random.Generator
    ) -> Credit:
        """Fits the model to the batch and returns the gain of each turn."""
        values = monte_carlo_values(batch, self.gamma)
        error = self.model.fit(batch, values, rng)[-1]
        predicted = self.model.predict(batch)
        spread = float(np.var(values))
        explained = 1 - float(np.var(values - predicted)) / spread if spread > 1e-12 else 0.0
        self.metrics = {"process_loss": error, "process_explained_variance": explained}
        return turn_credit(value_gains(batch, predicted, self.gamma), batch)

    def agent(self, policy: PolicyAgent) -> PolicyAgent:
        """Returns the policy with best-of-N sampling."""
        return BestOf(policy, self.model, self.best_of) if self.best_of > 1 else policy


def build(config: Config) -> Algorithm:
    """Returns the parts of AgentPRM."""
    return Algorithm(hooks=lambda trainer: ProcessReward(trainer, config))
