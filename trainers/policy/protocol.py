"""`LanguageModel`: the protocol of a policy that generation and scoring use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentgym.trainers.policy.lm_head import HeadOutput
from agentgym.trainers.policy.prefix_cache import LayerShape
from agentgym.trainers.policy.sampling import GenerationStats
from agentgym.utils.token_trie import TokenTrie

if TYPE_CHECKING:
    from agentgym.trainers.policy.action_format import ActionFormat


class LanguageModel(Protocol):
    """Protocol of a language model that generates actions.

    Attributes:
        model: the `transformers` model.
        format: the delimiters of actions.
        pad_token: id used for padding.
        max_length: maximum sequence length in tokens, or None if unlimited.
        padding: whether sequences of different lengths can share a batch.
        blocks: whether padding is allowed at any position and cached keys and values can be sliced
            and stacked.
        inference_mode: whether `torch.inference_mode` leaves the model as it is.
        stats: counters of the work done.
        head_output: the operations after the output head, or None if they are unknown.
        logits_at_once: maximum number of logits held in memory.
        gradient_checkpointing: whether layers are computed again in the backward pass.
        shares_prefixes: whether forward passes with gradients compute common prefixes once.
    """

    model: Any
    format: ActionFormat
    pad_token: int
    max_length: int | None
    padding: bool
    blocks: bool
    inference_mode: bool
    stats: GenerationStats
    head_output: HeadOutput | None
    logits_at_once: int
    gradient_checkpointing: bool
    shares_prefixes: bool

    @property
    def layer_shapes(self) -> tuple[LayerShape, ...]:
        """Shapes of the keys and values of each layer, if `blocks`."""
        ...

    @property
    def guide(self) -> LanguageModel | None:
        """Model whose probabilities rank tokens for `top_k` and `top_p`, or None for its own."""
        ...

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        ...

    def encode(self, text: str) -> list[int]:
        """Returns the token ids of a text."""
        ...

    def encode_action(self, text: str) -> list[int]:
        """Returns the token ids of an action, with the end token."""
        ...

    def trie(self, candidates: Sequence[str]) -> tuple[TokenTrie, int]:
        """Returns the trie of the candidates' tokens, with end tokens, and its depth."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """Returns the text of token ids."""
        ...

    def weights_version(self) -> int:
        """Returns a number that changes when an optimiser updates the weights."""
        ...

    def rows_at_once(self, columns: int | None = None) -> int:
        """Returns the number of rows per forward pass, of `columns` cached tokens each."""
        ...

    def new_cache(self) -> Any:
        """Returns an empty `transformers` cache."""
        ...

    def next_logits(
        self,
        tokens: NDArray[np.int64],
        mask: NDArray[np.bool_] | Tensor | None,
        positions: Any,
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
        ...
