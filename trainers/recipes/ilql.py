"""ILQL: offline token-level Q-learning whose values steer decoding.

"Offline RL for Natural Language Generation with Implicit Language Q Learning" (Snell et al., arXiv
2206.11871). Heads on the policy's hidden states learn twin Q(s, w) of every token and V(s), s = (o,
w_<j), by temporal differences over the tokens of a fixed data set:

    Q_k(s_j, w_j) <- V(s_{j+1}) inside an action,   r + gamma V(o') at its end
    V(s_j) <- the expectile tau of min_k Q'_k(s_j, w_j)

with a conservative term that keeps Q of unseen tokens low. The model itself is trained by
behaviour cloning of the data.
While decoding, beta (min Q' - V) is added to every logit. The policy folder holds the heads, and
`agentgym eval` decodes with them.

Kept: twin Q, target networks, expectile, the conservative term, heads and model trained together,
steered decoding. Changed: there is no discount inside an action.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import torch
from annotated_types import Gt, Lt
from numpy.typing import NDArray

from agentgym.trainers.algorithm import Algorithm, Imitation
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.hooks.token_q import (
    Int64,
    Places,
    SteeredConfig,
    TokenQHooks,
    chosen_q,
)
from agentgym.trainers.settings import EndConfig, Fraction, defaults
from agentgym.trainers.update.offline_losses import expectile_loss

if TYPE_CHECKING:
    from torch import Tensor

    from agentgym.trainers.hooks.run import Run


@dataclass
class Config(SteeredConfig):
    """Settings of ILQL."""

    ends: EndConfig = defaults(EndConfig)
    expectile: Annotated[float, Gt(0.0), Lt(1.0)] = 0.8
    """Expectile of Q that V follows. Towards 1 it approaches the best token of the data."""
    tau: Fraction = 0.1
    """Polyak coefficient of the target networks, updated at every step."""


class ImplicitQ(TokenQHooks):
    """Fits twin Q by temporal differences and V as their expectile.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    def __init__(self, trainer: Run, config: Config):
        super().__init__(trainer, config.dataset, config.q, config.tau)
        self.config = config

    def losses(self, places: Places) -> tuple[Tensor, Tensor]:
        """Returns the losses of Q and of V."""
        heads, v = self.heads, places.v
        with torch.no_grad():
            after = heads.v(places.last)
            target = self._targets(places.batch, places.index, v, after, places.owner)
            best = chosen_q(heads.q(places.hidden, target=True), places.tokens).min(0).values
        q_loss = 0.5 * (chosen_q(places.q, places.tokens) - target).square().mean()
        return q_loss, expectile_loss(best - v, self.config.expectile).mean()

    def _targets(
        self, batch: Batch, index: Int64, values: Tensor, after: Tensor, owner: Tensor
    ) -> Tensor:
        """Returns [k] the TD targets: V of the next token, or reward and V of the next turn.

        Args:
            batch: the trajectories.
            index: [k] indices of the tokens of whole trajectories.
            values: [k] V before each token.
            after: [b] V of the last observations.
            owner: [b] indices of their trajectories.
        """
        every = torch.zeros(batch.num_tokens + 1, device=values.device)
        every[torch.from_numpy(index).to(values.device)] = values
        future = torch.zeros(len(batch.trajectories), device=values.device)
        future[owner] = after
        turn = batch.token_turn[index]
        ends = index == batch.token_offsets[turn + 1] - 1
        trajectory = batch.turn_trajectory[turn]
        final = ends & (turn == batch.turn_offsets[trajectory + 1] - 1)

        def tensor(array: NDArray[Any]) -> Tensor:
            return torch.from_numpy(array).to(values.device)

        following = torch.where(tensor(final), future[tensor(trajectory)], every[tensor(index + 1)])
        discount = np.where(ends, self.config.gamma, 1.0) * ~(final & batch.terminated[trajectory])
        rewards = np.where(ends, batch.rewards[turn], 0.0)
        return tensor(rewards).float() + tensor(discount).float() * following


def build(config: Config) -> Algorithm:
    """Returns the parts of ILQL."""
    return Algorithm(
        Imitation(steered=True), data="fixed", hooks=lambda trainer: ImplicitQ(trainer, config)
    )
