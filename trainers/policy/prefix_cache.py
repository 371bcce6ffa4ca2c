"""`PrefixCache`: keys and values of many sequences, written in place and kept between calls.

A sequence is a row and a position is a column, so rows of any lengths share a batch without padding
on the left. Consecutive rows are views of the same tensors: a forward pass over them copies
nothing but the keys and values of its new tokens.

Prompts that recur are remembered: with the context "current", an environment with few states asks
the same again and again, in all episodes of a group.

Shapes: R rows, C columns, b rows of a forward pass, n new tokens per row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import Cache

from agentgym.trainers.data.trajectory import equal_tokens
from agentgym.trainers.policy.cache_layers import CacheLayer, LayerShape, Span
from agentgym.trainers.policy.sampling import Tokens
from agentgym.trainers.policy.shared_attention import States
from agentgym.trainers.system.gpu_memory import free_bytes
from agentgym.utils.recent import Recent

Slot = int | str

WORTHWHILE = 8
"""Minimum number of tokens of a prefix that is reused. Copying fewer costs more than it saves."""

BLOCK = 64
"""Columns are allocated in multiples of this."""

CPU_BYTES = 4 << 30
"""Maximum size of the cache on a CPU."""

GPU_SHARE = 0.4
"""Maximum size of the cache on a GPU, as a share of the memory that is free at its first use."""

REMEMBERED = 0.25
"""Maximum size of the prompts that are remembered, as a share of that of the cache."""


class PrefixCache:
    """Keys and values of the contexts of each slot. Only new tokens of a prompt are computed.

    Created by `Policy.session()`. The least recently used slots are evicted if the cache would
    exceed `max_bytes`. The cache is cleared automatically when an optimiser has changed the
    weights, and manually by `clear`.

    Args:
        max_bytes: maximum size, without remembered prompts. If None, it depends on the memory of
            the device.
        by_slot: whether the prompts of a slot begin alike, so that its context is kept. False: no
            context is kept.
        recurring: whether whole prompts recur, so that they are remembered. On a CPU only: whether
            it pays on a GPU was not measured.
    """

    def __init__(
        self, max_bytes: int | None = None, *, by_slot: bool = True, recurring: bool = False
    ) -> None:
        self.max_bytes, self.by_slot = max_bytes, by_slot
        self._recurring = recurring
        self._memory: Recent[list[Tensor]] | None = None
        self._layers: list[CacheLayer] = []
        self._bytes_per_token = 0
        self._device = torch.device("cpu")
        self._shape = 0, 0
        self._weights: Any = None
        self._rows: dict[Slot, int] = {}  # the least recently used first
        self._tokens: list[Tokens] = []  # of the columns of each row that are valid
        self._longest = 0  # tokens of the longest sequence that was placed last

    @property
    def bytes(self) -> int:
        """Size of the cache."""
        return self._shape[0] * self._shape[1] * self._bytes_per_token

    @property
    def remembers(self) -> bool:
        """Whether prompts are remembered."""
        return self._memory is not None

    def clear(self) -> None:
        """Removes all entries."""
        self._rows.clear()
        if self._memory is not None:
            self._memory.clear()

    def drop(self, slot: Slot) -> None:
        """Removes the entry of a slot, for example at the end of its episode, if there is one."""
        self._rows.pop(slot, None)

    def open(self, shapes: Sequence[LayerShape], device: torch.device, weights: Any) -> None:
        """Prepares the cache for a model.

        Args:
            shapes: shapes of the model's layers.
            device: device of the model.
            weights: version of its weights. If it has changed, the cache is cleared.
        """
        if weights != self._weights:
            self.clear()
        self._weights = weights
        if self._layers and device == self._device:
            return
        self.clear()
        self._layers = [CacheLayer(shape, device) for shape in shapes]
        self._cache = Cache(layers=list(self._layers))
        self._shape, self._tokens, self._device = (0, 0), [], device
        self._bytes_per_token = sum(shape.bytes for shape in shapes)
        if self.max_bytes is None:
            self.max_bytes = CPU_BYTES
            if device.type == "cuda":
                self.max_bytes = int(GPU_SHARE * free_bytes(device))
        self._memory = None
        if self._recurring and device.type == "cpu":
            self._memory = Recent(int(REMEMBERED * self.max_bytes))

    def max_rows(self, columns: int) -> int:
        """Returns the number of rows of `columns` tokens, at least 1, that fit in `max_bytes`."""
        assert self.max_bytes is not None
        if self._rows:
            columns = max(columns, self._shape[1])
        return max(1, self.max_bytes // max(1, _rounded(columns) * self._bytes_per_token))

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self._shape[0]

    def place(
        self,
        sequences: Sequence[tuple[Slot | None, Tokens]],
        columns: int,
        busy: range | None = None,
        *,
        behind: bool = False,
    ) -> list[tuple[int, int]]:
        """Gives each sequence one of the first rows, or of the rows next to those in use.

        A slot keeps its keys and values. A new slot copies those stored last, because prompts begin
        with the same instructions.

        Args:
            sequences: slot and tokens of each sequence, at most `max_rows(columns)` of them.
            columns: number of tokens that a sequence can reach.
            busy: consecutive rows in use. They stay as they are, and the sequences get rows right
                before them, of which there must be enough.
            behind: the sequences get rows right behind those in use instead.

        Returns:
            For each sequence its row and the length of the cached prefix (never the whole prompt).
        """
        if not self.by_slot:
            sequences = [(None, tokens) for _, tokens in sequences]
        count = len(sequences)
        self._longest = max(len(tokens) for _, tokens in sequences)
        if busy is None:
            self._reserve({slot for slot, _ in sequences if slot is not None}, count, columns)
            target, busy = range(count), range(0)
        elif behind:
            target = range(busy.stop, busy.stop + count)
            self._extend(target.stop)
        else:
            target = range(busy.start - count, busy.start)
        homes: dict[int, int] = {}  # row -> sequence
        for i, (slot, _) in enumerate(sequences):
            home = None if slot is None else self._rows.get(slot)
            if home is not None and home not in busy:
                homes.setdefault(home, i)
        placed = set(homes.values())
        taken = {*homes, *self._rows.values(), *busy}
        free = [row for row in range(self._shape[0]) if row not in taken]
        for i in range(count):
            if i not in placed:
                if not free:
                    slot = next(s for s, row in self._rows.items() if row not in {*homes, *busy})
                    free.append(self._rows.pop(slot))
                homes[free.pop(0)] = i
        latest = next(reversed(self._rows.values()), None)
        cached = [0] * count
        for row, i in homes.items():
            slot, tokens = sequences[i]
            source = None if slot is None else self._rows.get(slot, latest)
            if source is not None:
                cached[i] = _common(self._tokens[source], tokens)
                if source != row:
                    self.copy([source], [row], slice(cached[i]))
        for row, i in homes.items():
            self._tokens[row] = sequences[i][1][: cached[i]]
        outside = [row for row in homes if row not in target]
        holes = [row for row in target if row not in homes]
        order = swapped(outside, holes)
        self.move(order, max(map(len, self._tokens)))
        rows = {i: order.get(row, row) for row, i in homes.items()}
        return [(rows[i], self._recall(rows[i], sequences[i][1], cached[i])) for i in range(count)]

    def _recall(self, row: int, tokens: Tokens, cached: int) -> int:
        """Copies a prompt that is remembered to a row, whose first tokens may be there already.

        Returns:
            The length of the cached prefix.
        """
        length = len(tokens) - 1
        if self._memory is None or (known := self._memory.get(tokens.tobytes())) is None:
            return cached
        self.reserve(length)
        for whole, part in zip(self.states, known, strict=True):
            whole[row, :, cached:length] = part[:, cached:]
        if self.by_slot:
            self._tokens[row] = tokens[:length]
        return length

    def remember(self, row: int, tokens: Tokens) -> None:
        """Remembers a prompt that a row has read. Only for a cache that `remembers`."""
        assert self._memory is not None
        length, key = len(tokens) - 1, tokens.tobytes()
        size = length * self._bytes_per_token
        if 0 < size <= self._memory.limit and self._memory.get(key) is None:
            states = [whole[row, :, :length].clone() for whole in self.states]
            self._memory.put(key, states, size)

    def _reserve(self, wanted: set[Slot], count: int, columns: int) -> None:
        """Makes `count` rows available, and evicts slots if they do not fit in `max_bytes`."""
        if not self._rows:
            self._rebuild((), 0, 0)
        most = self.max_rows(max(columns, self._shape[1]))
        unwanted = [slot for slot in self._rows if slot not in wanted]
        for slot in [*unwanted, *wanted & self._rows.keys()][: max(0, len(self._rows) - most)]:
            del self._rows[slot]
        rows = min(most, max(self._shape[0], count + len(self._rows.keys() - wanted)))
        if rows < self._shape[0]:
            self._rebuild(list(self._rows.values()), rows, self._shape[1])
        elif rows > self._shape[0]:
            self._rebuild(range(self._shape[0]), rows, self._shape[1])

    def _extend(self, stop: int) -> None:
        """Makes rows up to `stop` available, behind those that are there."""
        rows, columns = self._shape
        if stop > rows:
            wanted = max(stop, min(rows * 3 // 2, self.max_rows(columns)))
            self._rebuild(range(rows), wanted, columns)

    def _rebuild(self, order: Sequence[int], rows: int, columns: int) -> None:
        for layer in self._layers:
            layer.rebuild(order, rows, columns)
        moved = {row: i for i, row in enumerate(order)}
        self._rows = {slot: moved[row] for slot, row in self._rows.items()}
        self._tokens = [self._tokens[row] for row in order] + [_NONE] * (rows - len(order))
        self._shape = rows, columns

    def move(self, order: dict[int, int], columns: int) -> None:
        """Permutes the first columns of rows, and their slots.

        Args:
            order: the old number of each row whose number changes, by its new number.
            columns: number of columns.
        """
        if not order:
            return
        to, of = list(order.keys()), list(order.values())
        tokens = [self._tokens[row] for row in of]
        for row in to:  # so that an interrupt leaves no wrong entry
            self._tokens[row] = _NONE
        self.copy(of, to, slice(columns))
        for row, its in zip(to, tokens, strict=True):
            self._tokens[row] = its
        moved = dict(zip(of, to, strict=True))
        self._rows = {slot: moved.get(row, row) for slot, row in self._rows.items()}

    def copy(self, of: Sequence[int], to: Sequence[int], columns: slice) -> None:
        """Copies columns of rows to as many other rows."""
        runs = [] if set(of) & set(to) else _runs(of, to)
        for layer in self._layers:
            for whole in layer.states:
                part = whole[:, :, columns]
                if self._device.type != "cpu":
                    part[to] = part[of]
                elif runs:
                    for source, first, last in runs:
                        part[first:last] = part[source]
                else:
                    found = [part[row].clone() for row in of]  # faster than indices
                    for row, its in zip(to, found, strict=True):
                        part[row] = its

    def prefixes(self, rows: Sequence[int], columns: int) -> States:
        """Returns copies of the first columns of rows, for `Sharing`."""
        index = torch.tensor(rows, device=self._device)
        found: States = {}
        for layer in self._layers:
            keys, values = (
                whole[:, :, :columns].index_select(0, index).float() for whole in layer.states
            )
            found[id(layer)] = keys, values
        return found

    def keep(self, row: int, slot: Slot, tokens: Tokens) -> None:
        """Stores the keys and values of a row as those of a slot."""
        if not self.by_slot:
            return
        self._rows.pop(slot, None)
        self._rows[slot] = row
        self._tokens[row] = tokens

    @property
    def states(self) -> list[Tensor]:
        """Keys and values [R, heads, C, size] of each layer."""
        return [each for layer in self._layers for each in layer.states]

    def reserve(self, stop: int) -> None:
        """Makes `stop` columns available."""
        rows, columns = self._shape
        if stop > columns:
            # Contexts grow from call to call: a quarter more saves most copies of the cache.
            assert self.max_bytes is not None
            most = self.max_bytes // (rows * self._bytes_per_token) // BLOCK * BLOCK
            wanted = max(self._longest, columns) * 5 // 4
            columns = max(_rounded(stop), min(most, _rounded(wanted)))
            self._rebuild(range(rows), rows, columns)

    def reading(self, span: Span) -> tuple[Cache, Tensor | None]:
        """Returns the cache and the attention mask of a forward pass over a part of the rows."""
        self.reserve(span.stop)
        for layer in self._layers:
            layer.span = span
        return self._cache, span.mask(self._layers[0].dtype)


def swapped(some: Sequence[int], others: Sequence[int]) -> dict[int, int]:
    """Returns the argument of `PrefixCache.move` that exchanges rows with others."""
    return dict(zip((*some, *others), (*others, *some), strict=True))


_NONE = np.zeros(0, np.int32)


def _runs(of: Sequence[int], to: Sequence[int]) -> list[tuple[int, int, int]]:
    """Returns rows that follow each other and are copied from one row: it, the first, the end."""
    found: list[tuple[int, int, int]] = []
    for source, row in zip(of, to, strict=True):
        if found and found[-1][0] == source and found[-1][2] == row:
            found[-1] = source, found[-1][1], row + 1
        else:
            found.append((source, row, row + 1))
    return found


def _rounded(columns: int) -> int:
    return -(-columns // BLOCK) * BLOCK


def _common(known: Tokens, tokens: Tokens) -> int:
    """Returns the length of the common prefix, or 0 if it is too short to be worthwhile."""
    length = equal_tokens(known, tokens, min(len(known), len(tokens) - 1))
    return length if length >= WORTHWHILE else 0
