"""P3O: pairwise PPO, differences of returns with a clipped ratio of whole episodes.

`rloo` with these defaults: ratio trajectory_product, aggregation trajectory.

"Pairwise Proximal Policy Optimization: Harnessing Relative Feedback for LLM Alignment" (Wu et al.,
arXiv 2310.00212). No critic. The gradient of a pair of episodes of one task is

    (R_1 - R_2) / 2 grad [log pi(tau_1) - log pi(tau_2)],

which a constant added to the returns of a task does not change. Over all pairs of a group, episode
i is weighed by sum_j (R_i - R_j), the leave-one-out advantage of RLOO up to a constant factor.
Ratios are those of whole episodes, the product over their tokens, and each is clipped.

Kept: the pairwise gradient, the ratio of trajectories with a separate clip for each. Changed: all
pairs of a group are used (the paper: one pair per prompt, `--group-size 2`), the KL penalty in the
reward is optional (`--kl-in reward --kl-coef ...`). Left out: the joint clip of a pair's ratios.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit import group
from agentgym.trainers.settings import GroupRolloutConfig, LossConfig, RolloutConfig, defaults
from agentgym.trainers.settings.kinds import SHAPING, RewardedConfig


@dataclass
class Config(RewardedConfig):
    """Settings of P3O."""

    lacks: ClassVar[tuple[str, ...]] = (SHAPING,)

    rollout: RolloutConfig = defaults(GroupRolloutConfig)
    loss: LossConfig = defaults(
        LossConfig,
        ratio="trajectory_product",
        aggregation="trajectory",
        normalize_advantages="none",
    )


def build(config: Config) -> Algorithm:
    """Returns the parts of P3O."""
    return Algorithm(PolicyGradient(group.rloo()), outcomes="group")
