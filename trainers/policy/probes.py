"""Probes of a model when it is loaded: what it attends to, which masks it reads, how it caches.

The trainer computes log-probabilities in several ways: whole sequences, steps with a cache, rows of
different lengths. Architectures differ in their masks and caches, and one that does not do as the
others do would sample from another distribution without an error. So a few tokens are computed at
load in each way that is not known to be right, and compared with plain forward passes.

Shapes: b rows, n tokens, V vocabulary.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Mapping
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import DynamicIndexedLayer, DynamicLayer, DynamicSlidingWindowLayer

from agentgym.errors import ConfigError
from agentgym.trainers.policy.exact_weights import UNFIT, in_float32
from agentgym.trainers.policy.loading import base_model

TOLERANCE = 0.01
"""Largest difference from a plain forward pass, as a share of the largest logit, for rounding."""

LOOKED_AT = 64
"""Number of tokens among which one with another embedding is looked for."""

KNOWN = (DynamicLayer, DynamicSlidingWindowLayer, DynamicIndexedLayer)
"""Layers of a cache that hold an entry per token."""

CACHE_NAMES = ("past_key_values", "cache", "cache_params")
"""Names of the cache argument in `transformers`: before 5.24, from then on, and of recurrent models
before."""

OWN_WINDOWS = ("window", "local_attention", "attention_chunk")
"""Parts of the names of settings with which attention sees a part of the earlier tokens only."""


class Cached(Protocol):
    """A language model that computes with a cache. `LanguageModel` satisfies it."""

    model: Any
    padding: bool
    blocks: bool
    inference_mode: bool
    cache_name: str
    pad_token: int

    @property
    def end_token(self) -> int:
        """The token that ends actions."""
        ...

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        ...

    def new_cache(self) -> Any:
        """Returns an empty cache."""

    def next_logits(
        self, tokens: np.ndarray, mask: np.ndarray, positions: np.ndarray, cache: Any
    ) -> Tensor:
        """Returns the logits [b, V] after tokens [b, n]."""
        ...


def equal_logits(one: Tensor, other: Tensor) -> bool:
    """Returns whether logits are equal up to rounding."""
    one, other = one.float(), other.float()
    return bool((one - other).abs().max() <= TOLERANCE * one.abs().max())


def holds(model: Any, token: int, check: Callable[[], bool]) -> bool:
    """Returns whether a check of a model holds, up to rounding.

    In bfloat16, rounding alone changes logits by a tenth and more. A check that fails in a
    precision below float32 is repeated in float32.

    Args:
        model: a `transformers` causal LM.
        token: a token id of a probe.
        check: compares logits of the model.
    """
    if check():
        return True
    with in_float32(model, token) as exact:
        return exact and check()


@torch.no_grad()
def check_causal(model: Any, token: int) -> None:
    """Checks that the logits of a position do not depend on later tokens.

    Args:
        model: a `transformers` causal LM.
        token: a token id of the probe.

    Raises:
        ConfigError: if they do, as in encoders that are loaded with a language-modelling head.
    """
    x, y = token, _other(model, token)
    device = next(model.parameters()).device
    rows = torch.tensor([[x, x], [x, y]], device=device)

    def causal() -> bool:
        logits = model(input_ids=rows, use_cache=False).logits
        return not bool(logits.isfinite().all()) or equal_logits(logits[0, 0], logits[1, 0])

    if not holds(model, token, causal):
        raise ConfigError(
            f"{type(base_model(model)).__name__} attends to later tokens, so it is no causal "
            'language model. If it was trained as a decoder, set "is_decoder": true in its '
            "config.json. Otherwise choose a causal language model."
        )


@torch.no_grad()
def reads_masks(model: Any, token: int) -> bool:
    """Returns whether attention sees exactly the tokens that an additive mask shows.

    Some models (GPT-Neo) have masks of their own, whose windows end at the last column of a cache,
    where a shorter row has no tokens. A mask that shows a later token reveals them.

    Args:
        model: a `transformers` causal LM.
        token: a token id of the probe.
    """
    plain = base_model(model)
    config = plain.config.get_text_config(decoder=True).to_dict()
    windows = [
        name
        for name, value in config.items()
        if any(part in name for part in OWN_WINDOWS) and isinstance(value, int) and value
    ]
    if windows and not plain._supports_attention_backend:
        return False
    embeddings = model.get_input_embeddings().weight
    mask = torch.zeros(2, 1, 2, 2, dtype=embeddings.dtype, device=embeddings.device)
    mask[0, 0, 0, 1] = torch.finfo(mask.dtype).min  # the first row is causal, the other is not
    inputs = {
        "input_ids": torch.tensor([[token, _other(model, token)]] * 2, device=mask.device),
        "position_ids": torch.tensor([[0, 1]] * 2, device=mask.device),
        "attention_mask": mask,
    }
    try:
        logits = model(**inputs, use_cache=False).logits
    except UNFIT:
        return False  # masks of another kind
    return not torch.equal(logits[0, 0], logits[1, 0])


def allows_padding(layers: list[Any]) -> bool:
    """Returns whether rows may be padded on the left, given the layers of a model's cache.

    Layers that a model brings itself (DeepSeek-V4) may count blocks of tokens from the first one.
    """
    own = DynamicLayer.__module__
    return all(isinstance(each, DynamicLayer) and type(each).__module__ == own for each in layers)


def cache_argument(accepted: Container[str]) -> str:
    """Returns the name of the argument of a model's `forward` that takes its cache.

    Args:
        accepted: names of the arguments. A `forward` that names no cache may take any argument.
    """
    return next((name for name in CACHE_NAMES if name in accepted), CACHE_NAMES[0])


@torch.no_grad()
def fills_cache(model: Any, cache: Mapping[str, Any], token: int) -> bool:
    """Returns whether all layers of a model keep tokens. Those for images (Mllama) do not.

    Args:
        model: a `transformers` causal LM.
        cache: an empty cache of `transformers`, by the name of its argument.
        token: a token id of the probe.
    """
    tokens = torch.tensor([[token]], device=next(model.parameters()).device)
    model(input_ids=tokens, **cache, use_cache=True)
    return all(layer.is_initialized for each in cache.values() for layer in each.layers)


def _knows_cache(plain: Any, accepted: Any, layers: list[Any]) -> bool:
    """Returns whether a model is known to read the caches of `transformers` as others do.

    Args:
        plain: a `transformers` causal LM.
        accepted: names of the arguments of its `forward`.
        layers: the layers of its cache.
    """
    return (
        type(plain).__module__.startswith("transformers.")
        and plain._supports_attention_backend
        and any(name in accepted for name in CACHE_NAMES[:2])
        and all(type(layer) in KNOWN for layer in layers)
    )


def check_cache(model: Cached, accepted: Any, layers: list[Any]) -> None:
    """Turns off padding, or the cache, where it would change a model's logits.

    Args:
        model: the language model.
        accepted: names of the arguments of its `forward`.
        layers: the layers of its cache.

    Raises:
        ConfigError: if nothing keeps the logits as they are.
    """
    if _knows_cache(base_model(model.model), accepted, layers):
        return
    if model.padding and not model.blocks and not caches(model, padded=True):
        model.padding = False
    if model.cache_name and caches(model, padded=False):
        return
    model.cache_name, model.blocks, model.inference_mode = "", False, False
    name = type(base_model(model.model)).__name__
    if not caches(model, padded=False):
        raise ConfigError(
            f"{name} computes other logits for the tokens of a sequence than for the same tokens "
            "in a longer one. It cannot be used as a policy."
        )
    warnings.warn(
        f"{name} has a cache of its own kind, which is not used here. Every token is generated "
        "from a forward pass over its whole context, which is slow.",
        stacklevel=3,
    )


def caches(model: Cached, *, padded: bool) -> bool:
    """Returns whether steps with a cache leave a model's logits as they are, on a probe.

    Two sequences of different lengths are computed in turn, so that a state that the model keeps in
    its modules would be mixed up.

    Args:
        model: the language model.
        padded: compute both in one batch, the shorter one padded on the left.
    """
    return holds(model.model, model.end_token, lambda: _caches(model, padded))


@torch.no_grad()
def _caches(model: Cached, padded: bool) -> bool:
    x, y = model.end_token, _other(model.model, model.end_token)
    sequences = [np.array(each, np.int64) for each in ([x, y, x, x, y, y], [y, y, x])]
    device = model.device
    expected = [
        model.model(input_ids=torch.from_numpy(each)[None].to(device), use_cache=False).logits[
            :, -1
        ]
        for each in sequences
    ]
    try:
        if padded:
            found = _padded(model, sequences)
        else:
            own = [model.new_cache() for _ in sequences]
            for each, cache in zip(sequences, own, strict=True):
                _feed(model, each[None, :-1], 0, cache)
            found = [
                _feed(model, each[None, -1:], len(each) - 1, cache)
                for each, cache in zip(sequences, own, strict=True)
            ]
    except UNFIT:
        return False  # a cache of another kind
    return all(equal_logits(*pair) for pair in zip(expected, found, strict=True))


def _feed(model: Cached, tokens: np.ndarray, start: int, cache: Any) -> Tensor:
    """Returns the logits [1, V] after tokens [1, n] that follow `start` cached ones."""
    positions = start + np.arange(tokens.shape[1])[None]
    mask = np.ones((1, start + tokens.shape[1]), bool)
    return model.next_logits(tokens, mask, positions, cache)


def _padded(model: Cached, sequences: list[np.ndarray]) -> list[Tensor]:
    """Returns the logits [1, V] of each sequence, computed together but for their last tokens."""
    lengths = np.array([len(each) - 1 for each in sequences])
    width, cache = int(lengths.max()), model.new_cache()
    tokens = np.full((len(sequences), width), model.pad_token, np.int64)
    mask = np.arange(width) >= width - lengths[:, None]
    tokens[mask] = np.concatenate([each[:-1] for each in sequences])
    positions = np.maximum(np.arange(width) - (width - lengths[:, None]), 0)
    model.next_logits(tokens, mask, positions, cache)
    last = np.stack([each[-1:] for each in sequences])
    mask = np.concatenate([mask, np.ones_like(mask[:, :1])], axis=1)
    return list(model.next_logits(last, mask, lengths[:, None], cache).split(1))


def _other(model: Any, token: int) -> int:
    """Returns a token with another embedding: those of padding and of unused tokens may be 0."""
    first = model.get_input_embeddings().weight[:LOOKED_AT]
    own = model.get_input_embeddings().weight[token]
    differs = (first != own).any(-1).nonzero()
    return int(differs[0]) if len(differs) else 0 if token else 1


class Recomputed:
    """The tokens of rows so far, for models whose cache is unknown: each step computes them again.

    It takes the place of a `transformers` cache in `LanguageModel.next_logits`.
    """

    def __init__(self) -> None:
        self._tokens: np.ndarray | None = None
        self._positions: np.ndarray | None = None

    def extend(self, tokens: np.ndarray, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Appends tokens [b, n] and their positions, and returns all of them."""
        if self._tokens is not None and self._positions is not None:
            tokens = np.concatenate([self._tokens, tokens], axis=1)
            positions = np.concatenate([self._positions, positions], axis=1)
        self._tokens, self._positions = tokens, positions
        return tokens, positions

    def reorder_cache(self, rows: Tensor) -> None:
        """Keeps some rows."""
        assert self._tokens is not None and self._positions is not None
        self._tokens, self._positions = self._tokens[rows.numpy()], self._positions[rows.numpy()]
