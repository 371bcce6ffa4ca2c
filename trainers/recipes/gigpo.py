"""GiGPO: group-relative credit for episodes and for turns that share a state.

"Group-in-Group Policy Optimization for LLM Agent Training" (Feng et al., NeurIPS 2025, arXiv
2505.10978). No critic. An episode is compared with its group, as in GRPO. Each of its turns is
also compared with all turns that the group took in the same state. The advantage is the sum of
both, A_E + omega A_S.

Kept: both comparisons, the discount of 0.95, groups of 8, the KL penalty of 0.01 to the policy
before RL, the division by the standard deviation as in the authors' scripts (their function's
default does not divide). Changed: an episode counts once in the statistics of its group, as in the
paper, and not once per turn as in its code (`statistics`). States are the same if their keys are
(`info["state_key"]`). With `anchor = "observation"`, their texts decide, as in the paper, which
merge different states or split one in many environments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit import group
from agentgym.trainers.credit.group import Anchor
from agentgym.trainers.settings import (
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
    """Settings of GiGPO."""

    lacks: ClassVar[tuple[str, ...]] = (SHAPING,)

    rollout: RolloutConfig = defaults(GroupRolloutConfig)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none", kl_coef=0.01)
    gamma: Fraction = 0.95
    """Discount of the return that follows a turn."""
    omega: NonNegative = 1.0
    """Weight of the turn-level comparison."""
    scale: bool = True
    """Divide by the standard deviation."""
    statistics: Literal["trajectories", "steps"] = "trajectories"
    """Unit of the episode-level statistics: each trajectory, or each of its steps, counts once."""
    anchor: Anchor = "state"
    """Turns that are compared: those in the same state, by `info["state_key"]`, or those before
    which the agent read the same observation, feedback included, as in the paper."""


def build(config: Config) -> Algorithm:
    """Returns the parts of GiGPO."""
    return Algorithm(
        PolicyGradient(
            group.GiGPO(config.gamma, config.omega, config.scale, config.statistics, config.anchor)
        ),
        outcomes="group",
    )
