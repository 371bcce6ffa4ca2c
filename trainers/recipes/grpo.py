"""GRPO: the return of an episode relative to its group, without a critic.

"DeepSeekMath: Pushing the Limits of Mathematical Reasoning in Open Language Models" (arXiv
2402.03300, section 4.1). The `group_size` episodes of a group begin in the same state. All tokens
of an episode share its advantage A = (R - mean) / std, over the returns of the group.

With `--no-scale --aggregation constant` this is Dr. GRPO ("Understanding R1-Zero-Like Training: A
Critical Perspective", arXiv 2503.20783). Kept: the credit. Changed, both as in DAPO (arXiv
2503.14476): the loss is a mean over tokens (the paper: `--aggregation trajectory`), and there is
no KL penalty (the paper: `--kl-coef 0.04`).
"""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit import group
from agentgym.trainers.settings import LossConfig, defaults
from agentgym.trainers.settings.kinds import GroupConfig


@dataclass
class Config(GroupConfig):
    """Settings of GRPO."""

    loss: LossConfig = defaults(LossConfig, normalize_advantages="none")


def build(config: Config) -> Algorithm:
    """Returns the parts of GRPO."""
    return Algorithm(
        PolicyGradient(group.GroupBaseline(scale=config.scale, outcome=config.outcome)),
        outcomes="group",
    )
