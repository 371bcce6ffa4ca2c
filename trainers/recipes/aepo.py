"""AEPO: branching rollouts on an entropy budget, the successor of ARPO.

"Agentic Entropy-Balanced Policy Optimization" (Dong et al., arXiv 2510.14545). Groups whose
entropy rises after the first turn get more branches, and each branch of an episode makes the next
one there less likely, so a single uncertain episode does not use up the budget.

Kept: both balances. Changed: a group gets 2 branches sigmoid(4 (H_max - H_0)) branches. The
authors' clipping that keeps the gradient of uncertain tokens is left out. `clip_high` and
`entropy_floor` serve that purpose. Branch points are chosen after all roots are finished.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit import group
from agentgym.trainers.hooks.branching import Branching
from agentgym.trainers.settings import (
    GroupRolloutConfig,
    LossConfig,
    NonNegative,
    Positive,
    RolloutConfig,
    defaults,
)
from agentgym.trainers.trainer import Algorithm


@dataclass
class Config(TrainConfig):
    """Settings of AEPO."""

    rollout: RolloutConfig = defaults(GroupRolloutConfig)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none", clip_high=0.28)
    scale: bool = True
    """Divide by the group's standard deviation."""
    outcome: Literal["return", "success"] = "return"
    """Compared outcome: the return, or 1 for success and 0 otherwise."""
    branches: Positive = 4
    """Branches per group, besides its `group_size` roots."""
    alpha: NonNegative = 0.2
    """Increase of the branching probability per unit of entropy rise."""
    beta: NonNegative = 0.5
    """Probability of a branch at a turn as uncertain as the first."""
    adaptive: bool = True
    """Allocate branches by the entropy rise of a group and spread them over its roots. If off, as
    in `arpo_entropy`."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        self.check_outcome(self.outcome)


def build(config: Config) -> Algorithm:
    """Returns the parts of AEPO."""
    return Algorithm(
        credit=group.GroupBaseline(scale=config.scale, outcome=config.outcome),
        hooks=lambda trainer: Branching(
            trainer,
            branches=config.branches,
            alpha=config.alpha,
            beta=config.beta,
            adaptive=config.adaptive,
        ),
    )
