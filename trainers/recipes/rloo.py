"""RLOO: the return of an episode minus the mean return of the rest of its group.

`grpo` with these defaults: scale False, and means that leave out the episode itself.

"Back to Basics: Revisiting REINFORCE Style Optimization for Learning from Human Feedback in LLMs"
(Ahmadian et al., arXiv 2402.14740). No critic. The leave-one-out baseline is unbiased:

    A_i = R_i - sum_{j != i} R_j / (n - 1)

Kept: the credit. Changed: a clipped ratio per token (the update of LOOP, arXiv 2502.01600), and no
KL penalty in the reward (`--kl-in reward --kl-coef ...`).
"""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit import group
from agentgym.trainers.settings import LossConfig, defaults
from agentgym.trainers.settings.kinds import GroupConfig


@dataclass
class Config(GroupConfig):
    """Settings of RLOO."""

    loss: LossConfig = defaults(LossConfig, normalize_advantages="none")
    scale: bool = False
    """Divide by the group's standard deviation."""


def build(config: Config) -> Algorithm:
    """Returns the parts of RLOO."""
    return Algorithm(
        PolicyGradient(
            group.GroupBaseline(leave_one_out=True, scale=config.scale, outcome=config.outcome)
        ),
        outcomes="group",
    )
