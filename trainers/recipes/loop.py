"""LOOP: leave-one-out returns with a tight clip per token and two epochs.

`rloo` with these defaults: group_size 6, episodes_per_iteration 96, clip 0.0909, clip_high 0.1.

"Reinforcement Learning for Long-Horizon Interactive LLM Agents" (arXiv 2502.01600). The baseline of
an episode is the mean return of the rest of its group: A_i = R_i - sum_{j != i} R_j / (n - 1).
There is no standard deviation, no critic and no reference. `ratio` selects the clipped quantity.
The paper finds tokens better than turns, and turns better than trajectories.

Kept: groups of 6, the clip to [1 / (1 + eps), 1 + eps] with eps = 0.1, two epochs. Changed: tokens
with a tiny advantage are not dropped. Their gradient is tiny.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit import group
from agentgym.trainers.settings import GroupRolloutConfig, LossConfig, RolloutConfig, defaults
from agentgym.trainers.settings.kinds import GroupConfig


@dataclass
class Config(GroupConfig):
    """Settings of LOOP."""

    rollout: RolloutConfig = defaults(GroupRolloutConfig, group_size=6, episodes_per_iteration=96)
    loss: LossConfig = defaults(
        LossConfig, normalize_advantages="none", clip=1 - 1 / 1.1, clip_high=0.1
    )
    scale: bool = False
    """Divide by the group's standard deviation."""


def build(config: Config) -> Algorithm:
    """Returns the parts of LOOP."""
    return Algorithm(
        PolicyGradient(
            group.GroupBaseline(leave_one_out=True, scale=config.scale, outcome=config.outcome)
        ),
        outcomes="group",
    )
