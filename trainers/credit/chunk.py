"""Chunk-level credit: several turns are treated as one decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from agentgym.trainers.credit.scan import discounted_returns, reverse_scan
from agentgym.trainers.credit.two_clock import broadcast, check_fraction, require_values
from agentgym.trainers.data.batch import Batch, Credit, Values
from agentgym.trainers.data.trajectory import IntArray


@dataclass(frozen=True)
class ChunkGAE:
    """GAE over chunks of turns. All tokens of a chunk share one advantage.

    With G the lambda-return, computed over turns,

        G_t = r_t + gamma G_{t+1}                                     inside a chunk
        G_t = r_t + gamma [(1 - lambda) V(o_{t+1}) + lambda G_{t+1}]  at the end of a chunk
        A   = G - V at the chunk's first turn

    Size 1 is equivalent to `turn`. A size of at least the trajectory length gives the Monte Carlo
    advantage. Sizes in between trade variance for bias, like an n-step return. The return after the
    i-th turn of a chunk (from 0) enters the advantage with a factor gamma^i. The value targets are
    G at every turn. The spread of the advantages is compared to that of returns from the first
    turns of chunks on.

    With `end` "valid", a chunk ends with a valid action, whatever its size: rejected attempts are
    one decision with the action that is accepted in the end. These are the chunks from one
    interaction to the next of IPA ("Let It Flow: Agentic Crafting on Rock and Roll", arXiv
    2512.24873).

    Based on "Reinforcement Learning with Action Chunking" (arXiv 2507.07969), with turns instead of
    actions.

    Attributes:
        size: turns per chunk, counted from the start of the trajectory.
        gamma: discount per turn.
        lambda_: GAE lambda per chunk.
        end: the end of a chunk: after `size` turns, or after each valid action.

    Raises:
        ValueError: if `size` is below 1, or `gamma` or `lambda_` is not in [0, 1].
    """

    size: int = 4
    gamma: float = 0.99
    lambda_: float = 0.95
    end: Literal["size", "valid"] = "size"

    def __post_init__(self) -> None:
        """Checks the parameters."""
        if self.size < 1:
            raise ValueError(f"A chunk needs at least one turn, got size {self.size}.")
        check_fraction("gamma", self.gamma)
        check_fraction("lambda_", self.lambda_)

    def ends(self, place: IntArray, valid: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Returns whether a chunk ends with each turn [M].

        Args:
            place: [M] the number of turns before each one in its trajectory.
            valid: [M] whether the action was accepted.
        """
        return valid if self.end == "valid" else (place + 1) % self.size == 0

    def __call__(self, batch: Batch, values: Values | None) -> Credit:
        """Returns advantages and targets of a turn-level critic.

        Args:
            batch: the trajectories.
            values: values of a turn-level critic.

        Raises:
            ValueError: if values are missing or have the wrong shape.
        """
        values = require_values(values, batch, "turns")
        value = np.asarray(values.turns, np.float64)
        number = np.arange(batch.num_turns)
        place = number - batch.turn_offsets[batch.turn_trajectory]
        ends = self.ends(place, np.array([turn.valid for turn in batch.turns], bool))
        begins = (place == 0) | np.append(True, ends[:-1])
        first = np.maximum.accumulate(np.where(begins, number, 0))
        last = batch.turn_offsets[1:] - 1
        following = np.append(value[1:], 0.0)
        rewards = batch.rewards + np.where(ends, self.gamma * (1 - self.lambda_) * following, 0.0)
        decay = np.where(ends, self.gamma * self.lambda_, self.gamma)
        future = np.where(batch.terminated, 0.0, values.bootstrap)
        rewards[last], decay[last] = batch.rewards[last] + self.gamma * future, 0.0
        returns = reverse_scan(rewards, decay)
        found = broadcast((returns - value)[first], batch)
        outcomes = discounted_returns(batch.rewards, batch.turn_offsets, self.gamma)
        return Credit(found, returns.astype(np.float32), returns=outcomes[first], chunks=first)
