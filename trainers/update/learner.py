"""`Learner`: policy and critic in one module; `Rows` and `ForwardPass`, what it reads and says.

One module, so that one wrapper (DDP, FSDP, DeepSpeed, by accelerate) holds all that is trained.

Shapes: N trajectories, M turns, K action tokens of the batch; k, b those of a microbatch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from agentgym.trainers.policy.collate import Collated, segment_rows
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.trajectory import Batch, FloatArray, Values

Row = tuple[int, int]


class Output(NamedTuple):
    """What the learner says about a microbatch.

    Attributes:
        logprobs: [k] of the action tokens.
        entropy: [k] of the distributions they were drawn from.
        values: [k] (token critic), or one a turn (turn critic); None without a critic.
        value_index: the place of each value among the batch's K tokens or M turns.
        bootstrap: [b] values of the last observations.
    """

    logprobs: Tensor
    entropy: Tensor
    values: Tensor | None
    value_index: Tensor
    bootstrap: Tensor | None


class Learner(nn.Module):
    """A policy and a critic that reads its hidden states.

    Args:
        policy: the policy.
        critic: a value head with `reads` = "tokens" or "turns"; None: no critic.
    """

    def __init__(self, policy: Policy, critic: nn.Module | None):
        super().__init__()
        self.policy = policy
        self.critic = critic

    def forward(self, collated: Collated, turn: Tensor) -> Output:
        """Scores the action tokens of a microbatch.

        Args:
            collated: the rows.
            turn: [k] number of each token's turn in the batch.
        """
        scores = self.policy(collated)
        if self.critic is None:
            return Output(scores.logprobs, scores.entropy, None, collated.index, None)
        hidden, index = scores.hidden, collated.index
        if self.critic.reads == "turns":
            first = self.critic.positions(turn)  # type: ignore[operator]
            hidden, index = hidden[first], turn[first]
        return Output(
            scores.logprobs,
            scores.entropy,
            self.critic(hidden),
            index,
            self.critic(scores.bootstrap_hidden),
        )


@dataclass(frozen=True)
class Rows:
    """The segments of a batch, and which action tokens lie in them.

    Attributes:
        rows: (trajectory, segment) of each.
        lengths: number of tokens of each.
        tokens: numbers of its action tokens, of each.
    """

    rows: list[Row]
    lengths: NDArray[np.int64]
    tokens: list[NDArray[np.int64]]

    @classmethod
    def of(cls, batch: Batch) -> Rows:
        """Lists the segments that carry action tokens or a bootstrap."""
        rows = segment_rows(batch)
        spans: dict[Row, list[NDArray[np.int64]]] = {row: [] for row in rows}
        owners = batch.turn_trajectory
        for m, turn in enumerate(batch.turns):
            span = np.arange(batch.token_offsets[m], batch.token_offsets[m + 1])
            spans[int(owners[m]), turn.segment].append(span)
        empty = np.zeros(0, np.int64)
        lengths = [len(batch.trajectories[n].segments[s].tokens) for n, s in rows]
        tokens = [np.concatenate(spans[row]) if spans[row] else empty for row in rows]
        return cls(rows, np.array(lengths), tokens)

    def parts(
        self, count: int, rng: np.random.Generator, together: bool
    ) -> list[NDArray[np.int64]]:
        """Shuffles the rows and deals them out into minibatches.

        Args:
            count: number of minibatches.
            rng: shuffles.
            together: keep the rows of a trajectory in one minibatch.
        """
        units = np.array([n for n, _ in self.rows]) if together else np.arange(len(self.rows))
        names = rng.permutation(np.unique(units))
        parts = [np.flatnonzero(np.isin(units, part)) for part in np.array_split(names, count)]
        return [part for part in parts if sum(len(self.tokens[i]) for i in part)]

    def microbatches(
        self, part: NDArray[np.int64], limit: int, together: bool = False
    ) -> list[NDArray[np.int64]]:
        """Cuts rows into microbatches of at most `limit` tokens with padding (or a single unit)."""
        if together:
            owner = np.array([self.rows[i][0] for i in part])
            units = [part[owner == n] for n in np.unique(owner)]
        else:
            units = [part[i : i + 1] for i in range(len(part))]
        units.sort(key=lambda unit: int(self.lengths[unit].max()))
        found: list[list[NDArray[np.int64]]] = []
        size = 0
        for unit in units:
            longest = int(self.lengths[unit].max())
            if not found or (size + len(unit)) * longest > limit:
                found.append([])
                size = 0
            found[-1].append(unit)
            size += len(unit)
        return [np.concatenate(units) for units in found]


@dataclass(frozen=True)
class ForwardPass:
    """What policy, critic and reference say about a batch before the update.

    Attributes:
        logprobs: [K] of the action tokens under the policy, computed as in the update.
        values: the critic's; None without one.
        reference: [K] under the reference policy; None if there is none.
        entropy: [K] of the distributions that the tokens were drawn from.
    """

    logprobs: FloatArray
    values: Values | None
    reference: FloatArray | None
    entropy: FloatArray

    @classmethod
    def of(cls, batch: Batch, found: Sequence[Any], critic: nn.Module | None) -> ForwardPass:
        """Puts the parts together."""
        reads = None if critic is None else critic.reads
        sizes = {
            "logprobs": batch.num_tokens,
            "entropy": batch.num_tokens,
            "reference": batch.num_tokens,
            "values": batch.num_turns if reads == "turns" else batch.num_tokens,
            "bootstrap": len(batch.trajectories),
        }
        arrays: dict[str, FloatArray] = {}
        for name, index, numbers in found:
            arrays.setdefault(name, np.zeros(sizes[name], np.float32))[index] = numbers
        values = None
        if reads is not None:
            tokens = None if reads == "turns" else arrays["values"]
            turns = arrays["values"] if tokens is None else tokens[batch.token_offsets[:-1]]
            bootstrap = arrays.get("bootstrap", np.zeros(sizes["bootstrap"], np.float32))
            values = Values(tokens, turns, bootstrap)
        return cls(arrays["logprobs"], values, arrays.get("reference"), arrays["entropy"])
