"""Dr. MAS: group-relative returns with a mean and standard deviation of each agent's own.

`grpo` with these defaults: statistics turns, and groups by agent.

"Dr. MAS: Stable Reinforcement Learning for Multi-Agent LLM Systems" (arXiv 2602.08847). GRPO for
several agents. A group holds the episodes of one agent k that start in the same state:

    A_i = (R_i - mu_k) / (sigma_k + 1e-6).

With statistics over all agents, an agent whose rewards are on another scale has gradients that are
too large by (sigma_k^2 + (mu_k - mu)^2) / sigma^2.

Kept: the credit, with the correction n - 1 in sigma, groups of 8, no KL penalty, no entropy bonus.
In the authors' code an agent that acts five times in an episode counts five times in mu_k and
sigma_k (`statistics` "turns"). With `no-by-agent`, mean and standard deviation are those of all
agents, the paper's baseline. Changed: all agents share the weights and the learning rate unless
`roles` is set, and invalid actions cost `env_kwargs invalid_penalty=0.1` only if it is set. Their
learning rate of 1e-6 is the default for loaded models only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit import group
from agentgym.trainers.settings import GroupRolloutConfig, LossConfig, RolloutConfig, defaults
from agentgym.trainers.settings.kinds import SHAPING, RewardedConfig


@dataclass
class Config(RewardedConfig):
    """Settings of Dr. MAS."""

    lacks: ClassVar[tuple[str, ...]] = (SHAPING,)

    rollout: RolloutConfig = defaults(GroupRolloutConfig)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none")
    statistics: Literal["turns", "trajectories"] = "turns"
    """Weight of an episode in mean and standard deviation: its number of turns, or 1."""
    by_agent: bool = True
    """Compare an episode with the same agent's episodes only. Otherwise with those of all agents,
    for comparison."""


def build(config: Config) -> Algorithm:
    """Returns the parts of Dr. MAS."""
    credit = group.GroupBaseline(scale=True, statistics=config.statistics, by_agent=config.by_agent)
    return Algorithm(PolicyGradient(credit), outcomes="own" if config.by_agent else "group")
