"""Attention of generated tokens to prefixes that several rows share.

Prompts begin with the same instructions, and those of a group of episodes with the same
observation. The keys and values of such a prefix are read once for all its rows instead of once per
row, as in "Bifurcated Attention" (arXiv 2403.08845) and "Hydragen" (arXiv 2402.05099). The scores
of both parts are normalised together, so results are those of plain attention up to rounding.

Shapes: b rows, n new tokens per row, h query heads, k key-value heads, P tokens of a prefix, S
columns, F prefixes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from agentgym.trainers.data.trajectory import equal_tokens
from agentgym.trainers.policy.loading import base_model
from agentgym.trainers.policy.sampling import Tokens

NAME = "agentgym_shared"

LEAST_CPU, LEAST = 1024, 1 << 16
"""Keys that a forward pass must save, on a CPU and on other devices: fewer cost less to read than
the further operations take."""

WIDEST = 16
"""Maximum number n of new tokens per row. With more, all scores would take too much memory."""

READS = "_reads"
"""Attribute of an attention module: the `Reads` of its results, if it is set."""

PACKED: ContextVar[tuple[Any, Any] | None] = ContextVar("packed", default=None)
"""The attention of packed rows in all layers and in a last one that is read at few places."""

PLAIN = ("position_bias", "softcap")
"""Arguments with which attention is that of "sdpa", which may reject them."""


class Reads(NamedTuple):
    """Positions of rows that are read.

    Attributes:
        rows: int64 [r] rows.
        columns: int64 [r] columns.
        inside: int64 [r] the number of each position among those of its row.
        places: int64 [b, m] the columns of each row, padded with 0.
    """

    rows: Tensor
    columns: Tensor
    inside: Tensor
    places: Tensor

    @classmethod
    def of(cls, rows: Tensor, columns: Tensor, count: int, width: int) -> Reads:
        """Returns the distinct ones of some positions.

        Args:
            rows: int64 [x] rows.
            columns: int64 [x] columns.
            count: number of rows b.
            width: number of columns.
        """
        flat = torch.unique(rows * width + columns)
        rows, columns = flat // width, flat % width
        counts = torch.bincount(rows, minlength=count)
        inside = torch.arange(len(flat), device=flat.device) - (counts.cumsum(0) - counts)[rows]
        places = columns.new_zeros(count, int(counts.max()))
        places[rows, inside] = columns
        return cls(rows, columns, inside, places)

    @classmethod
    def one_each(cls, columns: Tensor) -> Reads:
        """Returns one position per row, given its column, int64 [b]."""
        rows = torch.arange(len(columns), device=columns.device)
        return cls(rows, columns, torch.zeros_like(columns), columns[:, None])

    def to(self, device: torch.device) -> Reads:
        """Returns a copy on another device."""
        return Reads(*(each.to(device) for each in self))

    def pick(self, whole: Tensor) -> Tensor:
        """Returns the entries [r, ...] of [b, n, ...] at the positions."""
        return whole[self.rows, self.columns]

    def spread(self, entries: Tensor, count: int, width: int) -> Tensor:
        """Returns [b, n, ...] with the entries [r, ...] at the positions, and 0 elsewhere."""
        whole = entries.new_zeros(count, width, *entries.shape[1:])
        return whole.index_put((self.rows, self.columns), entries)


def common_prefixes(prompts: Sequence[Tokens], most: int) -> tuple[int, list[list[int]]]:
    """Returns the length P of the prefixes that save most, and the numbers of each one's prompts.

    Args:
        prompts: b token sequences, at least `most` tokens long.
        most: maximum of P.
    """
    order = sorted(range(len(prompts)), key=lambda i: prompts[i][:most].astype(">i4").tobytes())
    common = [equal_tokens(prompts[i], prompts[j], most) for i, j in pairwise(order)]
    lengths = np.array(sorted(common, reverse=True))
    saved = lengths * np.arange(1, len(order))
    length = int(lengths[saved.argmax()]) if common else 0
    families = [order[:1]]
    for i, equal in zip(order[1:], common, strict=True):
        if equal >= length:
            families[-1].append(i)
        else:
            families.append([i])
    return length, sorted(map(sorted, families))


States = dict[int, tuple[Tensor, Tensor]]
"""Float32 keys and values [F, k, P, size] of prefixes, by the `id` of each layer of a cache."""


class Prefixes:
    """Prefixes of the rows of a window.

    Args:
        length: length P of the prefixes.
        number: the number of each row's prefix.
        states: copies their keys and values.
        device: device of the model.
    """

    def __init__(
        self,
        length: int,
        number: Mapping[Any, int],
        states: Callable[[], States],
        device: torch.device,
    ):
        self._length, self._number, self._device = length, number, device
        self._least = LEAST_CPU if device.type == "cpu" else LEAST
        self._states = states() if self._saved(list(number.values())) >= self._least else {}
        self._last: tuple[list[int], Sharing | None] = [], None

    def _saved(self, numbers: list[int]) -> int:
        """Returns the number of keys that need not be read."""
        return (len(numbers) - len(set(numbers))) * self._length

    def know(self, rows: Sequence[Any]) -> bool:
        """Returns whether the prefixes of all rows are known."""
        return all(row in self._number for row in rows)

    def of(self, rows: Sequence[Any]) -> Sharing | None:
        """Returns how known rows share the prefixes, or None if it would save little."""
        if not self._states:
            return None
        numbers = [self._number[row] for row in rows]
        if numbers != self._last[0]:
            sharing = None
            if self._saved(numbers) >= self._least:
                sharing = Sharing(self._length, self._states, np.array(numbers), self._device)
            self._last = numbers, sharing
        return self._last[1]


class Sharing:
    """Rows of a forward pass, each of which begins with one of F prefixes of the same length.

    Args:
        length: length P of the prefixes.
        states: their keys and values.
        prefixes: [b] the number of each row's prefix.
        device: device of the model.
    """

    def __init__(
        self, length: int, states: States, prefixes: NDArray[np.int64], device: torch.device
    ):
        self.length, self.states = length, states
        count = len(next(iter(states.values()))[0])
        counts = np.bincount(prefixes, minlength=count)
        self._most = int(counts.max())
        order = np.argsort(prefixes, kind="stable")
        inside = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        places = np.empty_like(order)  # of each row, if all prefixes had as many rows
        places[order] = prefixes[order] * self._most + inside
        rows = np.zeros(count * self._most, np.int64)
        rows[places] = np.arange(len(order))
        identity = np.arange(len(order))
        self._in_order = len(rows) == len(order) and bool((places == identity).all())
        self._rows, self._places = (torch.from_numpy(x).to(device) for x in (rows, places))

    def by_prefix(self, rows: Tensor) -> Tensor:
        """Returns rows [b, k, m, x] by their prefix, [F, k, rows per prefix * m, x]."""
        if not self._in_order:
            rows = rows[self._rows]
        return rows.unflatten(0, (-1, self._most)).transpose(1, 2).flatten(2, 3)

    def by_row(self, prefixes: Tensor) -> Tensor:
        """Inverts `by_prefix`."""
        rows = prefixes.unflatten(2, (self._most, -1)).transpose(1, 2).flatten(0, 1)
        return rows if self._in_order else rows[self._places]

    def attend(
        self,
        prefix: tuple[Tensor, Tensor],
        query: Tensor,
        own: tuple[Tensor, Tensor],
        mask: Tensor | None,
    ) -> Tensor:
        """Returns the results [b, h, n, size] of attention.

        Args:
            prefix: keys and values [F, k, P, size] of the prefixes.
            query: [b, h, n, size] scaled queries.
            own: keys and values [b, k, S - P, size] of the columns after the prefixes.
            mask: additive mask [b or 1, 1, n, S - P] of these columns, or None.
        """
        b, h, n, size = query.shape
        query = query.reshape(b, own[0].shape[1], -1, size)  # [b, k, h / k * n, size]
        scores = _product(query, own[0].mT)
        if mask is not None:
            scores = (scores.view(b, h, n, -1) + mask).view_as(scores)
        shared = self.by_row(_product(self.by_prefix(query), prefix[0].mT))
        weights = torch.cat([shared, scores], -1).softmax(-1)
        result = _product(weights[..., self.length :], own[1])
        of_prefix = self.by_prefix(weights[..., : self.length])
        result += self.by_row(_product(of_prefix, prefix[1]))
        return result.view(b, h, n, -1)


def _product(one: Tensor, other: Tensor) -> Tensor:
    """Returns the products of matrices [x, y, ...], without copying consecutive ones."""
    product = torch.bmm(one.flatten(0, 1), other.flatten(0, 1))
    return product.unflatten(0, one.shape[:2])


def _attention(
    module: Any,
    query: Tensor,
    key: Any,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention for `transformers`.

    Keys without a `sharing` are attended to as with "sdpa", others in float32. If `READS` of the
    module names some places, the results of all others are 0. Packed rows have attention of their
    own.
    """
    reads: Reads | None = getattr(module, READS, None)
    plain = all(kwargs.get(name) is None for name in PLAIN)
    if (packed := PACKED.get()) is not None:
        if not plain or attention_mask is None or attention_mask.numel() > 1:
            raise NotImplementedError("Packed rows need plain attention.")
        whole, last = packed
        return (whole if reads is None else last).attend(query, key, value, scaling), None
    if reads is not None and plain and getattr(module, "is_causal", True):
        count, _, width, _ = query.shape
        query, attention_mask = _at(reads.places, query, key.shape[2], attention_mask)
        found, _ = _attention_of(module, query, key, value, attention_mask, scaling, **kwargs)
        return reads.spread(found[reads.rows, reads.inside], count, width), None
    return _attention_of(module, query, key, value, attention_mask, scaling, **kwargs)


