"""G2PO: turns compared by the values of the states that they lead to, values from the group.

"Group-Graph Policy Optimization for Long-Horizon Agentic Reinforcement Learning" (arXiv
2606.22995). No critic. The value of a state is the mean over the group's visits to it of the
episode's return, discounted once for every turn that was left. A turn is compared with the group's
other turns in its state by the value of the next state, and with all turns of the group by the
gain in value:

    V(s) = mean over visits of gamma^(T - t) R(tau)
    A(t) = A_E + (V(s_{t+1}) - mean in the state) / F + (D_t - mean of the group) / F
    D_t  = V(s_{t+1}) - V(s_t)

A_E compares the episode with its group, as in GRPO. The gain is no TD error: it has neither reward
nor discount. So it is positive where a group of equal successes comes closer to the end.

Kept: all three comparisons, the discount of 0.95, the KL penalty of 0.01 to the policy before RL,
the division by the standard deviation as on ALFWorld (`scale = False`: as on WebShop). Changed: the
value of an end is the return of its episode (theirs: that of a success or 0), so that rewards of
every kind count. There is no penalty of an invalid action (theirs: a hundredth of a success), which
leaves the state, and so its value, as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit.graph import G2PO
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
    """Settings of G2PO."""

    lacks: ClassVar[tuple[str, ...]] = (SHAPING,)

    rollout: RolloutConfig = defaults(GroupRolloutConfig)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none", kl_coef=0.01)
    gamma: Fraction = 0.95
    """Discount of the return of an episode, for each turn that is left."""
    scale: bool = True
    """Divide by the standard deviation."""


def build(config: Config) -> Algorithm:
    """Returns the parts of G2PO."""
    return Algorithm(PolicyGradient(G2PO(config.gamma, config.scale)), outcomes="group")
