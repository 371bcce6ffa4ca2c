"""`Rows`: the segments of a batch, and how they are split into minibatches and forward passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import equal_tokens
from agentgym.trainers.policy.collate import distinct_rows, segment_rows
from agentgym.trainers.policy.packing import least_saved
from agentgym.trainers.policy.policy import Policy

SHARED = 0.25
"""Part of a packed token as which one counts that is computed for another row: its keys and values
are gathered again."""

Row = tuple[int, int]


@dataclass(frozen=True)
class Rows:
    """The segments of a batch and their action tokens.

    Attributes:
        rows: the trajectory and the segment of each row.
        lengths: the number of tokens of each row in a forward pass.
        tokens: the indices of the action tokens of each row.
        same: the first row that equals each row, which a forward pass reads once for both.
        packed: the token ids of each row, if forward passes may pack their rows.
        least: number of tokens that a pass must save to be packed.
    """

    rows: list[Row]
    lengths: NDArray[np.int64]
    tokens: list[NDArray[np.int64]]
    same: NDArray[np.int64]
    packed: Sequence[NDArray[np.int32]] | None = None
    least: int = 0

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
        found = cls(rows, lengths, tokens, first[place])
        if scorer is None or not scorer.packs:
            return found
        return replace(found, packed=read, least=least_saved(scorer.device))

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
        return self._split(part, limit, together, np.arange(len(self.rows)), None)

    def passes(
        self, part: NDArray[np.int64], limit: int, together: bool = False
    ) -> list[NDArray[np.int64]]:
        """Splits rows as `microbatches` does, into forward passes, which read equal rows once.

        A row that equals an earlier one counts as its action tokens, whose outputs are kept. Rows
        that may be packed are ordered so that those that begin alike share a pass. If it is packed,
        padding does not count, and tokens that a row has in common with the one before do little.
        """
        return self._split(part, limit, together, self.same, self.packed)

    def _split(
        self,
        part: NDArray[np.int64],
        limit: int,
        together: bool,
        same: NDArray[np.int64],
        packed: Sequence[NDArray[np.int32]] | None,
    ) -> list[NDArray[np.int64]]:
        """Splits rows, of which those with equal numbers in `same` count once."""
        numbers, lengths = same.tolist(), self.lengths.tolist()
        units: dict[int, list[int]] = {}
        for i in part.tolist():
            units.setdefault(self.rows[i][0] if together else i, []).append(i)
        ordered = [units[key] for key in sorted(units)] if together else list(units.values())
        if packed is None:
            rank: dict[int, int] = {}  # equal rows follow each other
            for unit in ordered:
                rank.setdefault(numbers[unit[0]], len(rank))
            longest = {unit[0]: max([lengths[i] for i in unit]) for unit in ordered}
            ordered.sort(key=lambda unit: (longest[unit[0]], rank[numbers[unit[0]]]))
        else:
            ordered.sort(key=lambda unit: packed[unit[0]].tobytes())
        passes: list[_Pass] = []
        for unit in ordered:
            if not passes or passes[-1].tokens(unit) > limit:
                passes.append(_Pass(self, numbers, packed))
            passes[-1].add(unit)
        return [np.array(each.rows, np.int64) for each in passes]


class _Pass:
    """Rows of a forward pass, in the order in which they are added.

    Args:
        rows: all rows.
        same: a number per row. Those with equal numbers count once.
        packed: as the attribute of `Rows`. None: rows are padded.
    """

    def __init__(self, rows: Rows, same: Sequence[int], packed: Sequence[NDArray[np.int32]] | None):
        self.rows: list[int] = []
        self._all, self._same, self._packed = rows, same, packed
        self._read: list[int] = []  # without those that equal an earlier one
        self._numbers: set[int] = set()
        self._sizes = _Sizes()

    def tokens(self, unit: Sequence[int]) -> float:
        """Returns the tokens of the pass with further rows."""
        return self._with(self._new(unit), unit).tokens(self._packed is not None, self._all.least)

    def add(self, unit: Sequence[int]) -> None:
        """Adds rows."""
        new = self._new(unit)
        self._sizes = self._with(new, unit)
        self.rows += unit
        self._read += new
        self._numbers.update(self._same[i] for i in new)

    def _new(self, unit: Sequence[int]) -> list[int]:
        """Returns the rows that equal no row of the pass and none before them."""
        firsts = {self._same[i]: i for i in reversed(unit)}
        return [i for number, i in firsts.items() if number not in self._numbers][::-1]

    def _with(self, new: Sequence[int], unit: Sequence[int]) -> _Sizes:
        """Returns the sizes of the pass with further rows."""
        sizes, lengths, tokens = self._sizes, self._all.lengths, self._all.tokens
        common = 0
        if self._packed is not None:
            for before, row in pairwise([*self._read[-1:], *new]):
                one, other = self._packed[before], self._packed[row]
                common += equal_tokens(one, other, min(len(one), len(other)))
        again = sum([len(tokens[i]) for i in unit]) - sum([len(tokens[i]) for i in new])
        return _Sizes(
            sizes.rows + len(new),
            max([sizes.longest, *(int(lengths[i]) for i in unit)]),
            sizes.all + sum([int(lengths[i]) for i in new]),
            sizes.common + common,
            sizes.again + again,
        )


class _Sizes(NamedTuple):
    """Sizes of a forward pass.

    Attributes:
        rows: number of different rows.
        longest: tokens of the longest one.
        all: tokens of all of them.
        common: tokens that they have in common with the one before.
        again: action tokens of rows that equal one of them.
    """

    rows: int = 0
    longest: int = 0
    all: int = 0
    common: int = 0
    again: int = 0

    def tokens(self, packs: bool, least: int) -> float:
        """Returns the tokens of the pass, which is packed if this saves more than `least`."""
        padded = self.rows * self.longest
        if packs and padded - self.all + self.common > least:
            return self.all - (1 - SHARED) * self.common + self.again
        return padded + self.again
