"""AEPO: branching rollouts on an entropy budget, the successor of ARPO.

"Agentic Entropy-Balanced Policy Optimization" (Dong et al., arXiv 2510.14545). Groups whose
entropy rises after the first turn get more branches, and each branch of an episode makes the next
one there less likely, so a single uncertain episode does not use up the budget.

The update favours uncertain tokens: the upper clip keeps their gradient (`clip_gradient`), and
their advantages are multiplied by 1 + entropy_weight * (H - mean H) / std H.

Kept: all four balances, and the order of play (see `arpo_entropy`). Changed: a group gets 2
branches sigmoid(4 (mean H_t - H_0)) branches besides its roots, instead of a share of a fixed
number of episodes. Every branch of an episode at the turns just before halves the probability of
the next one. `entropy_weight` and the factor 4 are ours.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.trainers.algorithm import Algorithm
from agentgym.trainers.config import GroupConfig
from agentgym.trainers.credit import group
from agentgym.trainers.hooks.branching import Branching
from agentgym.trainers.settings import (
    LossConfig,
    NonNegative,
    Positive,
    defaults,
)


@dataclass
class Config(GroupConfig):
    """Settings of AEPO."""

    loss: LossConfig = defaults(
        LossConfig, normalize_advantages="none", clip_high=0.28, clip_gradient=True
    )
    branches: Positive = 4
    """Branches per group, besides its `group_size` roots."""
    alpha: NonNegative = 0.2
    """Increase of the branching probability per unit of entropy rise."""
    beta: NonNegative = 0.5
    """Probability of a branch at a turn as uncertain as the first."""
    entropy_weight: NonNegative = 0.2
    """Increase of a token's advantage per standard deviation of its entropy."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        self.fixed("branches join a group after its roots", filter_groups=False)


def build(config: Config) -> Algorithm:
    """Returns the parts of AEPO."""
    return Algorithm(
        credit=group.GroupBaseline(scale=config.scale, outcome=config.outcome),
        hooks=lambda trainer: Branching(
            trainer,
            branches=config.branches,
            alpha=config.alpha,
            beta=config.beta,
            adaptive=True,
            entropy_weight=config.entropy_weight,
        ),
    )
