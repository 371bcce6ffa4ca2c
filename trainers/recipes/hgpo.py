"""HGPO: turns compared in groups by the length of the history they share.

"Hierarchy-of-Groups Policy Optimization for Long-Horizon Agentic Tasks" (arXiv 2602.22817). Turns
taken in the same state are compared, as in GiGPO, at several levels: level k requires that the last
k states agree, and longer shared histories have a larger weight.

Kept: levels up to history + 1, weights proportional to (k + 1)^alpha. Changed: a level whose
advantage is 0 still counts (the authors' code drops it). States are the same if their keys are
(`anchor = "observation"`: if their texts are, as theirs). `episode_level` is the authors'
`base_group`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit import group
from agentgym.trainers.credit.group import Anchor
from agentgym.trainers.settings import (
    Count,
    Fraction,
    GroupRolloutConfig,
    LossConfig,
    NonNegative,
    RolloutConfig,
    defaults,
)
from agentgym.trainers.settings.kinds import SHAPING, RewardedConfig


@dataclass
class Config(RewardedConfig):
    """Settings of HGPO."""

    lacks: ClassVar[tuple[str, ...]] = (SHAPING,)

    rollout: RolloutConfig = defaults(GroupRolloutConfig)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none")
    scale: bool = True
    """Divide by the standard deviation."""
    gamma: Fraction = 0.95
    """Discount of the return that follows a turn."""
    history: Count = 2
    """Earlier states that a group may share."""
    alpha: NonNegative = 1.0
    """Exponent of the weights of longer shared histories."""
    episode_level: bool = False
    """Also compare episodes with their group."""
    anchor: Anchor = "state"
    """States that are the same: those with one `info["state_key"]`, or those in which the agent
    read the same observation, feedback included, as in the paper."""


def build(config: Config) -> Algorithm:
    """Returns the parts of HGPO."""
    return Algorithm(
        PolicyGradient(
            group.HGPO(
                config.history,
                config.alpha,
                config.gamma,
                config.scale,
                config.episode_level,
                config.anchor,
            )
        ),
        outcomes="group",
    )
