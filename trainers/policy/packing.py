"""Forward passes with gradients without padding, which compute common prefixes of rows once.

Prompts begin with the same instructions, and those of a group of episodes with the same
observation. The rows of a pass form a trie of tokens, which are packed into one row: each is
computed once, and only attention gathers the keys and values of whole rows. Prefixes are shared as
in "Prefix Grouper: Efficient GRPO Training through Shared-Prefix Forward" (arXiv 2506.05433), but
of any groups of rows, in one pass. Results are those of whole rows, up to rounding.

Shapes: B rows, S columns, T packed tokens, h query heads, k key-value heads. In a block of
attention: b rows, n columns, m the most tokens of a row that attend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from agentgym.trainers.data.trajectory import IntArray, equal_tokens
from agentgym.trainers.policy.exact_weights import UNFIT
from agentgym.trainers.policy.probes import equal_logits, holds
from agentgym.trainers.policy.shared_attention import shares_attention

LEAST_CPU, LEAST = 256, 4096
"""Tokens that packing must save on a CPU and on other devices, to be worth further operations. The
second number is an estimate, and so is `BLOCK`."""

SHORTEST = 8
"""Tokens of a prefix that is shared. Rows without prefixes need no mask."""

PROJECTIONS = 4
"""Cost of a token's projections, in hidden sizes of attention to a token (measured on a CPU)."""

BLOCK_CPU, BLOCK = 1 << 13, 1 << 20
"""Cost of a further block of attention on a CPU and on other devices, in attention to a token."""


def least_saved(device: torch.device) -> int:
    """Returns the number of tokens that packing must save on a device."""
    return LEAST_CPU if device.type == "cpu" else LEAST


