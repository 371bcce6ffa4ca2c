"""Advantage alignment: self-play that learns to cooperate in social dilemmas, and not be exploited.

"Advantage Alignment Algorithms" (arXiv 2406.14662) and "Learning Robust Social Strategies with
Large Language Models" (arXiv 2511.19405). An agent that considers how its opponents learn adds
their advantages to its own, weighted by its own advantages in the past:

    A'_i(t) = A_i(t) + beta gamma [sum_{k < t} gamma^(t - k) A_i(k)] sum_{j != i} A_j(t).

As in the second paper, there is no critic: A_i(t) is the return from turn t on minus the mean of
the group's other episodes, which begin in the same state. With `beta 0`, agents are independent
learners.

Kept: the formula, the baseline without the episode itself, the clipped ratio (proximal advantage
alignment), and the division of the sum by 1 + t (an option of the second paper's code, `no-average`
turns it off). Changed: the first paper's code divides by t and leaves out the discounts, games may
have more than two agents, and ratios are per token. In a game of alternating turns, the opponents
do nothing in an agent's turn, and their advantages are those of its action for them. Play it with
`opponents mirror`: against scripted opponents, whose advantages are not known, it equals
independent learning (`credit/alignment` 0).
"""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit.alignment import AdvantageAlignment
from agentgym.trainers.settings import (
    Fraction,
    GroupRolloutConfig,
    LossConfig,
    NonNegative,
    RolloutConfig,
    defaults,
)
from agentgym.trainers.settings.kinds import RewardedConfig


@dataclass
class Config(RewardedConfig):
    """Settings of advantage alignment."""

    rollout: RolloutConfig = defaults(GroupRolloutConfig)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none")
    beta: NonNegative = 1.0
    """Weight of the opponents' advantages."""
    gamma: Fraction = 0.96
    """Discount between turns of the environment."""
    average: bool = True
    """Divide the sum of past advantages by 1 + t in turn t."""


def build(config: Config) -> Algorithm:
    """Returns the parts of advantage alignment."""
    return Algorithm(PolicyGradient(AdvantageAlignment(config.beta, config.gamma, config.average)))
