"""`PrefixCache`: keys and values of many sequences, written in place and kept between calls.

A sequence is a row and a position is a column, so rows of any lengths share a batch without padding
on the left. Consecutive rows are views of the same tensors: a forward pass over them copies
nothing but the keys and values of its new tokens.

Shapes: R rows, C columns, b rows of a forward pass, n new tokens per row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from agentgym.trainers.data.trajectory import equal_tokens
from agentgym.trainers.policy.sampling import Tokens
from agentgym.trainers.policy.shared_attention import Sharing, States

IntArray = NDArray[np.int64]
Slot = int | str

WORTHWHILE = 8
"""Minimum number of tokens of a prefix that is reused. Copying fewer costs more than it saves."""

BLOCK = 64
"""Columns are allocated in multiples of this."""

CPU_BYTES = 4 << 30
"""Maximum size of the cache on a CPU."""

GPU_SHARE = 0.4
"""Maximum size of the cache on a GPU, as a share of the memory that is free at its first use."""


class LayerShape(NamedTuple):
    """Heads and sizes of the keys and values of a layer, and a dtype that holds both exactly."""

    keys: tuple[int, int]
    values: tuple[int, int]
    dtype: torch.dtype

    @classmethod
    def of(cls, layer: Any) -> LayerShape:
        """Returns the shapes of a `transformers` cache layer, [b, heads, n, size]."""
        keys, values = layer.keys, layer.values
        dtype = torch.promote_types(keys.dtype, values.dtype)  # under autocast, they may differ
        return cls(tuple(keys.shape[1::2]), tuple(values.shape[1::2]), dtype)

    @property
    def bytes(self) -> int:
        """Bytes per token."""
        numbers = self.keys[0] * self.keys[1] + self.values[0] * self.values[1]
        return numbers * self.dtype.itemsize


class Span:
    """The part of the cache that a forward pass reads and writes.

    Shorter rows repeat their last token at its position, so padding needs no columns.

    Args:
        first: the first row.
        starts: [b] number of columns of each row that are already written.
        lengths: [b] number of new tokens of each row.
        device: device of the cache.
        sharing: prefixes that the rows share. None: each row attends to its own columns.

    Attributes:
        rows: the rows, as a slice.
        width: number n of new tokens of the longest row.
        stop: number of columns that the pass reads.
        common: number of written columns if it is the same in all rows, else None.
        inside: [b, n] number of each token among the new ones of its row.
        positions: [b, n] columns of the new tokens.
    """

    def __init__(
        self,
        first: int,
        starts: IntArray,
        lengths: IntArray,
        device: torch.device,
        sharing: Sharing | None = None,
    ):
        self.sharing = sharing
        self.rows = slice(first, first + len(starts))
        self.width, self.stop = int(lengths.max()), int((starts + lengths).max())
        self.common = int(starts[0]) if (starts == starts[0]).all() else None
        self.inside = np.minimum(np.arange(self.width), lengths[:, None] - 1)
        self.positions = starts[:, None] + self.inside
        self._places = torch.from_numpy(self.positions).to(device)
        self._index = torch.arange(len(starts), device=device)[:, None], self._places

    def write(self, whole: Tensor, new: Tensor) -> Tensor:
        """Writes new keys or values [b, heads, n, size] and returns all [b, heads, stop, size]."""
        rows, new = whole[self.rows], new.to(whole.dtype)
        if self.common is not None:
            rows[:, :, self.common : self.stop] = new
        else:
            rows.transpose(1, 2)[self._index] = new.transpose(1, 2)
        return rows[:, :, : self.stop]

    def mask(self, dtype: torch.dtype) -> Tensor | None:
        """Returns the additive mask [b or 1, 1, n, stop], or None if the causal one is enough.

        Tokens attend to the columns up to their own. Columns that a longer row has written are
        thereby hidden from a shorter one.
        """
        if self.common is not None and (self.width == 1 or not self.common):
            return None
        columns = torch.arange(self.stop, device=self._places.device)
        places = self._places
        if self.common is not None:  # what follows a shorter row's tokens is not read by them
            places = self.common + torch.arange(self.width, device=places.device)[None]
        hidden = columns > places[:, None, :, None]
        return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(
            hidden, torch.finfo(dtype).min
        )


class _Layer(DynamicLayer):
    """The keys and values of a layer, as a cache layer of `transformers`."""

    span: Span

    def __init__(self, shape: LayerShape, device: torch.device):
        super().__init__()
        self.keys = torch.zeros(
            0, shape.keys[0], 0, shape.keys[1], dtype=shape.dtype, device=device
        )
        self.values = self.keys.new_zeros(0, shape.values[0], 0, shape.values[1])
        self.dtype, self.device, self.is_initialized = shape.dtype, device, True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        keys, values = (
            self.span.write(whole, new)
            for whole, new in zip(self.states, (key_states, value_states), strict=True)
        )
        sharing = self.span.sharing
        if sharing is not None and id(self) in sharing.states:  # not those of a guide
            keys.sharing = sharing, sharing.states[id(self)]  # type: ignore[attr-defined]
        return keys, values

    def get_seq_length(self) -> int:
        return self.span.stop - self.span.width

    @property
    def states(self) -> tuple[Tensor, Tensor]:
        """Keys and values [R, heads, C, size]."""
        assert self.keys is not None and self.values is not None
        return self.keys, self.values

    def rebuild(self, order: Sequence[int], rows: int, columns: int) -> None:
        """Replaces the tensors by new ones that begin with the rows in `order`."""
        for name in ("keys", "values"):
            old: Tensor = getattr(self, name)
            new = old.new_empty(rows, old.shape[1], columns, old.shape[3])
            new[: len(order), :, old.shape[2] :] = 0  # masked columns must be finite
            new[len(order) :] = 0
            if order:
                kept = old[: len(order)] if isinstance(order, range) else old[list(order)]
                new[: len(order), :, : old.shape[2]] = kept
            setattr(self, name, new)


class PrefixCache:
    """Keys and values of the contexts of each slot. Only new tokens of a prompt are computed.

    Created by `Policy.session()`. The least recently used slots are evicted if the cache would
    exceed `max_bytes`. The cache is cleared automatically when an optimiser has changed the
    weights, and manually by `clear`.

    Args:
        max_bytes: maximum size. If None, it depends on the memory of the device.
    """

    def __init__(self, max_bytes: int | None = None) -> None:
        self.max_bytes = max_bytes
        self._layers: list[_Layer] = []
        self._bytes_per_token = 0
        self._device = torch.device("cpu")
        self._shape = 0, 0
        self._weights: int | None = None
        self._rows: dict[Slot, int] = {}  # the least recently used first
        self._tokens: list[Tokens] = []  # of the columns of each row that are valid
        self._longest = 0  # tokens of the longest sequence that was placed last

    @property
    def bytes(self) -> int:
        """Size of the cache."""
        return self._shape[0] * self._shape[1] * self._bytes_per_token

    def clear(self) -> None:
        """Removes all entries."""
        self._rows.clear()

    def drop(self, slot: Slot) -> None:
        """Removes the entry of a slot, for example at the end of its episode, if there is one."""
        self._rows.pop(slot, None)

    def open(self, shapes: Sequence[LayerShape], device: torch.device, weights: int) -> None:
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
        self._layers = [_Layer(shape, device) for shape in shapes]
        self._cache = Cache(layers=list(self._layers))
        self._shape, self._tokens, self._device = (0, 0), [], device
        self._bytes_per_token = sum(shape.bytes for shape in shapes)
        if self.max_bytes is None:
            self.max_bytes = CPU_BYTES
            if device.type == "cuda":
                self.max_bytes = int(GPU_SHARE * torch.cuda.mem_get_info(device)[0])

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
    ) -> list[tuple[int, int]]:
        """Gives each sequence one of the first rows, or of the rows before those in use.

        A slot keeps its keys and values. A new slot copies those stored last, because prompts begin
        with the same instructions.

        Args:
            sequences: slot and tokens of each sequence, at most `max_rows(columns)` of them.
            columns: number of tokens that a sequence can reach.
            busy: consecutive rows in use, with at least as many rows before them as there are
                sequences. They stay as they are.

        Returns:
            For each sequence its row and the length of the cached prefix (never the whole prompt).
        """
        count = len(sequences)
        self._longest = max(len(tokens) for _, tokens in sequences)
        if busy is None:
            self._reserve({slot for slot, _ in sequences if slot is not None}, count, columns)
            target, busy = range(count), range(0)
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
        return [(rows[i], cached[i]) for i in range(count)]

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
        for layer in self._layers:
            for whole in layer.states:
                whole[to, :, columns] = whole[of, :, columns]

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
        self._rows.pop(slot, None)
        self._rows[slot] = row
        self._tokens[row] = tokens

    def reading(self, span: Span) -> tuple[Cache, Tensor | None]:
        """Returns the cache and the attention mask of a forward pass over a part of the rows."""
        rows, columns = self._shape
        if span.stop > columns:
            # Contexts grow from call to call: a quarter more saves most copies of the cache.
            assert self.max_bytes is not None
            most = self.max_bytes // (rows * self._bytes_per_token) // BLOCK * BLOCK
            wanted = max(self._longest, columns) * 5 // 4
            columns = max(_rounded(span.stop), min(most, _rounded(wanted)))
            self._rebuild(range(rows), rows, columns)
        for layer in self._layers:
            layer.span = span
        return self._cache, span.mask(self._layers[0].dtype)


def swapped(some: Sequence[int], others: Sequence[int]) -> dict[int, int]:
    """Returns the argument of `PrefixCache.move` that exchanges rows with others."""
    return dict(zip((*some, *others), (*others, *some), strict=True))


_NONE = np.zeros(0, np.int32)


def _rounded(columns: int) -> int:
    return -(-columns // BLOCK) * BLOCK


def _common(known: Tokens, tokens: Tokens) -> int:
    """Returns the length of the common prefix, or 0 if it is too short to be worthwhile."""
    length = equal_tokens(known, tokens, min(len(known), len(tokens) - 1))
    return length if length >= WORTHWHILE else 0
