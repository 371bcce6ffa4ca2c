"""ReMA: group-relative returns of each role, with a ratio per turn, for a thinker and a reasoner.

`grpo` with these defaults: ratio turn, aggregation turn, dual_clip 3, and groups by agent.

"ReMA: Learning to Meta-think for LLMs with Multi-Agent Reinforcement Learning" (arXiv 2503.09501).
A meta-thinker plans and a reasoner follows the plan, for one or several turns, and both get the
reward of the result. GRPO for each of the roles k, with one ratio per turn t:

    A_i = (R_i - mu_k) / (sigma_k + 1e-6),
    rho_t = exp(mean over the tokens of turn t of log pi / pi_old)

clipped as in PPO, with a dual clip of 3. The turn is clipped as a whole, because a turn of a
conversation is one action.

The team is `env_kwargs roles=thinker-reasoner`, for example of `Team-Countdown-v0`. The authors
train two models in turn (`roles separate alternate 10`), or one with both roles (the default).

Kept: the credit, the ratio, the dual clip, clip 0.2, no KL penalty, no entropy bonus. Changed:
groups hold 8 episodes (theirs: 16), log-ratios are not capped at 3 before they are clipped, and the
loss is a mean over the turns of the rollout (theirs: over those of an episode, then over episodes).
Rewards are those of the environment (theirs: none for an unfinished conversation).
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
    """Settings of ReMA."""

    lacks: ClassVar[tuple[str, ...]] = (SHAPING,)

    rollout: RolloutConfig = defaults(GroupRolloutConfig)
    loss: LossConfig = defaults(
        LossConfig, normalize_advantages="none", ratio="turn", aggregation="turn", dual_clip=3.0
    )


def build(config: Config) -> Algorithm:
    """Returns the parts of ReMA."""
    return Algorithm(PolicyGradient(group.grpo()))
