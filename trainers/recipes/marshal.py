"""MARSHAL: the return-to-go of a turn minus the mean of its role, for self-play with turn rewards.

"MARSHAL: Incentivizing Multi-Agent Reasoning via Self-Play with Strategic LLMs" (arXiv 2510.15414).
Rewards are summed first and centred afterwards, over all turns that the same role p took in the
rollout:

    R_t = sum_{k >= t} r_k,    A_t = R_t - mean of R over the turns of role p.

All tokens of a turn share A_t. No critic. PPO with dual clip and a KL loss to the policy before RL.

Kept: the credit of the paper, clip 0.2, KL loss 0.2. Changed: the mean is over turns, where the
authors' code takes the mean of the different values, so that it does not matter to it how often a
role wins; rewards and advantages are not whitened over both roles (`normalize_advantages batch`
does the latter); roles are those of the game, of any number. Sampling is not truncated
(theirs: temperature 0.6, top_p 0.99, top_k 100), and an invalid action costs `env_kwargs
invalid_penalty=0.05` only if it is set.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit.group import members_of
from agentgym.trainers.credit.scan import discounted_returns
from agentgym.trainers.credit.two_clock import broadcast
from agentgym.trainers.data.batch import Batch, Credit, Values
from agentgym.trainers.settings import Fraction, LossConfig, defaults
from agentgym.trainers.settings.kinds import RewardedConfig


@dataclass
class Config(RewardedConfig):
    """Settings of MARSHAL."""

    loss: LossConfig = defaults(LossConfig, normalize_advantages="none", dual_clip=3.0, kl_coef=0.2)
    gamma: Fraction = 1.0
    """Discount between turns."""


@dataclass(frozen=True)
class RoleReturns:
    """The return-to-go of each turn minus its mean over the turns of the same role and game.

    Attributes:
        gamma: discount between turns.
    """

    gamma: float = 1.0

    def __call__(self, batch: Batch, values: Values | None = None) -> Credit:
        """Returns advantages. `values` are not used."""
        returns = discounted_returns(batch.rewards, batch.turn_offsets, self.gamma)
        roles = [(t.env_id, t.role) for t in batch.trajectories]
        numbers = {role: number for number, role in enumerate(dict.fromkeys(roles))}
        labels = np.array([numbers[role] for role in roles])[batch.turn_trajectory]
        centred = members_of(labels).compare(returns, scale=False, epsilon=0.0)
        return Credit(broadcast(centred, batch))


def build(config: Config) -> Algorithm:
    """Returns the parts of MARSHAL."""
    return Algorithm(PolicyGradient(RoleReturns(config.gamma)))
