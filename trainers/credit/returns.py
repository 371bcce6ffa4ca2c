"""Returns as credit, without a critic or a group."""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.trainers.credit.scan import discounted_returns
from agentgym.trainers.credit.two_clock import broadcast
from agentgym.trainers.trajectory import Batch, Credit, Values


@dataclass(frozen=True)
class ReturnToGo:
    """The discounted return from each turn on, shared by its tokens.

    Attributes:
        gamma: discount between turns.
    """

    gamma: float = 1.0

    def __call__(self, batch: Batch, values: Values | None = None) -> Credit:
        """Returns advantages. `values` are not used."""
        returns = discounted_returns(batch.rewards, batch.turn_offsets, self.gamma)
        return Credit(broadcast(returns, batch))
