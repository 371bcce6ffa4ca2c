"""Forward passes with gradients that compute common prefixes of their rows once.

Prompts begin with the same instructions, and those of a group of episodes with the same
observation. As in "Prefix Grouper: Efficient GRPO Training through Shared-Prefix Forward" (arXiv
2506.05433), one row computes a prefix, and all its rows continue from its keys and values, through
which their gradients flow back: first the prefix of all rows, then those of groups. Results are
those of the whole rows, up to rounding.

Shapes: B rows, S positions, P positions of the prefix, H hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from agentgym.trainers.policy.language_model import LanguageModel
from agentgym.trainers.policy.shared_attention import common_prefixes

Run = Callable[..., Tensor]
"""Maps the inputs of a model to its hidden states [B, S, H]."""

LEAST = 256
"""Tokens that sharing must save to be worth a second forward pass."""

PROJECTIONS = 4
"""Cost of a token's projections, in hidden sizes of attention to a token (measured on a CPU)."""


class Part(NamedTuple):
    """Positions of rows that are computed once for each group of equal rows.

    Attributes:
        stop: the position after the last one. The part begins where the one before it stops.
        leaders: int64 [F] a row of each group.
        group: int64 [B] the group of each row.
    """

    stop: int
    leaders: Tensor
    group: Tensor


def shared_parts(
    policy: LanguageModel,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    position_ids: Tensor | None = None,
) -> list[Part]:
    """Returns the parts of rows to compute once: of all rows, of groups. Empty to compute all.

    Args:
        policy: the model.
        input_ids: int64 [B, S] token ids.
        attention_mask: [B, 1, S, S] attention mask, with which groups are not looked for. None:
            causal.
        position_ids: [B, S] positions. A token at another position than its column is not shared.
    """
    rows, width = input_ids.shape
    shares = policy.shares_prefixes and policy.blocks and policy.head_output is not None
    if rows == 1 or not shares:
        return []
    equal = (input_ids == input_ids[:1]).all(0)
    if position_ids is not None:
        equal &= (position_ids == torch.arange(width, device=equal.device)).all(0)
    length = min(int(equal.cumprod(0).sum()), width - 1)
    proposed = [(length, [list(range(rows))])]
    if attention_mask is None:
        proposed.append(common_prefixes(list(input_ids.cpu().numpy()), width - 1, length))
    hidden = policy.model.config.get_text_config(decoder=True).hidden_size
    parts: list[Part] = []
    start, masked = 0, attention_mask is not None
    for stop, groups in proposed:
        saved = _cost(hidden, rows, width, masked, start) - (
            _cost(hidden, len(groups), stop, start > 0, start)
            + _cost(hidden, rows, width, True, stop)
        )
        if stop > start and saved > _cost(hidden, 1, LEAST):
            leaders = torch.tensor([group[0] for group in groups], device=input_ids.device)
            group = torch.empty(rows, dtype=torch.long)
            for number, members in enumerate(groups):
                group[members] = number
            parts.append(Part(stop, leaders, group.to(input_ids.device)))
            start, masked = stop, True
    return parts


def _cost(hidden: int, rows: int, width: int, masked: bool = False, start: int = 0) -> float:
    """Returns the cost of a layer, in the unit of attention from a token to a token.

    Causal attention without a mask leaves out the tokens that follow.
    """
    pairs = (width - start) * width if masked else width * width / 2
    return rows * ((width - start) * PROJECTIONS * hidden + pairs)


def run_shared(
    policy: LanguageModel,
    run: Run,
    parts: Sequence[Part],
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    position_ids: Tensor | None = None,
) -> Tensor:
    """Returns the hidden states [B, S, H] of rows.

    Args:
        policy: the model.
        run: runs it.
        parts: the parts to compute once, at least one.
        input_ids: as in `shared_parts`, and so the other arguments.
        attention_mask: as `as_mask` returns it. None: causal.
        position_ids: the positions. None: the columns.
    """
    rows, width = input_ids.shape
    columns = torch.arange(width, device=input_ids.device)
    if attention_mask is None:
        attention_mask = as_mask(policy, columns <= columns[:, None])[None]
    if position_ids is None:
        position_ids = columns[None]
    first, every = parts[0], torch.arange(rows, device=input_ids.device)
    cache = Cache(layer_class_to_replicate=_Prefix)
    states = run(
        input_ids=input_ids[first.leaders, : first.stop],
        position_ids=columns[None, : first.stop],
        **{policy.cache_name: cache},
    )
    found = [_spread(states, first.group)]
    for before, part in pairwise([*parts, Part(width, every, every)]):
        place = slice(before.stop, part.stop)
        group = before.group[part.leaders]
        layers: list[Any] = [_Continued(layer, group) for layer in cache.layers]
        cache = Cache(layers=layers)
        states = run(
            input_ids=input_ids[part.leaders, place],
            attention_mask=_of_rows(attention_mask, part.leaders)[:, :, place, : part.stop],
            position_ids=_of_rows(position_ids, part.leaders)[:, place],
            **{policy.cache_name: cache},
        )
        found.append(states if part.leaders is every else _spread(states, part.group))
    return torch.cat(found, 1)


def _of_rows(some: Tensor, rows: Tensor) -> Tensor:
    """Returns the entries of rows, if there is not one for all of them."""
    return some if len(some) == 1 or len(some) == len(rows) else some[rows]


def _spread(some: Tensor, group: Tensor) -> Tensor:
    """Returns for each row the entry of its group."""
    if len(some) == 1:
        return some.expand(len(group), *some.shape[1:])
    return _Spread.apply(some, group)  # type: ignore[no-any-return]


class _Spread(torch.autograd.Function):
    """`index_select` of rows, whose gradient torch computes element by element."""

    @staticmethod
    def forward(ctx: Any, some: Tensor, group: Tensor) -> Tensor:
        ctx.count, ctx.group = len(some), group
        return some.index_select(0, group)

    @staticmethod
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, gradient: Tensor
    ) -> tuple[Tensor, None]:
        found = gradient.new_zeros(ctx.count, *gradient.shape[1:])
        return found.index_add_(0, ctx.group, gradient), None


def as_mask(policy: LanguageModel, visible: Tensor) -> Tensor:
    """Returns a mask [..., 1, S, S] as the attention implementation expects it.

    Args:
        policy: the model.
        visible: bool [..., S, S] True where a token attends to another one.
    """
    mask = visible.unsqueeze(-3)
    config = policy.model.config.get_text_config(decoder=True)
    if getattr(config, "_attn_implementation", None) == "sdpa":
        return mask
    dtype = policy.model.get_input_embeddings().weight.dtype
    return torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, torch.finfo(dtype).min)


class _Prefix(DynamicLayer):
    """Records the keys and values of the prefix [1, heads, P, size].

    A layer that is computed again in the backward pass finds it unchanged. The same holds for
    `_Continued`.
    """

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.keys, self.values, self.is_initialized = key_states, value_states, True
        return key_states, value_states


class _Continued(DynamicLayer):
    """Returns and records the keys and values of each row's prefix followed by those of the row."""

    def __init__(self, prefix: Any, group: Tensor):
        super().__init__()
        self._before = _spread(prefix.keys, group), _spread(prefix.values, group)
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        keys, values = self._before
        found = torch.cat([keys, key_states], -2), torch.cat([values, value_states], -2)
        if self.keys is None:
            self.keys, self.values = found
        return found

    def get_seq_length(self) -> int:
        return self._before[0].shape[-2]