@dataclass(frozen=True)
class Packing:
    """The tokens of some rows, of which equal prefixes are one.

    Attributes:
        place: int64 [B, S] the packed token at each column of a row. Undefined after its end.
        own: the columns of each row that no row before it has.
        source: int64 [T] index of each packed token among all B * S.
        visible: bool [B, S, S] what the columns of a row attend to. None: causal.
        device: device of the model.
    """

    place: IntArray
    own: Sequence[IntArray]
    source: IntArray
    visible: NDArray[np.bool_] | None
    device: torch.device

    @classmethod
    def of(
        cls,
        input_ids: Tensor,
        lengths: IntArray,
        hidden: int,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Packing:
        """Packs rows.

        Args:
            input_ids: int64 [B, S] token ids.
            lengths: [B] numbers of tokens of the rows.
            hidden: hidden size of the model.
            attention_mask: bool [B, 1, S, S] mask of tokens that attend to earlier ones only, and
                causally as long as positions are columns. None: causal.
            position_ids: [B, S] positions. None: the columns.
        """
        count, width = input_ids.shape
        tokens, alike = input_ids.cpu().numpy(), lengths
        if position_ids is not None:
            moved = position_ids.cpu().numpy() != np.arange(width)
            alike = np.minimum(lengths, np.where(moved.any(1), moved.argmax(1), width))
        order = sorted(range(count), key=lambda row: tokens[row, : alike[row]].tobytes())
        place = np.zeros((count, width), np.int64)
        own = [np.arange(0)] * count
        source: list[IntArray] = []
        packed, before = 0, order[0]
        for row in order:
            common = 0
            if source:
                most = int(min(alike[row], alike[before]))
                common = equal_tokens(tokens[before], tokens[row], most)
                masked = attention_mask is not None
                common = common if _worth(common, int(lengths[row]), hidden, masked) else 0
            place[row, :common] = place[before, :common]
            own[row] = np.arange(common, lengths[row])
            place[row, common : lengths[row]] = packed + np.arange(len(own[row]))
            source.append(row * width + own[row])
            packed, before = packed + len(own[row]), row
        visible = None if attention_mask is None else attention_mask[:, 0].cpu().numpy()
        return cls(place, own, np.concatenate(source), visible, input_ids.device)

    @cached_property
    def everything(self) -> Attending:
        """Attention of all packed tokens."""
        return Attending(self, self.own)

    def at(self, columns: Tensor) -> Attending:
        """Returns the attention of some packed tokens."""
        some = np.zeros(len(self.source), bool)
        some[columns.cpu().numpy()] = True
        own = [own[some[at[own]]] for own, at in zip(self.own, self.place, strict=True)]
        return Attending(self, own)

    @property
    def saves(self) -> bool:
        """Whether the packed tokens are clearly fewer than those of whole rows, and any."""
        return 0 < len(self.source) < self.place.size - least_saved(self.device)

    def packed(self, places: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Returns the row, which is 0, and the packed tokens at rows [p] and columns [p]."""
        row, column = (each.cpu().numpy() for each in places)
        token = torch.from_numpy(self.place[row, column]).to(self.device)
        return torch.zeros_like(token), token

    def inputs(self, input_ids: Tensor, position_ids: Tensor | None = None) -> dict[str, Tensor]:
        """Returns the inputs of the model.

        Args:
            input_ids: int64 [B, S] token ids of the rows.
            position_ids: [B, S] their positions. None: the columns.
        """
        source = torch.from_numpy(self.source).to(self.device)
        columns = source % input_ids.shape[1]
        positions = columns if position_ids is None else position_ids.flatten()[source]
        return {
            "input_ids": input_ids.flatten()[source][None],
            "position_ids": positions[None],
            # So that none is made: attention has its own.
            "attention_mask": torch.ones(1, 1, 1, 1, dtype=torch.bool, device=self.device),
        }


def _worth(common: int, length: int, hidden: int, masked: bool) -> bool:
    """Returns whether the first tokens of a row are shared, and not computed again.

    The tokens that follow a shared prefix attend with a mask. Causal attention without one leaves
    out the tokens that follow.

    Args:
        common: number of the first tokens.
        length: number of all tokens.
        hidden: hidden size of the model.
        masked: whether there is a mask in any case.
    """
    more = 0.0 if masked else (length - common) * length - length * length / 2
    return common >= SHORTEST and common * PROJECTIONS * hidden > more


class Attending:
    """Packed tokens that attend, in blocks of rows with about as many of them.

    Args:
        packing: the packed rows.
        columns: the columns of the tokens of each row.
    """

    def __init__(self, packing: Packing, columns: Sequence[IntArray]):
        self._blocks: list[_Block] = []
        self._count = len(packing.source)
        places, found, start = [], [], 0
        # Rows that attend from their first token on need no mask.
        parts: tuple[list[int], list[int]] = [], []
        for row, some in enumerate(columns):
            if len(some):
                whole = packing.visible is None and len(some) == some[-1] + 1
                parts[int(whole)].append(row)
        for rows in [each for part in parts for each in _similar(part, columns, packing.device)]:
            self._blocks.append(_Block.of(packing, rows, [columns[row] for row in rows]))
            most = len(self._blocks[-1].queries) // len(rows)
            for row in rows:
                places.append(packing.place[row, columns[row]])
                found.append(start + np.arange(len(columns[row])))
                start += most
        self._places, self._found = (
            torch.from_numpy(np.concatenate(each)).to(packing.device) for each in (places, found)
        )

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor:
        """Returns the results [1, T, h, size] of attention, 0 for tokens that do not attend.

        Args:
            query: [1, h, T, size] queries of the packed tokens.
            key: [1, k, T, size] their keys.
            value: [1, k, T, size] their values.
            scale: factor of the scores. None: 1 / sqrt(size).
        """
        query, key, value = (each[0].transpose(0, 1) for each in (query, key, value))
        results = torch.cat([block.attend(query, key, value, scale) for block in self._blocks])
        results = results.index_select(0, self._found)
        whole = results.new_zeros(self._count, *results.shape[1:])
        return whole.index_copy(0, self._places, results)[None]


@dataclass(frozen=True)
class _Block:
    """Rows that attend together.

    Attributes:
        queries: int64 [b * m] packed tokens that attend. Shorter rows repeat their last one.
        keys: int64 [b * n] packed tokens of the rows. Shorter rows repeat their last one.
        rows: number of rows b.
        mask: bool [b, 1, m, n] what each token attends to. None: causal, with m = n.
    """

    queries: Tensor
    keys: Tensor
    rows: int
    mask: Tensor | None

    @classmethod
    def of(cls, packing: Packing, rows: Sequence[int], columns: Sequence[IntArray]) -> _Block:
        """Returns the block of some rows, given the columns of their tokens that attend."""
        counts = np.array([len(some) for some in columns])
        inside = np.minimum(np.arange(counts.max()), counts[:, None] - 1)
        query = np.stack([some[each] for some, each in zip(columns, inside, strict=True)])
        stops = query.max(1, keepdims=True) + 1
        key = np.minimum(np.arange(stops.max()), stops - 1)
        row = np.array(rows)[:, None]
        mask = None
        if packing.visible is not None:
            mask = packing.visible[row, query, : stops.max()]
        elif not np.array_equal(query, key):
            mask = np.arange(stops.max()) <= query[:, :, None]
        arrays = packing.place[row, query].ravel(), packing.place[row, key].ravel()
        queries, keys = (torch.from_numpy(each).to(packing.device) for each in arrays)
        if mask is None:
            return cls(queries, keys, len(rows), None)
        return cls(queries, keys, len(rows), torch.from_numpy(mask)[:, None].to(packing.device))

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor:
        """Returns the results [b * m, h, size] of attention.

        Args:
            query: [T, h, size] queries of the packed tokens.
            key: [T, k, size] their keys.
            value: [T, k, size] their values.
            scale: factor of the scores. None: 1 / sqrt(size).
        """
        taken = query[self.queries], _Take.apply(key, self.keys), _Take.apply(value, self.keys)
        query, key, value = (each.unflatten(0, (self.rows, -1)).transpose(1, 2) for each in taken)
        heads, kinds = query.shape[1], key.shape[1]
        if self.mask is None:
            found = scaled_dot_product_attention(
                query, key, value, is_causal=True, scale=scale, enable_gqa=heads != kinds
            )
        else:  # heads that read the same keys become further queries
            packed = query.reshape(self.rows, kinds, -1, query.shape[-1])
            mask = self._added(query, heads // kinds)
            found = scaled_dot_product_attention(packed, key, value, mask, scale=scale)
            found = found.reshape(self.rows, heads, -1, found.shape[-1])
        return found.transpose(1, 2).flatten(0, 1)

    @cached_property
    def _masks(self) -> dict[tuple[torch.dtype, int], Tensor]:
        return {}

    def _added(self, query: Tensor, times: int) -> Tensor:
        """Returns the additive mask [b, 1, times * m, n], which is that of all layers.

        Of a mask of truth values, attention would keep a copy per layer for the backward pass.

        Args:
            query: queries, whose dtype it has, or that in which autocast computes.
            times: number of heads that read the same keys.
        """
        assert self.mask is not None
        dtype, device = query.dtype, query.device.type
        if torch.is_autocast_enabled(device) and dtype != torch.float64:
            dtype = torch.get_autocast_dtype(device)
        if (dtype, times) not in self._masks:
            rows, _, _, width = self.mask.shape
            hidden = ~self.mask.repeat(1, 1, times, 1)
            # Attention on GPUs copies masks whose rows do not begin at multiples of 8 elements.
            shape = rows, 1, hidden.shape[2], -(-width // 8) * 8
            mask = torch.zeros(shape, dtype=dtype, device=query.device)[..., :width]
            self._masks[dtype, times] = mask.masked_fill_(hidden, -torch.inf)
        return self._masks[dtype, times]


class _Take(torch.autograd.Function):
    """`index_select` of rows. Gradients of equal ones are added up in float32, or more."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, index: Tensor) -> Tensor:
        ctx.count, ctx.index = len(states), index
        return states.index_select(0, index)

    @staticmethod
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, gradient: Tensor
    ) -> tuple[Tensor, None]:
        dtype = torch.promote_types(gradient.dtype, torch.float32)
        found = torch.zeros(ctx.count, *gradient.shape[1:], dtype=dtype, device=gradient.device)
        found.index_add_(0, ctx.index, gradient.to(dtype))
        return found.to(gradient.dtype), None


def _similar(
    rows: Sequence[int], columns: Sequence[IntArray], device: torch.device
) -> list[list[int]]:
    """Splits rows into blocks, in which few queries and keys are padding.

    Args:
        rows: the rows.
        columns: the columns of the tokens of all rows that attend.
        device: device of the model.
    """
    order = sorted(rows, key=lambda row: (len(columns[row]), columns[row][-1]))
    counts = np.array([len(columns[row]) for row in order])
    stops = np.array([columns[row][-1] + 1 for row in order])
    least = BLOCK_CPU if device.type == "cpu" else BLOCK
    parts, found = [np.arange(len(order))] if order else [], []
    while parts:
        part = parts.pop()
        own, ends = counts[part], stops[part]
        below = np.arange(1, len(part))  # numbers of rows in a first block
        first = below * own[:-1] * np.maximum.accumulate(ends)[:-1]
        second = (len(part) - below) * own[-1] * np.maximum.accumulate(ends[::-1])[::-1][1:]
        costs = first + second + least
        if len(costs) and costs.min() < len(part) * own[-1] * ends.max():
            middle = int(costs.argmin()) + 1
            parts += [part[middle:], part[:middle]]
        else:
            found.append([order[i] for i in part])
    return found


def can_pack(model: Any, token: int) -> bool:
    """Returns whether packed rows have the logits of whole rows, on a probe.

    Args:
        model: a `transformers` causal LM.
        token: a token id of the probe.
    """
    return holds(model, token, lambda: _can_pack(model, token))


@torch.no_grad()
def _can_pack(model: Any, token: int) -> bool:
    if model.config.get_text_config(decoder=True)._attn_implementation != "sdpa":
        return False
    device, other = next(model.parameters()).device, 0 if token else 1
    rows = torch.tensor([token, other], device=device).repeat(2, SHORTEST)
    rows[1, SHORTEST + 1 :] = token
    lengths = np.array([SHORTEST + 2, rows.shape[1]])
    packing = Packing.of(rows, lengths, hidden=1 << 20)  # shares all that it can
    inside = torch.from_numpy(np.arange(rows.shape[1]) < lengths[:, None]).to(device)
    row, column = torch.nonzero(inside, as_tuple=True)
    whole = model(input_ids=rows, use_cache=False).logits[row, column]
    try:
        with shares_attention(model, (packing.everything, None)):
            found = model(**packing.inputs(rows), use_cache=False).logits
    except UNFIT:  # other attention
        return False
    if found.shape[:2] != (1, len(packing.source)):
        return False
    return equal_logits(whole, found[packing.packed((row, column))])
