"""`LanguageModel`: a causal language model and its tokenizer, as generation and scoring use them.

The output head is computed only at the positions that are needed. Operations that a model applies
to its logits after the head (capping, scaling) are preserved.

Shapes: b rows, n new tokens, V vocabulary, H hidden.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from agentgym.errors import ConfigError
from agentgym.tokens.tokenizer import decode, silent_tokens
from agentgym.tokens.trie import TokenTrie
from agentgym.trainers.policy.action_format import ActionFormat
from agentgym.trainers.policy.adapters import changes, drop_nothing
from agentgym.trainers.policy.cache_layers import LayerShape
from agentgym.trainers.policy.gradient_checkpointing import layers_to_checkpoint
from agentgym.trainers.policy.grammars import Grammars
from agentgym.trainers.policy.last_layer import can_restrict, last_layer_reads
from agentgym.trainers.policy.lm_head import check_head, head_reads
from agentgym.trainers.policy.loading import base_model, stores_tensors
from agentgym.trainers.policy.model_config import check_embedded, max_length, plain_outputs
from agentgym.trainers.policy.packing import can_pack
from agentgym.trainers.policy.plain_text import PlainText
from agentgym.trainers.policy.probes import (
    Recomputed,
    allows_padding,
    cache_argument,
    check_cache,
    check_causal,
    fills_cache,
    reads_masks,
)
from agentgym.trainers.policy.sampling import GenerationStats
from agentgym.trainers.policy.shared_attention import Reads
from agentgym.utils.recent import Recent, text_size

MEMO = 64 << 20
"""Bytes of actions whose tokens are cached, and of tries of candidates."""

NODE = 600
"""Bytes of a node of a trie, about."""

CPU_WINDOW = 64 << 20
"""Bytes of keys and values that are generated together on a CPU."""

CPU_ROWS = 32
"""Minimum number of rows that are generated together on a CPU."""

CPU_PASS = 1 << 19
"""Bytes of float32 hidden states in a pass of more than 8 rows on a CPU."""

GPU_ROWS = 512
"""Maximum number of rows that are generated together on a GPU, if their keys and values fit."""


class LanguageModel(nn.Module):
    """A causal language model that generates and scores actions.

    Dropout is set to 0, because with dropout the log-probs in training would differ from those in
    generation.

    Args:
        model: a `transformers` causal LM, or a `peft` model around one.
        tokenizer: its tokenizer.
        batch_size: batch size of generation. If None, it depends on the device.

    Attributes:
        model: the model.
        tokenizer: the tokenizer.
        format: the delimiters of actions.
        pad_token: id used for padding (always masked).
        hidden_size: hidden size H.
        max_length: maximum sequence length in tokens, or None if unlimited. A model with LongRoPE
            encodes the positions of longer sequences in another way, in which earlier log-probs do
            not hold, so this is its original maximum.
        padding: whether rows of different lengths can be generated together.
        blocks: whether padding is allowed at any position, and cached keys and values can be sliced
            and stacked (`PrefixCache`).
        restricts: whether the last layer can be computed only at the positions that are read, if
            the model has `blocks` (see `last_layer.py`).
        inference_mode: whether actions may be generated in `torch.inference_mode`, which is faster
            than `torch.no_grad`. Models that store tensors in a forward pass must not.
        cache_name: name of the cache argument. "" if the model's cache is unknown: every token is
            then generated from a forward pass over its whole context.
        head_output: the operations after the output head, or None if they are unknown. The logits
            of all action tokens are then held in memory.
        stats: counters of the work done by generation.
        version: number of the training iterations that the weights went through, which samples
            record. The trainer sets it. None: unknown.
        autocast: makes the context manager in which the model computes, such as
            `Accelerator.autocast`. Clones share it.
        logits_at_once: maximum number of logits (action tokens times vocabulary) that a forward
            pass with gradients holds in memory. They are computed in parts, and again in the
            backward pass.
        gradient_checkpointing: whether forward passes with gradients keep only the inputs of the
            model's layers, and the backward pass computes the layers again.
        packs: whether forward passes with gradients pack their rows if this is faster (see
            `packing.py`).

    Raises:
        ConfigError: if the tokenizer has no end-of-sequence token or the model no output head.
    """

    version: int | None = None
    logits_at_once: int = 1 << 24
    gradient_checkpointing: bool = False

    def __init__(self, model: Any, tokenizer: Any, *, batch_size: int | None = None):
        super().__init__()
        if tokenizer.eos_token_id is None:
            raise ConfigError(
                "The tokenizer has no end-of-sequence token, which must end every action. "
                "Set tokenizer.eos_token before creating the policy."
            )
        drop_nothing(model)
        self.model: Any = model
        self.tokenizer = tokenizer
        plain = base_model(model)
        plain_outputs(plain.config)
        self.format = ActionFormat.of(plain, tokenizer)
        self._rows = len(model.get_input_embeddings().weight)
        self._beyond = len(tokenizer) > self._rows  # some tokens have no embedding
        self.check_ids([self.end_token])
        self._plain = PlainText(tokenizer, "action")
        self._silent = silent_tokens(tokenizer, self.format.end_tokens)
        pad = tokenizer.pad_token_id
        self.pad_token: int = self.end_token if pad is None or pad >= self._rows else pad
        self._batch_size = batch_size
        self.stats = GenerationStats()
        self.autocast: Callable[..., AbstractContextManager[Any]] = nullcontext
        config = model.config.get_text_config(decoder=True)
        self.hidden_size: int = config.hidden_size
        self.max_length = max_length(config)
        self.grammars = Grammars(tokenizer, config.vocab_size, self.end_token, self.format.prefix)
        # In lists, so that they are not registered as submodules.
        self._guide: list[Self] = []
        self._steering: list[Any] = []
        self._encoded: Recent[tuple[int, ...]] = Recent(MEMO)
        self._warned = False
        self._tries: Recent[tuple[TokenTrie, int]] = Recent(MEMO)
        accepted = inspect.signature(plain.forward).parameters
        self.cache_name = cache_argument(accepted)
        layers = DynamicCache(config=model.config).layers
        self._takes_positions = "position_ids" in accepted
        self.padding = self._takes_positions and allows_padding(layers)
        self.eval()
        self.head_output = check_head(model, self.end_token)
        check_causal(model, self.end_token)
        self.blocks = (
            self.padding
            and all(type(layer) is DynamicLayer for layer in layers)
            and getattr(config, "_attn_implementation", None) in ("sdpa", "eager")
            and not getattr(config, "alibi", False)  # biases of Falcon are made from 2D masks
            and reads_masks(model, self.end_token)
            and fills_cache(model, {self.cache_name: self.new_cache()}, self.end_token)
        )
        self.inference_mode = self.blocks and not stores_tensors(plain)
        self.restricts = self.blocks and can_restrict(model, self.end_token)
        self.packs = self.blocks and can_pack(model, self.end_token)
        self._layer_shapes: dict[torch.dtype | None, tuple[LayerShape, ...]] = {}
        check_cache(self, accepted, layers)

    @property
    def end_token(self) -> int:
        """Id of the token that ends admissible actions and demonstrations."""
        return self.format.end_token

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return next(self.model.parameters()).device

    def rows_at_once(self, columns: int | None = None, *, width: int | None = None) -> int:
        """Returns the number of rows per forward pass.

        Args:
            columns: tokens per row whose keys and values are written in place while actions are
                generated. None: the rows are read in one pass, or each has a cache of its own.
            width: tokens per row that is read in one pass. None: unknown.
        """
        if self._batch_size is not None:
            return self._batch_size
        if self.device.type != "cpu":
            return 64 if columns is None else GPU_ROWS
        if columns is None:
            # More rows cost padding and cache misses, and are faster only where a pass is small.
            return max(8, CPU_PASS // (4 * self.hidden_size * width)) if width else 8
        size = columns * sum(shape.bytes for shape in self.layer_shapes)
        return max(CPU_ROWS, CPU_WINDOW // size)

    @property
    def guide(self) -> Self | None:
        """Policy whose probabilities rank tokens for `top_k` and `top_p`, or None for its own."""
        return self._guide[0] if self._guide else None

    def follow(self, guide: Self | None) -> None:
        """Ranks tokens for `top_k` and `top_p` by another policy's probabilities, or by its own."""
        self._guide = [] if guide is None else [guide]

    def steer(self, steering: nn.Module | None) -> None:
        """Transforms the logits that `act` samples from.

        Only `act` is affected. `forward` still scores actions under the model's own distribution,
        so a steered policy is meant for acting, for example after offline RL, and not for
        collecting on-policy training data.

        Args:
            steering: module that maps (hidden states [b, H], logits [b, V]) to logits [b, V]. None
                removes it.
        """
        self._steering = [] if steering is None else [steering]

    @property
    def steered(self) -> bool:
        """Whether `steer` transforms the logits that `act` samples from."""
        return bool(self._steering)

    @property
    def supports_checkpointing(self) -> bool:
        """Whether gradient checkpointing can be turned on."""
        return bool(layers_to_checkpoint(self.model))

    def checkpoint_layers(self) -> None:
        """Turns gradient checkpointing on.

        Raises:
            ConfigError: if the model does not support it.
        """
        if not self.supports_checkpointing:
            name = type(self.model).__name__
            raise ConfigError(f"{name} does not support gradient checkpointing.")
        self.gradient_checkpointing = True

    # Text and tokens.

    def encode(self, text: str) -> list[int]:
        """Returns the token ids of an action. Control tokens in it are encoded as plain text."""
        tokens = self._encoded.get(text)
        if tokens is None:
            tokens = tuple(self._plain(text))
            self._encoded.put(text, tokens, text_size([text], len(tokens)))
        return list(tokens)

    def encode_action(self, text: str) -> list[int]:
        """Returns the token ids of an action, with the end token."""
        return [*self.encode(self.format.prefix + text), self.end_token]

    def check_ids(self, tokens: Sequence[int] | NDArray[np.int32] | Tensor) -> None:
        """Raises ConfigError if one of some tokens, which are about to be fed, has no embedding."""
        if self._beyond and len(tokens):
            check_embedded(self.tokenizer, self._rows, int(torch.as_tensor(tokens).max()))

    def decode(self, tokens: Sequence[int] | NDArray[np.int32]) -> str:
        """Returns the text of token ids, with special tokens but for the end and the padding."""
        return decode(self.tokenizer, tokens, self._silent)

    def trie(self, candidates: Sequence[str]) -> tuple[TokenTrie, int]:
        """Returns the trie of the candidates' tokens, with end tokens, and its depth."""
        key = tuple(candidates)
        found = self._tries.get(key)
        if found is None:
            sequences = [self.encode(self.format.prefix + text) for text in key]
            depth = 1 + max(map(len, sequences))
            found = TokenTrie(sequences, end=self.end_token), depth
            self._warn_of_equals(key, found[0])
            self._tries.put(key, found, text_size(key, 0) + NODE * len(found[0]))
        return found

    def _warn_of_equals(self, candidates: Sequence[str], trie: TokenTrie) -> None:
        """Warns once of different actions that the tokenizer does not tell apart."""
        for index, first in trie.equal.items():
            if candidates[index] == candidates[first] or self._warned:
                continue
            self._warned = True
            warnings.warn(
                f"The admissible actions {candidates[first]!r} and {candidates[index]!r} have the "
                "same tokens, so the policy always plays the first of them: the tokenizer drops "
                "what differs (capitals, line breaks, accents). Use another model, or a wrapper "
                "that gives the actions different names.",
                stacklevel=3,
            )

    # Weights.

    @property
    def has_adapter(self) -> bool:
        """Whether only a LoRA adapter is trained."""
        return hasattr(self.model, "disable_adapter")

    def weights_version(self) -> int:
        """Returns a number that changes whenever an optimiser updates the weights in place."""
        return sum(parameter._version for parameter in self.model.parameters())

    def own_weights(self) -> dict[str, Tensor]:
        """Returns the weights that change: with an adapter, neither the base nor the reference."""
        weights = self.state_dict()
        if not self.has_adapter:
            return weights
        own = changes(self.model)
        return {name: tensor for name, tensor in weights.items() if own(name)}

    def load_own_weights(self, weights: dict[str, Tensor]) -> None:
        """Restores `own_weights`.

        Raises:
            KeyError: if the names of the weights differ.
        """
        if differing := weights.keys() ^ self.own_weights().keys():
            raise KeyError(f"The weights {sorted(differing)[:3]} are not those of the policy.")
        self.load_state_dict(weights, strict=False)

    # Computing.

    @property
    def layer_shapes(self) -> tuple[LayerShape, ...]:
        """Shapes of the keys and values of each layer in the current autocast, if `blocks`."""
        kind, key = self.device.type, None
        if torch.is_autocast_enabled(kind):
            key = torch.get_autocast_dtype(kind)
        if key not in self._layer_shapes:
            cache, probe = self.new_cache(), np.array([[self.end_token]])
            with torch.no_grad():
                self.next_logits(probe, None, np.zeros_like(probe), cache)
            self._layer_shapes[key] = tuple(LayerShape.of(layer) for layer in cache.layers)
        return self._layer_shapes[key]

    def new_cache(self) -> Any:
        """Returns an empty `transformers` cache, or what takes its place."""
        if not self.cache_name:
            return Recomputed()
        return DynamicCache(config=self.model.config)

    def next_logits(
        self,
        tokens: NDArray[np.int64],
        mask: NDArray[np.bool_] | Tensor | None,
        positions: NDArray[np.int64],
        cache: Any,
        at: NDArray[np.int64] | None = None,
    ) -> Tensor:
        """Returns float32 [b, V] logits after a column of tokens.

        Args:
            tokens: [b, n] token ids.
            mask: [b, length + n] False for padding, for the cached tokens and the new ones. Or an
                additive attention mask [b, 1, n, length + n]. None: plain causal attention.
            positions: [b, n] position ids of the new tokens.
            cache: cache with `length` tokens per row.
            at: [b] the columns. None: the last one.
        """
        if isinstance(cache, Recomputed):
            tokens, positions = cache.extend(tokens, positions)
        inputs: dict[str, Any] = {"input_ids": self._tensor(tokens)}
        inputs["use_cache"] = bool(self.cache_name)
        if self.cache_name:
            inputs[self.cache_name] = cache
        if self._takes_positions:  # Bamba would count them from 0 after a cache
            inputs["position_ids"] = self._tensor(positions)
        if self.padding:
            if isinstance(mask, np.ndarray):
                mask = self._tensor(mask.astype(np.int64))
            inputs["attention_mask"] = mask

        count, width = tokens.shape
        if width == 1 and not self._steering:  # the head reads all there is
            return self.model(**inputs).logits[:, -1].float()
        places = self._tensor(np.full(count, width - 1) if at is None else at)

        def last(hidden: Tensor) -> Tensor:
            return hidden[torch.arange(count, device=hidden.device), places][:, None]

        restricts = self.restricts and not torch.is_grad_enabled()
        reads = Reads.one_each(places)
        layer = last_layer_reads(self.model, reads) if restricts else nullcontext()
        with layer, head_reads(self.model, last) as states:
            logits = self.model(**inputs).logits[:, -1].float()
        for steering in self._steering:
            logits = steering(last(states[0])[:, 0], logits)
        return logits

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.device)
