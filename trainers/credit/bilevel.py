"""Bi-level GAE: a pass over turns, and one over the tokens of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentgym.trainers.credit.scan import discounted_returns, reverse_scan
from agentgym.trainers.credit.two_clock import (
    Slots,
    check_fraction,
    following_values,
    require_values,
)
from agentgym.trainers.data.batch import Batch, Credit, Values


@dataclass(frozen=True)
class BilevelGAE:
    """Bi-level GAE: over turns, then over the tokens of each turn.

    First pass, over the last tokens of turns:

        delta_t = r_t + gamma_a m V[t+1,L] - V[t,L]
        A[t,L]  = delta_t + gamma_a lambda_a A[t+1,L]

    Second pass, inside each turn, starting from A[t,L]:

        A[t,j]  = gamma_w V[t,j+1] - V[t,j] + gamma_w lambda_w A[t,j+1]

    Source: "VAGEN: Reinforcing World Model Reasoning for Multi-Turn VLM Agents", arXiv 2510.16907.
    The authors' code detects turn ends by non-zero rewards and so merges a turn of reward 0 with
    the next one. Here the recorded turn ends are used. A turn bootstraps from the *last* token of
    the next turn, which is known only after that turn is generated. This causes a slight bias even
    with exact values.

    Attributes:
        gamma_token: discount per token inside a turn.
        lambda_token: GAE lambda per token inside a turn.
        gamma_turn: discount per turn.
        lambda_turn: GAE lambda per turn.

    Raises:
        ValueError: if a discount or lambda is not in [0, 1].
    """

    gamma_token: float = 1.0
    lambda_token: float = 1.0
    gamma_turn: float = 0.95
    lambda_turn: float = 1.0

    def __post_init__(self) -> None:
        """Checks that every parameter is in [0, 1]."""
        for name in ("gamma_token", "lambda_token", "gamma_turn", "lambda_turn"):
            check_fraction(name, getattr(self, name))

    def __call__(self, batch: Batch, values: Values | None) -> Credit:
        """Returns advantages and targets of a token-level critic.

        Args:
            batch: the trajectories.
            values: values of a token-level critic.

        Raises:
            ValueError: if values are missing or have the wrong shape.
        """
        values = require_values(values, batch, "tokens")
        assert values.tokens is not None
        future = np.where(batch.terminated, 0.0, values.bootstrap)
        slots = Slots.of(batch)
        value, delta, decay = np.empty((3, slots.last[-1] + 1))
        slots.spread(values.tokens, values.turns, out=value)
        ends = value[slots.last]
        following = following_values(ends, future, batch.turn_offsets)
        turn_decay = np.full(len(ends), self.gamma_turn * self.lambda_turn)
        turn_decay[batch.turn_offsets[1:] - 1] = 0.0
        turns = reverse_scan(batch.rewards + self.gamma_turn * following - ends, turn_decay)
        np.multiply(value[1:], self.gamma_token, out=delta[:-1])
        np.subtract(delta[:-1], value[:-1], out=delta[:-1])
        decay[:] = self.gamma_token * self.lambda_token
        delta[slots.last], decay[slots.last] = turns, 0.0
        advantages = reverse_scan(delta, decay, out=delta)
        value += advantages
        returns = discounted_returns(batch.rewards, batch.turn_offsets, self.gamma_turn)
        return Credit(slots.tokens(advantages), slots.tokens(value), returns=returns)
