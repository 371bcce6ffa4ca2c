"""Layers of caches whose keys and values are written in place: of a `PrefixCache`, of a graph.

Shapes: R rows, C columns, b rows of a forward pass, n new tokens per row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers.cache_utils import DynamicLayer

from agentgym.trainers.policy.shared_attention import Sharing

IntArray = NDArray[np.int64]


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


class CacheLayer(DynamicLayer):
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
        """Writes new keys and values and returns those that the pass reads."""
        keys, values = (
            self.span.write(whole, new)
            for whole, new in zip(self.states, (key_states, value_states), strict=True)
        )
        sharing = self.span.sharing
        if sharing is not None and id(self) in sharing.states:  # not those of a guide
            keys.sharing = sharing, sharing.states[id(self)]  # type: ignore[attr-defined]
        return keys, values

    def get_seq_length(self) -> int:
        """Returns the number of columns before the new ones."""
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


class StaticLayer(DynamicLayer):
    """The keys and values of a layer at fixed addresses, for steps of static shapes.

    Args:
        shape: shape of the layer.
        rows: number of rows R.
        columns: number of columns C.
        device: device of the model.
    """

    def __init__(self, shape: LayerShape, rows: int, columns: int, device: torch.device):
        super().__init__()
        (heads, size), (value_heads, value_size) = shape.keys, shape.values
        self.keys = torch.zeros(rows, heads, columns, size, dtype=shape.dtype, device=device)
        self.values = self.keys.new_zeros(rows, value_heads, columns, value_size)
        self.dtype, self.device, self.is_initialized = shape.dtype, device, True

    def open(self, places: Tensor, columns: int) -> None:
        """Prepares a step.

        Args:
            places: int64 [b, n] columns of the new tokens of the first b rows.
            columns: number of columns that the step reads.
        """
        self._columns, self._width = columns, places.shape[1]
        self._rows = len(places)
        self._index = torch.arange(self._rows, device=places.device)[:, None], places

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Writes new keys and values and returns those that the step reads."""
        keys, values = self.states
        keys = self._write(keys, key_states)
        keys.static = True  # type: ignore[attr-defined]
        return keys, self._write(values, value_states)

    def _write(self, whole: Tensor, new: Tensor) -> Tensor:
        rows = whole[: self._rows]
        rows.transpose(1, 2)[self._index] = new.to(whole.dtype).transpose(1, 2)
        return rows[:, :, : self._columns]

    def get_seq_length(self) -> int:
        """Returns the number of columns before the new ones, if all columns were written."""
        return self._columns - self._width

    @property
    def states(self) -> tuple[Tensor, Tensor]:
        """Keys and values [R, heads, C, size]."""
        assert self.keys is not None and self.values is not None
        return self.keys, self.values
