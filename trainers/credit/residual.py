"""Residual credit: advantages of turns, with those of tokens as corrections inside each turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentgym.trainers.credit.two_clock import check_fraction, poad, require_values, turn
from agentgym.trainers.data.batch import Batch, Credit, Values


@dataclass(frozen=True)
class ResidualGAE:
    """Turn-level GAE plus the deviation of token-level advantages from their mean in the turn.

        A[t,j] = A_turn[t] + alpha (A_token[t,j] - mean_j A_token[t,j])

    The mean over the tokens of a turn is A_turn, so that tokens only divide the credit of their
    turn. Token-level GAE has a lambda of 1 and no discount inside a turn, and what follows the turn
    cancels in the deviation: it is the mean value in the turn minus the value before the token. The
    target of the first token of a turn is A_turn + V, that of the others is the discounted return.

    Source: VETTA, arXiv 2610.08402.

    Attributes:
        alpha: weight of the deviation. 0: the advantages of `turn`.
        gamma: discount per turn.
        lambda_turn: GAE lambda per turn.

    Raises:
        ValueError: if `gamma` or `lambda_turn` is not in [0, 1], or `alpha` is negative.
    """

    alpha: float = 1.0
    gamma: float = 0.95
    lambda_turn: float = 0.95

    def __post_init__(self) -> None:
        """Checks the parameters."""
        check_fraction("gamma", self.gamma)
        check_fraction("lambda_turn", self.lambda_turn)
        if not self.alpha >= 0:
            raise ValueError(f"alpha must be at least 0, got {self.alpha}.")

    def __call__(self, batch: Batch, values: Values | None) -> Credit:
        """Returns advantages and targets of a token-level critic.

        Args:
            batch: the trajectories.
            values: values of a token-level critic. Those of turns may come from a head of their
                own.

        Raises:
            ValueError: if values are missing or have the wrong shape.
        """
        values = require_values(values, batch, "tokens")
        turns = turn(self.gamma, self.lambda_turn)(batch, values)
        tokens = poad(self.gamma, 1.0)(batch, values)
        assert turns.targets is not None and tokens.targets is not None
        lengths = np.diff(batch.token_offsets)
        sums = np.bincount(batch.token_turn, tokens.advantages, batch.num_turns)
        mean = (sums / np.maximum(lengths, 1))[batch.token_turn]
        advantages = turns.advantages + self.alpha * (tokens.advantages - mean)
        targets, acting = tokens.targets.copy(), lengths > 0
        targets[batch.token_offsets[:-1][acting]] = turns.targets[acting]
        return Credit(advantages.astype(np.float32), targets, returns=turns.returns)
