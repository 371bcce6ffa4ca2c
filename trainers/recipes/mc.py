"""MC: offline, advantage-weighted regression on Monte-Carlo returns.

A baseline of "LMRL Gym: Benchmarks for Multi-Turn Reinforcement Learning with Language Models"
(arXiv 2311.18232). A token critic is regressed on the discounted returns of a fixed data set.
Actions that exceed its prediction are cloned with a larger weight ("Advantage-Weighted
Regression: Simple and Scalable Off-Policy Reinforcement Learning", arXiv 1910.00177). Without
bootstrapping it cannot combine the good parts of different episodes.

Kept: Monte-Carlo targets. Changed: the policy is extracted by weighted behaviour cloning instead of
adding the critic's values to its logits while decoding, so the result is an ordinary policy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit import two_clock
from agentgym.trainers.credit.turn_rewards import weights_of
from agentgym.trainers.critics.heads import TokenValueHead, value_head
from agentgym.trainers.hooks.dataset import DataSet, DatasetConfig, check_offline
from agentgym.trainers.settings import (
    Fraction,
    LossConfig,
    NonNegative,
    OptimisationConfig,
    defaults,
)
from agentgym.trainers.trainer import Algorithm
from agentgym.trainers.trajectory import Batch, Credit, Values


@dataclass
class Config(TrainConfig):
    """Settings of Monte-Carlo advantage weighting."""

    dataset: DatasetConfig = defaults(DatasetConfig)
    optimisation: OptimisationConfig = defaults(OptimisationConfig, epochs=1)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none")
    gamma: Fraction = 0.99
    """Discount between turns (none inside an action)."""
    beta: NonNegative = 5.0
    """Inverse temperature of the weights exp(beta A)."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        check_offline(self, self.dataset)

    @property
    def recompute_logprobs(self) -> bool:
        """True: the data need not be the policy's own."""
        return True


@dataclass(frozen=True)
class MonteCarloWeight:
    """min(exp(beta (G - V)), 20) per token, with G as the critic's target.

    Attributes:
        gamma: discount between turns.
        beta: inverse temperature of the weights.
    """

    gamma: float = 0.99
    beta: float = 5.0

    def __call__(self, batch: Batch, values: Values | None) -> Credit:
        """Returns the weights and the targets of a token critic."""
        credit = two_clock.poad(self.gamma, 1.0)(batch, values)
        return replace(credit, advantages=weights_of(credit.advantages, self.beta))


def build(config: Config) -> Algorithm:
    """Returns the parts of Monte-Carlo advantage weighting."""
    return Algorithm(
        credit=MonteCarloWeight(config.gamma, config.beta),
        critic=value_head(TokenValueHead, config),
        hooks=lambda trainer: DataSet(trainer, config.dataset),
    )
