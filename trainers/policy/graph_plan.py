"""`Plan`: the next steps of some rows, from the host to the buffers and back.

Shapes: b rows of the buffers, k steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agentgym.trainers.policy.distribution import check_finite
from agentgym.trainers.policy.graph_buffers import FIELDS, PENDING, STEPS, Buffers, Capacity
from agentgym.trainers.policy.graph_step import Shape
from agentgym.trainers.policy.request_state import Row
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.policy.support import places_of
from agentgym.trainers.policy.trie_table import TrieTable

WIDEST = 8
"""Maximum number of tokens that a row feeds in a step."""


def rounded(number: int, per_octave: int, least: int = 1) -> int:
    """Returns the next of a few numbers per octave, which are multiples of `least`."""
    power = 1 << max(0, (number - 1).bit_length() - 1)  # power < number <= 2 * power
    step = max(least, power // per_octave)
    return -(-number // step) * step


@dataclass(frozen=True, slots=True)
class Plan:
    """The next steps of some rows.

    Attributes:
        shape: their shape.
        steps: their number k.
        capacity: the sizes that buffers need.
        table: the tries of all rows.
        branches: the branch of each row, at which its next token is sampled. -1: none.
        sampling: sampling parameters.
    """

    shape: Shape
    steps: int
    capacity: Capacity
    table: TrieTable
    branches: Sequence[int]
    sampling: Sampling

    @classmethod
    def of(cls, rows: Sequence[Row], sampling: Sampling, vocabulary: int) -> Plan:
        """Returns the plan of rows in progress, of a model with a number of tokens."""
        tables = {row.trie: TrieTable.of(row.trie) for row in rows if row.trie is not None}
        longest = max(len(row.pending) for row in rows)
        longest = max(longest, *(int(table.length.max(initial=1)) for table in tables.values()), 1)
        width = min(WIDEST, rounded(longest, 1))
        steps = min(STEPS, max(_steps(row, width) for row in rows))
        table, first = TrieTable.joined(list(tables.values()))
        firsts = dict(zip(tables, first, strict=True))
        branches = [
            -1 if row.trie is None else firsts[row.trie] + tables[row.trie].branch[row.node]
            for row in rows
        ]
        reach = max(row.read + min(steps * width, _ahead(row)) for row in rows)
        shape = Shape(
            rows=rounded(len(rows), 2),
            columns=rounded(reach + 1, 4, 64),
            width=width,
            free=any(row.trie is None for row in rows),
            choices=rounded(int(table.count.max()), 1, 4) if tables else 0,
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
        )
        capacity = _capacity(rows, shape, table, vocabulary)
        return cls(shape, steps, capacity, table, branches, sampling)

    def load(self, buffers: Buffers, rows: Sequence[Row], places: Sequence[int]) -> None:
        """Copies the state of rows to their places in the buffers."""
        if self.shape.choices:
            buffers.load_tries(self.table)
        count = self.shape.rows
        states = np.zeros((len(FIELDS), count), np.int64)
        states[FIELDS.index("left")] = 1
        pending = np.zeros((count, max(len(row.pending) for row in rows)), np.int64)
        uniforms = np.zeros((count, buffers.capacity.uniforms))
        for row, place, branch in zip(rows, places, self.branches, strict=True):
            taken = len(row.tokens)
            states[:, place] = (
                place * PENDING,
                len(row.pending),
                row.read,
                0,
                row.limit - taken,
                branch,
                1,
                row.trie is not None,
            )
            pending[place, : len(row.pending)] = row.pending
            some = row.uniforms[taken : taken + uniforms.shape[1]]
            uniforms[place, : len(some)] = some
        buffers.load(states, pending, uniforms)

    def take_over(self, buffers: Buffers, rows: Sequence[Row], places: Sequence[int]) -> None:
        """Appends the sampled tokens to their rows, up to the end of each action.

        Raises:
            LogitsError: if logits were not finite.
        """
        steps, count = self.steps, self.shape.rows
        columns, logprobs = (
            each[:steps, :count].T.tolist() for each in (buffers.columns, buffers.logprobs)
        )
        kept = None
        if self.shape.restricts:
            sampled = buffers.columns[:steps, :count] >= 0
            kept = places_of((buffers.kept[:steps, :count] & sampled[..., None]).flatten(0, 1))
        read = buffers.rows(count).read.tolist()
        for row, place in zip(rows, places, strict=True):
            for step in range(steps):
                if (column := columns[place][step]) < 0:
                    continue
                check_finite(logprobs[place][step : step + 1])
                row.feed(len(row.pending))
                some = None if kept is None else kept[step * count + place]
                self._add(row, column, logprobs[place][step], some)
                if row.done:
                    break
            if not row.done:
                row.feed(read[place] - row.read)

    def _add(self, row: Row, column: int, logprob: float, kept: Sequence[int] | None) -> None:
        """Appends a sampled column to a row, and the forced tokens that follow it."""
        if kept is None and self.sampling.restricts:  # greedy
            kept = [column]
        if row.trie is None:
            row.add(column, logprob, () if kept is None else kept)
            return
        tokens = row.trie.children(row.node)
        row.add(tokens[column], logprob, tokens if kept is None else [tokens[i] for i in kept])


def _steps(row: Row, width: int) -> int:
    """Returns the number of steps until an action ends, at most."""
    fed = -(-len(row.pending) // width)
    if row.trie is None:
        return fed - 1 + row.limit - len(row.tokens)
    table = TrieTable.of(row.trie)
    return fed + table.steps_after(table.branch[row.node], width)


def _ahead(row: Row) -> int:
    """Returns the number of tokens that a row still feeds, at most."""
    return len(row.pending) + row.limit - len(row.tokens)


def _capacity(rows: Sequence[Row], shape: Shape, table: TrieTable, vocabulary: int) -> Capacity:
    """Returns the sizes that buffers need, with room for whole actions: graphs end with buffers."""
    whole = max(row.read + _ahead(row) for row in rows)
    listed = [row.limit - len(row.tokens) for row in rows if row.trie is not None]
    kept = vocabulary if shape.free else shape.choices
    return Capacity(
        rows=shape.rows,
        columns=max(shape.columns, rounded(whole + 1, 2, 64)),
        uniforms=rounded(max(4 * STEPS, *listed, 1), 1),
        kept=kept if shape.restricts else 0,
        branches=rounded(max(1 << 8, len(table.first)), 1),
        edges=rounded(max(1 << 10, len(table.start)), 1),
        tokens=rounded(max(1 << 12, len(table.tokens)), 1),
    )