def _at(places: Tensor, query: Tensor, columns: int, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Returns the queries [b, h, m, size] at some places of each row, and their additive mask."""
    rows = torch.arange(len(places), device=places.device)[:, None]
    if mask is None:  # causal
        hidden = torch.arange(columns, device=places.device) > places[:, :, None]
        some = torch.zeros(hidden.shape, dtype=query.dtype, device=query.device)
        some = some.masked_fill_(hidden, torch.finfo(query.dtype).min)
    else:
        some = mask.expand(len(places), -1, -1, -1)[rows, 0, places]
    return query[rows, :, places].transpose(1, 2), some[:, None]


def _attention_of(
    module: Any,
    query: Tensor,
    key: Any,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    sharing: tuple[Sharing, tuple[Tensor, Tensor]] | None = getattr(key, "sharing", None)
    plain = all(kwargs.get(name) is None for name in PLAIN)
    if getattr(key, "static", False) and plain and attention_mask is not None:
        return _by_group(query, key, value, attention_mask, scaling), None
    if sharing is None or not plain:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **kwargs
        )
    plan, prefix = sharing
    scaled = query.float() * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    own = key[:, :, plan.length :].float(), value[:, :, plan.length :].float()
    mask = None if attention_mask is None else attention_mask[..., plan.length :]
    with torch.autocast(query.device.type, enabled=False):
        found = plan.attend(prefix, scaled, own, mask)
    return found.transpose(1, 2).to(query.dtype), None


def _by_group(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: float | None
) -> Tensor:
    """Returns the results [b, n, h, size] of attention, without copies of the keys for each head.

    The h / k heads that read the same keys become further queries.
    """
    b, h, n, size = query.shape
    packed = query.reshape(b, key.shape[1], -1, size)
    mask = mask.repeat(1, 1, packed.shape[2] // n, 1)
    found = scaled_dot_product_attention(packed, key, value, mask, scale=scaling)
    return found.reshape(b, h, n, -1).transpose(1, 2)


AttentionInterface.register(NAME, _attention)
AttentionMaskInterface.register(NAME, sdpa_mask)


@contextmanager
def shares_attention(model: Any, packed: tuple[Any, Any] | None = None) -> Iterator[None]:
    """Context manager in which a model with the attention "sdpa" can share prefixes.

    Models without `transformers`' interface of attentions, such as Falcon, stay as they are.

    Args:
        model: a `transformers` model.
        packed: the attention of packed rows, see `PACKED`. None: rows are not packed.
    """
    config = model.config.get_text_config(decoder=True)
    before = config._attn_implementation
    if before == "sdpa" and base_model(model)._supports_attention_backend:
        config._attn_implementation = NAME
    token = PACKED.set(packed)
    try:
        yield
    finally:
        PACKED.reset(token)
        config._attn_implementation = before
