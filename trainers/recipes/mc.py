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

from agentgym.trainers.algorithm import Algorithm, Imitation
from agentgym.trainers.credit.scan import discounted_returns
from agentgym.trainers.hooks.token_q import (
    Places,
    SteeredConfig,
    TokenQHooks,
    chosen_q,
)

if TYPE_CHECKING:
    from torch import Tensor

    from agentgym.trainers.hooks.run import Run


@dataclass
class Config(SteeredConfig):
    """Settings of Monte-Carlo values."""


class MonteCarloQ(TokenQHooks):
    """Fits Q and V to the returns of the data set.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    def __init__(self, trainer: Run, config: Config):
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
    return Algorithm(
        Imitation(steered=True), data="fixed", hooks=lambda trainer: MonteCarloQ(trainer, config)
    )
