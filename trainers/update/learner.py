"""`Learner`: policy and critic in one module. `Rows` are its inputs, `ForwardPass` its outputs.

A single module holds all trained parameters, so a single wrapper of accelerate suffices.

Shapes: N trajectories, M turns and K action tokens per batch. A microbatch has b trajectories and k
action tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from agentgym.trainers.data.batch import Batch, Values
from agentgym.trainers.data.trajectory import FloatArray, Trajectory
from agentgym.trainers.policy.collate import Collated, distinct_rows, segment_rows
from agentgym.trainers.policy.policy import Policy

Row = tuple[int, int]
Found = tuple[str, NDArray[np.int64], FloatArray]


class Output(NamedTuple):
    """The outputs of a forward pass over a microbatch.

    Attributes:
        logprobs: [k] log-probabilities of the action tokens.
        entropy: [k] entropies of the distributions they were sampled from.
        values: [k] values of a token critic, or one value per turn of a turn critic. None without a
            critic.
        value_index: index of each value among the K tokens or M turns of the batch.
        bootstrap: [b] values of the last observations. None without a critic.
    """

    logprobs: Tensor
    entropy: Tensor
    values: Tensor | None
    value_index: Tensor
    bootstrap: Tensor | None

    def found(self, collated: Collated, reference: Tensor | None) -> list[Found]:
        """Returns the name, indices and numbers of each output, as `ForwardPass.of` reads them.

        Args:
            collated: the padded rows.
            reference: [k] log-probabilities of the reference policy.
        """
        parts = [("logprobs", self.logprobs), ("entropy", self.entropy), ("reference", reference)]
        found = [(name, collated.index, numbers) for name, numbers in parts if numbers is not None]
        if self.values is not None and self.bootstrap is not None:
            found.append(("values", self.value_index, self.values))
            found.append(("bootstrap", collated.bootstrap_trajectory, self.bootstrap))
        return [
            (name, index.cpu().numpy(), numbers.detach().float().cpu().numpy())
            for name, index, numbers in found
        ]


@dataclass(frozen=True)
class Kept:
    """A forward pass of all rows with its gradient."""

    trajectories: Sequence[Trajectory]
    version: int
    index: Tensor
    output: Output

    def fits(self, batch: Batch, policy: Policy) -> bool:
        """Returns whether the pass is of this batch under these weights."""
        same = batch.trajectories is self.trajectories
        return same and self.version == policy.weights_version()


class Learner(nn.Module):
    """A policy and a critic on its hidden states.

    Args:
        policy: the policy.
        critic: a value head with `reads` = "tokens" or "turns". None: no critic.
    """

    def __init__(self, policy: Policy, critic: nn.Module | None):
        super().__init__()
        self.policy = policy
        self.critic = critic

    @property
    def _no_split_modules(self) -> list[str]:
        """The names of the model's layers, which FSDP shards one by one."""
        return list(getattr(self.policy.model, "_no_split_modules", None) or [])

    def forward(self, collated: Collated, turn: Tensor) -> Output:
        """Returns log-probabilities, entropies and values of the action tokens of a microbatch.

        Args:
            collated: the padded rows.
            turn: [k] index in the batch of each token's turn.
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
    """The segments of a batch and their action tokens.

    Attributes:
        rows: the trajectory and the segment of each row.
        lengths: the number of tokens of each row in a forward pass.
        tokens: the indices of the action tokens of each row.
        same: the first row that equals each row, which a forward pass reads once for both.
    """

    rows: list[Row]
    lengths: NDArray[np.int64]
    tokens: list[NDArray[np.int64]]
    same: NDArray[np.int64]

    @classmethod
    def of(cls, batch: Batch, bootstrap: bool = True, scorer: Policy | None = None) -> Rows:
        """Returns the segments with action tokens, and those with a bootstrap value.

        Args:
            batch: the trajectories.
            bootstrap: whether bootstrap values are wanted, as in `collate`.
            scorer: the policy that scores the actions. A row then has the trees of candidates of
                the actions that were sampled as a whole, too. None: only hidden states are read.
        """
        rows = segment_rows(batch, bootstrap)
        turns = [batch.segment_turns.get(row, []) for row in rows]
        read = [batch.trajectories[n].segments[s].tokens for n, s in rows]
        if not bootstrap:
            stops = [max(batch.turns[m].stop for m in own) for own in turns]
            read = [tokens[:stop] for tokens, stop in zip(read, stops, strict=True)]
        lengths = np.array([len(tokens) for tokens in read], np.int64)
        spans = [np.arange(*pair) for pair in pairwise(batch.token_offsets.tolist())]
        empty = np.zeros(0, np.int64)
        tokens = [
            spans[own[0]] if len(own) == 1 else np.concatenate([empty, *(spans[m] for m in own)])
            for own in turns
        ]
        chosen = [batch.turns[m] for own in turns for m in own]
        turn_row = [row for row, own in enumerate(turns) for _ in own]
        if scorer is not None and scorer.blocks:
            for row, turn in zip(turn_row, chosen, strict=True):
                if turn.choice is not None:
                    lengths[row] += len(scorer.trie(turn.admissible)[0]) - 1  # without the root
        place, first = distinct_rows(read, chosen, turn_row)
        return cls(rows, lengths, tokens, first[place])

    def parts(
        self, count: int, rng: np.random.Generator, together: bool
    ) -> list[NDArray[np.int64]]:
        """Shuffles the rows and splits them into minibatches.

        Args:
            count: number of minibatches.
            rng: generator of the shuffle.
            together: keep the rows of a trajectory in one minibatch.

        Returns:
            The row indices of each minibatch. Minibatches without action tokens are dropped.
        """
        units = np.array([n for n, _ in self.rows]) if together else np.arange(len(self.rows))
        names = rng.permutation(np.unique(units))
        parts = [np.flatnonzero(np.isin(units, part)) for part in np.array_split(names, count)]
        return [part for part in parts if self.num_tokens(part)]

    def steps(
        self, limit: int, rng: np.random.Generator, least: int = 1
    ) -> list[NDArray[np.int64]]:
        """Shuffles the rows and splits them into steps of about `limit` tokens, without padding.

        Args:
            limit: number of tokens, fewer if there would be fewer than `least` steps.
            rng: generator of the shuffle.
            least: minimum number of steps, if there are as many rows.
        """
        order = rng.permutation(len(self.rows))
        limit = min(limit, -(-int(self.lengths.sum()) // least))
        number = (np.cumsum(self.lengths[order]) - 1) // limit
        steps = np.split(order, np.flatnonzero(np.diff(number)) + 1)
        least = min(least, len(order))
        # Rows that are longer than a step make fewer.
        return steps if len(steps) >= least else np.array_split(order, least)

    def num_tokens(self, part: NDArray[np.int64]) -> int:
        """Returns the number of action tokens of some rows."""
        return sum(len(self.tokens[i]) for i in part)

    def microbatches(
        self, part: NDArray[np.int64], limit: int, together: bool = False
    ) -> list[NDArray[np.int64]]:
        """Splits rows into microbatches of at most `limit` tokens, padding included.

        Args:
            part: row indices.
            limit: tokens per microbatch. A longer row is a microbatch of its own.
            together: keep the rows of a trajectory in one microbatch.
        """
        return self._split(part, limit, together, np.arange(len(self.rows)))

    def passes(
        self, part: NDArray[np.int64], limit: int, together: bool = False
    ) -> list[NDArray[np.int64]]:
        """Splits rows as `microbatches` does, into forward passes, which read equal rows once.

        A row that equals an earlier one counts as its action tokens, whose outputs are kept.
        """
        return self._split(part, limit, together, self.same)

    def _split(
        self, part: NDArray[np.int64], limit: int, together: bool, same: NDArray[np.int64]
    ) -> list[NDArray[np.int64]]:
        """Splits rows, of which those with equal numbers in `same` count once."""
        numbers, lengths = same.tolist(), self.lengths.tolist()
        units: dict[int, list[int]] = {}
        for i in part.tolist():
            units.setdefault(self.rows[i][0] if together else i, []).append(i)
        ordered = [units[key] for key in sorted(units)] if together else list(units.values())
        longest = {unit[0]: max([lengths[i] for i in unit]) for unit in ordered}
        rank: dict[int, int] = {}
        for unit in ordered:
            rank.setdefault(numbers[unit[0]], len(rank))
        ordered.sort(key=lambda unit: (longest[unit[0]], rank[numbers[unit[0]]]))
        found: list[list[int]] = []
        read: set[int] = set()
        again = 0  # action tokens of rows that equal an earlier one of the pass
        for unit in ordered:
            firsts = {numbers[i]: i for i in reversed(unit)}
            new = firsts.keys() - read
            more = again + self._repeated(unit, [firsts[number] for number in new])
            if not found or (len(read) + len(new)) * longest[unit[0]] + more > limit:
                found.append([])
                read, new, more = set(), firsts.keys(), self._repeated(unit, firsts.values())
            found[-1] += unit
            read.update(new)
            again = more
        return [np.array(rows, np.int64) for rows in found]

    def _repeated(self, unit: Iterable[int], firsts: Iterable[int]) -> int:
        """Returns the number of action tokens of rows, without those that are read."""
        return sum([len(self.tokens[i]) for i in unit]) - sum([len(self.tokens[i]) for i in firsts])


@dataclass(frozen=True)
class ForwardPass:
    """Log-probabilities and values of a batch before the update, without gradients.

    Attributes:
        logprobs: [K] log-probabilities of the action tokens under the policy, computed as in the
            update. None if only a critic with a separate backbone read the batch.
        values: the critic's values. None without a critic.
        reference: [K] log-probabilities under the reference policy. None without a reference.
        entropy: [K] entropies of the distributions that the tokens were sampled from. None with
            `logprobs`.
    """

    logprobs: FloatArray | None = None
    values: Values | None = None
    reference: FloatArray | None = None
    entropy: FloatArray | None = None

    @property
    def log_ratio(self) -> NDArray[np.float64]:
        """[K] log-probabilities under the policy minus those under the reference."""
        assert self.logprobs is not None and self.reference is not None
        return self.logprobs.astype(np.float64) - self.reference

    @classmethod
    def of(cls, batch: Batch, found: Sequence[Found], critic: nn.Module | None) -> ForwardPass:
        """Returns the forward pass of a batch from the outputs of its microbatches.

        Args:
            batch: the trajectories.
            found: (name, indices, numbers) of each output, from all processes.
            critic: the critic, or None.
        """
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
