"""MC: offline Monte-Carlo values of tokens that steer decoding.

A baseline of "LMRL Gym: Benchmarks for Multi-Turn Reinforcement Learning with Language Models"
(arXiv 2311.18232). A head on the policy's hidden states learns Q(s, w) of every token, s = (o,
w_<j), by regression on the discounted returns of a fixed data set, with a conservative term that
keeps Q of unseen tokens low:

    Q(s_j, w_j) <- sum_k gamma^k r_{t+k}

The model itself is trained by behaviour cloning of the data. While decoding, beta Q is added to
every logit. Without bootstrapping it cannot combine the good parts of different episodes, unlike
`ilql`. The policy folder holds the heads, and `agentgym eval` decodes with them.

Kept: Monte-Carlo targets, the conservative term, perturbed decoding. Changed: Q is the minimum of
two heads with the same targets, as in `ilql`. A value head of the same targets is subtracted, which
changes no probability. Heads and model are trained together, without a discount inside an action.
A truncated episode has no return after its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from agentgym.trainers.algorithm import Algorithm
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit.scan import discounted_returns
from agentgym.trainers.hooks.dataset import DatasetConfig
from agentgym.trainers.hooks.token_q import (
    Places,
    TokenQConfig,
    TokenQHooks,
    check_steered,
    chosen_q,
)
from agentgym.trainers.settings import Fraction, LossConfig, OptimisationConfig, defaults

if TYPE_CHECKING:
    from torch import Tensor

    from agentgym.trainers.trainer import Trainer


@dataclass
class Config(TrainConfig):
    """Settings of Monte-Carlo values."""

    dataset: DatasetConfig = defaults(DatasetConfig)
    optimisation: OptimisationConfig = defaults(OptimisationConfig, epochs=1)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none", ratio="none")
    q: TokenQConfig = defaults(TokenQConfig)
    gamma: Fraction = 0.99
    """Discount between turns (none inside an action)."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        check_steered(self, self.dataset)

    @property
    def foreign_actions(self) -> bool:
        """True: the data need not be the policy's own."""
        return True


class MonteCarloQ(TokenQHooks):
    """Fits Q and V to the returns of the data set.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    def __init__(self, trainer: Trainer, config: Config):
        super().__init__(trainer, config.dataset, config.q, tau=1.0)
        self.gamma = config.gamma

    def losses(self, places: Places) -> tuple[Tensor, Tensor]:
        """Returns the losses of Q and of V."""
        batch = places.batch
        returns = discounted_returns(batch.rewards, batch.turn_offsets, self.gamma)
        wanted = torch.from_numpy(returns[batch.token_turn[places.index]]).to(places.v)
        error = chosen_q(places.q, places.tokens) - wanted
        return 0.5 * error.square().mean(), 0.5 * (places.v - wanted).square().mean()


def build(config: Config) -> Algorithm:
    """Returns the parts of Monte-Carlo values."""
    return Algorithm(hooks=lambda trainer: MonteCarloQ(trainer, config), trains_policy=True)
