"""MAGRPO: joint returns of a team relative to its group, turn by turn, without a critic.

"LLM Collaboration With Multi-Agent Reinforcement Learning" (arXiv 2508.04652). The episodes of a
group begin in the same state, and in turn t of episode g all agents of the team share

    A_t = R_t - mean over the group of R_t,    R_t = r_t + gamma R_{t+1}

with the reward r of the team, the mean over its agents. There is no standard deviation.

Kept: the joint return, the baseline for each turn. The joint actions are the authors' `aligned`
ones: the g-th actions of all agents are played together. Changed: episodes of a group are
independent, where the authors' code plays a tree with a branch for every joint action in every
turn (`at_grpo` compares the actions of one state). gamma is 1 (their code: 0.9), groups have 8
episodes (theirs: 4), ratios are clipped (theirs: one step per batch, without ratios), and all
agents share one policy. In a turn that only some episodes of the group reach, these are compared.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit.joint import JointReturns
from agentgym.trainers.settings import (
    Fraction,
    GroupRolloutConfig,
    LossConfig,
    RolloutConfig,
    defaults,
)
from agentgym.trainers.trainer import Algorithm


@dataclass
class Config(TrainConfig):
    """Settings of MAGRPO."""

    rollout: RolloutConfig = defaults(GroupRolloutConfig)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none")
    gamma: Fraction = 1.0
    """Discount between turns of the environment."""
    scale: bool = False
    """Divide by the group's standard deviation."""

    @property
    def team_credit(self) -> bool:
        """True: agents are credited with the team's return."""
        return True


def build(config: Config) -> Algorithm:
    """Returns the parts of MAGRPO."""
    return Algorithm(credit=JointReturns(config.gamma, config.scale))
