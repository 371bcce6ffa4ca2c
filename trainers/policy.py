"""`Policy`: a causal language model that generates actions and scores them.

Everything the trainer does with a model goes through here: `act` (batched generation, optionally
constrained to candidates), `forward` (log-probs under the distribution really sampled from, with
gradients), `hidden` (what critics read), `score_candidates` (a softmax over listed actions).

Shapes: B rows, S positions, k action tokens, b bootstrap positions, V vocabulary, H hidden, C
candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from agentgym.trainers.collate import Collated
from agentgym.trainers.generation import GenerationStats, PrefixCache, Request, Sample, Sampling

Normalization = Literal["sum", "token", "word"]


@dataclass(frozen=True)
class LoraSettings:
    """A low-rank adapter (Hu et al., arXiv 2106.09685), by `peft`.

    Attributes:
        rank: rank of the update.
        alpha: the update is scaled by alpha / rank.
        dropout: must stay 0 where ratios are to be exact.
        targets: names of the modules it is put on; None: what peft knows for the architecture,
            else all linear layers but the head.
    """

    rank: int = 16
    alpha: float = 32.0
    dropout: float = 0.0
    targets: tuple[str, ...] | None = None


class Scores(NamedTuple):
    """What the model says about the action tokens of a `Collated`; all with gradients.

    Attributes:
        logprobs: float32 [k] log-probabilities under the sampled-from distribution.
        entropy: float32 [k] entropy of that distribution, in nats.
        hidden: [k, H] hidden states that predict the action tokens, as the head reads them.
        bootstrap_hidden: [b, H] hidden states at the bootstrap positions.
    """

    logprobs: Tensor
    entropy: Tensor
    hidden: Tensor
    bootstrap_hidden: Tensor


class Policy(nn.Module):
    """A causal language model as a policy; made by `Policy.load`.

    Attributes:
        model: the `transformers` model (or `peft` model around it).
        tokenizer: its tokenizer.
        end_token: id of the token that ends an action (the tokenizer's end of sequence).
        pad_token: id used for padding (always masked).
        hidden_size: H.
        max_length: the longest sequence the model can read (positions), or None if unlimited.
        batch_size: how many requests `act` runs at once.
        stats: work done by `act`.
    """

    model: Any
    tokenizer: Any
    end_token: int
    pad_token: int
    hidden_size: int
    max_length: int | None
    batch_size: int
    stats: GenerationStats

    def __init__(self, model: Any, tokenizer: Any, *, batch_size: int = 64):
        super().__init__()
        raise NotImplementedError

    @classmethod
    def load(
        cls,
        name: str | Path,
        *,
        lora: LoraSettings | None = None,
        dtype: Literal["float32", "bfloat16", "float16", "auto"] = "float32",
        device: str | torch.device = "cpu",
        batch_size: int = 64,
    ) -> Policy:
        """Loads any causal LM of the Hugging Face hub or a folder, a saved adapter folder included.

        Args:
            name: model id or folder.
            lora: puts a fresh adapter on it; the base is frozen.
            dtype: type of the weights; "auto": as stored.
            device: where it lives.
            batch_size: how many requests `act` runs at once.

        Raises:
            ConfigError: if there is no such model, no tokenizer, no end-of-sequence token, or the
                adapter does not fit.
        """
        raise NotImplementedError

    def save(self, folder: str | Path) -> None:
        """Saves weights (or adapter) and tokenizer as an ordinary Hugging Face folder."""
        raise NotImplementedError

    @property
    def device(self) -> torch.device:
        """Where the model lives."""
        raise NotImplementedError

    @property
    def has_adapter(self) -> bool:
        """Whether only a LoRA adapter is trained."""
        raise NotImplementedError

    def encode(self, text: str) -> list[int]:
        """Returns the token ids of a text, without special tokens; memoised."""
        raise NotImplementedError

    def decode(self, tokens: Sequence[int] | NDArray[np.int32]) -> str:
        """Returns the text of token ids, special tokens left out."""
        raise NotImplementedError

    def session(self) -> PrefixCache:
        """Returns an empty cache for `act`: contexts that grow are not computed again."""
        raise NotImplementedError

    def act(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        cache: PrefixCache | None = None,
    ) -> list[Sample]:
        """Generates one action for each request; no gradients.

        Raises:
            ValueError: for an empty prompt, an empty list of candidates, or a prompt and action
                that are longer than the model can read.
        """
        raise NotImplementedError

    def forward(self, collated: Collated) -> Scores:
        """Scores action tokens under the distribution they were sampled from, with gradients."""
        raise NotImplementedError

    def hidden(self, collated: Collated, *, adapter: bool = True) -> tuple[Tensor, Tensor]:
        """Returns hidden states at action tokens [k, H] and bootstrap positions [b, H]; no head.

        Args:
            collated: the segments.
            adapter: False reads the base model without its adapter (a policy without one raises
                ConfigError).
        """
        raise NotImplementedError

    def freeze_reference(self) -> None:
        """Keeps the present weights for `reference_logprobs`; needless with an adapter."""
        raise NotImplementedError

    def reference_logprobs(self, collated: Collated) -> Tensor:
        """Returns [k] log-probs of the reference: adapter off, or `freeze_reference`'s copy.

        Raises:
            ConfigError: if there is neither an adapter nor a frozen reference.
        """
        raise NotImplementedError

    def score_candidates(
        self,
        prompt: NDArray[np.int32],
        candidates: Sequence[str],
        normalization: Normalization = "sum",
    ) -> NDArray[np.float32]:
        """Returns the log-probabilities [C] of a softmax over candidates.

        The score of a candidate is the sum of its tokens' log-probs ("sum": GLAM, arXiv 2302.02662),
        divided by the number of tokens ("token") or of words ("word": TWOSOME, arXiv 2401.14151).
        """
        raise NotImplementedError

    def score_candidates_batch(
        self,
        prompts: Sequence[NDArray[np.int32]],
        candidates: Sequence[Sequence[str]],
        normalization: Normalization = "sum",
    ) -> list[NDArray[np.float32]]:
        """Returns `score_candidates` of every prompt, computed together."""
        raise NotImplementedError

    def candidate_logprobs(
        self,
        prompts: Sequence[NDArray[np.int32]],
        candidates: Sequence[Sequence[str]],
        normalization: Normalization = "sum",
    ) -> list[Tensor]:
        """Returns `score_candidates_batch` as tensors with gradients."""
        raise NotImplementedError
