"""`LanguageModel`: what generating and scoring need of a policy, said once for both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentgym.trainers.policy.sampling import GenerationStats, States
from agentgym.utils.token_trie import TokenTrie


class LanguageModel(Protocol):
    """What acting needs of a policy.

    Attributes:
        model: the `transformers` model.
        end_token: ends an action.
        pad_token: fills what is masked.
        max_length: longest sequence, or None.
        padding: whether sequences of different lengths can share a batch.
        blocks: whether padding may stand anywhere and keys and values can be cut and put together.
        stats: counts the work.
    """

    model: Any
    end_token: int
    pad_token: int
    max_length: int | None
    padding: bool
    blocks: bool
    stats: GenerationStats

    @property
    def guide(self) -> LanguageModel | None:
        """Whose probabilities `top_k` and `top_p` go by; None: the model's own."""
        ...

    @property
    def batch_size(self) -> int:
        """How many rows are run at once."""
        ...

    @property
    def device(self) -> torch.device:
        """Where the model lives."""
        ...

    def encode(self, text: str) -> list[int]:
        """Returns the token ids of a text."""
        ...

    def trie(self, candidates: Sequence[str]) -> tuple[TokenTrie, int]:
        """Returns the tree of candidates' tokens, each with the end token, and its depth."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """Returns the text of token ids."""
        ...

    def weights_version(self) -> int:
        """Returns a number that changes when an optimiser changes the weights."""
        ...

    def new_cache(self, states: States | None = None) -> Any:
        """Returns a `transformers` cache, empty or with [b, heads, length, size] states."""
        ...

    def next_logits(
        self, tokens: NDArray[np.int64], mask: NDArray[np.bool_], positions: Any, cache: Any
    ) -> Tensor:
        """Returns float32 [b, V] logits after the last column of tokens [b, n].

        `mask` [b, length + n] tells tokens from padding, also for what the cache holds.
        """
        ...
