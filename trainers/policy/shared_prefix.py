"""Forward passes with gradients that compute the common prefix of their rows once.

Prompts begin with the same instructions, and those of a group of episodes with the same
observation. As in "Prefix Grouper: Efficient GRPO Training through Shared-Prefix Forward" (arXiv
2506.05433), one row computes the prefix, and all rows continue from its keys and values, through
which their gradients flow back. Results are those of the whole rows, up to rounding.

Shapes: B rows, S positions, P positions of the prefix, H hidden.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from agentgym.trainers.policy.language_model import LanguageModel

Run = Callable[..., Tensor]
"""Maps the inputs of a model to its hidden states [B, S, H]."""

LEAST = 256
"""Tokens that sharing must save to be worth a second forward pass."""

PROJECTIONS = 4
"""Cost of a token's projections, in hidden sizes of attention to a token (measured on a CPU)."""


def shared_length(
    policy: LanguageModel,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    position_ids: Tensor | None = None,
) -> int:
    """Returns the length P of the prefix to compute once, or 0 to compute whole rows.

    Args:
        policy: the model.
        input_ids: int64 [B, S] token ids.
        attention_mask: [B, 1, S, S] attention mask. None: causal.
        position_ids: [B, S] positions. A token at another position than its column is not shared.
    """
    rows, width = input_ids.shape
    shares = policy.shares_prefixes and policy.blocks and policy.head_output is not None
    if rows == 1 or not shares:
        return 0
    equal = (input_ids == input_ids[:1]).all(0)
    if position_ids is not None:
        equal &= (position_ids == torch.arange(width, device=equal.device)).all(0)
    length = min(int(equal.cumprod(0).sum()), width - 1)
    hidden = policy.model.config.get_text_config(decoder=True).hidden_size
    saved = _cost(hidden, rows, width, attention_mask is not None) - (
        _cost(hidden, 1, length) + _cost(hidden, rows, width, True, start=length)
    )
    return length if saved > _cost(hidden, 1, LEAST) else 0


def _cost(hidden: int, rows: int, width: int, masked: bool = False, start: int = 0) -> float:
    """Returns the cost of a layer, in the unit of attention from a token to a token.

    Causal attention without a mask leaves out the tokens that follow.
    """
    pairs = (width - start) * width if masked else width * width / 2
    return rows * ((width - start) * PROJECTIONS * hidden + pairs)


def run_shared(
    policy: LanguageModel,
    run: Run,
    length: int,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    position_ids: Tensor | None = None,
) -> Tensor:
    """Returns the hidden states [B, S, H] of rows whose first `length` tokens are equal.

    Args:
        policy: the model.
        run: runs it.
        length: number P of tokens to compute once.
        input_ids: as in `shared_length`, and so the other arguments.
        attention_mask: as `as_mask` returns it. None: causal.
        position_ids: the positions. None: the columns.
    """
    rows, width = input_ids.shape
    columns = torch.arange(width, device=input_ids.device)
    if attention_mask is None:
        attention_mask = as_mask(policy, columns <= columns[:, None])[None]
    if position_ids is None:
        position_ids = columns[None]
    prefix = Cache(layer_class_to_replicate=_Prefix)
    first = run(
        input_ids=input_ids[:1, :length],
        position_ids=columns[None, :length],
        past_key_values=prefix,
    )
    layers: list[Any] = [_Continued(layer, rows) for layer in prefix.layers]
    rest = run(
        input_ids=input_ids[:, length:],
        attention_mask=attention_mask[:, :, length:],
        position_ids=position_ids[:, length:],
        past_key_values=Cache(layers=layers),
    )
    return torch.cat([first.expand(rows, -1, -1), rest], 1)


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
    """Returns the keys and values of the prefix followed by those of each row."""

    def __init__(self, prefix: Any, rows: int):
        super().__init__()
        self.keys = prefix.keys.expand(rows, -1, -1, -1)
        self.values = prefix.values.expand(rows, -1, -1, -1)
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        assert self.keys is not None and self.values is not None
        keys = torch.cat([self.keys, key_states], -2)
        return keys, torch.cat([self.values, value_states], -2)
