"""GAGPO: GAE between turns whose state values are mean returns of the group.

"GAGPO: Generalized Advantage Grouped Policy Optimization" (arXiv 2605.13217). No critic. The value
of a state is the mean of the returns that followed the group's visits to it. States are compared by
`info["state_key"]`. A turn in a state that was visited once has a value of its own return, and gets
credit through the turns after it only:

    V(s) = mean over visits of G_t
    A_t  = r_t + gamma V(s_{t+1}) - V(s_t) + gamma lambda A_{t+1}

With lambda = 1 it is the turn-level comparison of `gigpo` without the division by the standard
deviation. Below 1, the luck of the turns after t counts less. Rewards of every kind count, not
success alone.

Kept: these values, advantages standardised per group, a ratio per turn (the geometric mean over its
tokens), no comparison of whole episodes, the KL penalty to the policy before RL. Ours, since we do
not know the authors' numbers: gamma 0.95, and lambda 0.5, with which the gradient of a group is on
average closer to the exact one than with 0 or 0.95 in each of the three kinds of worlds of
`benchmarks/credit/graph_oracle.py`. The difference to 0 is within the intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit.graph import GAGPO
from agentgym.trainers.settings import (
    Fraction,
    GroupRolloutConfig,
    LossConfig,
    RolloutConfig,
    defaults,
)
from agentgym.trainers.settings.kinds import SHAPING, RewardedConfig


@dataclass
class Config(RewardedConfig):
    """Settings of GAGPO."""

    lacks: ClassVar[tuple[str, ...]] = (SHAPING,)

    rollout: RolloutConfig = defaults(GroupRolloutConfig)
    loss: LossConfig = defaults(
        LossConfig, ratio="turn", normalize_advantages="group", kl_coef=0.01
    )
    gamma: Fraction = 0.95
    """Discount between turns."""
    lambda_turn: Fraction = 0.5
    """GAE lambda between turns."""


def build(config: Config) -> Algorithm:
    """Returns the parts of GAGPO."""
    return Algorithm(PolicyGradient(GAGPO(config.gamma, config.lambda_turn)), outcomes="group")
