"""`Policy`: a causal language model that generates actions and scores them.

Everything the trainer does with a model goes through here: `act` (batched generation, optionally
constrained to candidates), `forward` (log-probs under the distribution really sampled from, with
gradients), `hidden` (what critics read), `score_candidates` (a softmax over listed actions).

The vocabulary projection is computed only where it is needed: a hook on the head hands it the
positions asked for. Whatever a model does to its logits after the head (capping, scaling) is kept.

Shapes: B rows, S positions, k action tokens, b bootstrap positions, V vocabulary, H hidden, C
candidates.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from agentgym.errors import ConfigError
from agentgym.trainers.policy.candidates import candidate_logprobs, choose_candidates
from agentgym.trainers.policy.collate import Collated
from agentgym.trainers.policy.generate import generate
from agentgym.trainers.policy.lm_head import check_head, head_reads
from agentgym.trainers.policy.loading import LoraSettings, load_model
from agentgym.trainers.policy.sampling import (
    GenerationStats,
    Normalization,
    PrefixCache,
    Request,
    Sample,
    Sampling,
    States,
)
from agentgym.trainers.policy.scoring import Scores, read_hidden, score_actions
from agentgym.utils.token_trie import TokenTrie

__all__ = [
    "GenerationStats",
    "LoraSettings",
    "Normalization",
    "Policy",
    "PrefixCache",
    "Request",
    "Sample",
    "Sampling",
    "Scores",
]

MEMO = 1 << 15
"""How many texts, and how many lists of candidates, are remembered with their tokens."""

STEERING_FILE = "steering.pt"

CACHE_NAMES = ("past_key_values", "cache_params")
"""How models of `transformers` call the cache they are given; the second are recurrent ones."""


class Policy(nn.Module):
    """A causal language model as a policy; made by `Policy.load`.

    Dropout is off for good: with it, the log-probs of training would not be those of acting.

    Args:
        model: a `transformers` causal LM, or a `peft` model around one.
        tokenizer: its tokenizer.
        batch_size: how many requests `act` runs at once; None: as suits the device.

    Attributes:
        model: the model.
        tokenizer: the tokenizer.
        end_token: id of the token that ends an action (the tokenizer's end of sequence).
        pad_token: id used for padding (always masked).
        hidden_size: H.
        max_length: the longest sequence the model can read (positions), or None if unlimited.
        padding: whether rows of different lengths can be generated together.
        blocks: whether keys and values can be cut and put together (`PrefixCache`).
        plain_head: whether logits are what the head returns, with nothing done to them.
        stats: work done by `act`.
        logits_at_once: most logits (action tokens times vocabulary) `forward` holds at a time; a
            larger number of them is computed in parts, and again for the gradients.

    Raises:
        ConfigError: if the tokenizer has no end-of-sequence token or the model no output head.
    """

    logits_at_once: int = 1 << 26

    def __init__(self, model: Any, tokenizer: Any, *, batch_size: int | None = None):
        super().__init__()
        if tokenizer.eos_token_id is None:
            raise ConfigError(
                "The tokenizer has no end-of-sequence token, and an action must end with one. "
                "Set tokenizer.eos_token before making the policy."
            )
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        self.model: Any = model
        self.tokenizer = tokenizer
        self.end_token: int = tokenizer.eos_token_id
        pad = tokenizer.pad_token_id
        self.pad_token: int = self.end_token if pad is None else pad
        self._batch_size = batch_size
        self.stats = GenerationStats()
        config = model.config.get_text_config(decoder=True)
        self.hidden_size: int = config.hidden_size
        self.max_length: int | None = getattr(config, "max_position_embeddings", None)
        # In lists: no part of the module's state.
        self._reference: list[Policy] = []
        self._guide: list[Policy] = []
        self._steering: list[Any] = []
        self._encoded: dict[str, tuple[int, ...]] = {}
        self._tries: dict[tuple[str, ...], tuple[TokenTrie, int]] = {}
        plain = model.get_base_model() if hasattr(model, "get_base_model") else model
        accepted = inspect.signature(plain.forward).parameters
        self._cache_name = next((n for n in CACHE_NAMES if n in accepted), CACHE_NAMES[0])
        layers = DynamicCache(config=model.config).layers
        self.padding = "position_ids" in accepted and all(
            isinstance(layer, DynamicLayer) for layer in layers
        )
        self.blocks = (
            self.padding
            and all(type(layer) is DynamicLayer for layer in layers)
            and getattr(config, "_attn_implementation", None) in ("sdpa", "eager")
        )
        self.eval()
        self.plain_head = check_head(model, self.end_token)

    @classmethod
    def load(
        cls,
        name: str | Path,
        *,
        lora: LoraSettings | None = None,
        dtype: Literal["float32", "bfloat16", "float16", "auto"] = "float32",
        device: str | torch.device = "cpu",
        batch_size: int | None = None,
        seed: int = 0,
        trust_remote_code: bool = False,
    ) -> Policy:
        """Loads any causal LM of the Hugging Face hub or a folder, a saved adapter folder included.

        Args:
            name: model id or folder.
            lora: puts a fresh adapter on it; the base is frozen.
            dtype: type of the weights; "auto": as stored.
            device: where it lives.
            batch_size: how many requests `act` runs at once; None: as suits the device.
            seed: of the fresh adapter's weights.
            trust_remote_code: whether to run Python code that the model folder contains.

        Raises:
            ConfigError: if there is no such model, its files are damaged, it needs code of its own
                without `trust_remote_code`, it has no tokenizer or no end-of-sequence token, there
                is no such device, or the adapter does not fit.
        """
        model, tokenizer = load_model(name, lora, dtype, seed, trust_remote_code)
        try:
            model = model.to(device)
        except (RuntimeError, AssertionError) as error:  # PyTorch without CUDA asserts
            raise ConfigError(f"The device {str(device)!r} cannot be used: {error}") from error
        return cls(model, tokenizer, batch_size=batch_size)

    def save(self, folder: str | Path) -> None:
        """Saves weights (or adapter) and tokenizer as an ordinary Hugging Face folder."""
        self.model.save_pretrained(str(folder))
        self.tokenizer.save_pretrained(str(folder))
        for steering in self._steering:
            steering.save(Path(folder) / STEERING_FILE)

    @property
    def device(self) -> torch.device:
        """Where the model lives."""
        return next(self.model.parameters()).device

    @property
    def batch_size(self) -> int:
        """How many requests `act` runs at once."""
        # A processor gains nothing by more rows, and loses by their padding and its caches.
        return self._batch_size or (8 if self.device.type == "cpu" else 64)

    @property
    def has_adapter(self) -> bool:
        """Whether only a LoRA adapter is trained."""
        return hasattr(self.model, "disable_adapter")

    @property
    def guide(self) -> Policy | None:
        """Whose probabilities `top_k` and `top_p` go by; None: the policy's own."""
        return self._guide[0] if self._guide else None

    def follow(self, guide: Policy | None) -> None:
        """Lets another policy's probabilities decide what `top_k` and `top_p` keep."""
        self._guide = [] if guide is None else [guide]

    def steer(self, steering: nn.Module | None) -> None:
        """Lets a module (hidden states, logits) -> logits change what `act` draws from.

        Only `act` is steered: `forward` scores what the model itself says. So a steered policy is
        for acting, as after offline learning, not for collecting what it is then trained on.
        """
        self._steering = [] if steering is None else [steering]

    def clone(self) -> Policy:
        """Returns a policy of its own with the present weights; only the tokenizer is shared."""
        copied = copy.copy(self)
        copied._modules = dict(self._modules)
        copied.model = copy.deepcopy(self.model)
        copied.stats = GenerationStats()
        copied._reference, copied._guide, copied._steering = [], [], []
        return copied

    def frozen_copy(self) -> Policy:
        """Returns a clone that nothing trains."""
        return self.clone().requires_grad_(False)

    # Text and tokens.

    def encode(self, text: str) -> list[int]:
        """Returns the token ids of a text; special tokens spelt out in it are plain text."""
        tokens = self._encoded.get(text)
        if tokens is None:
            if len(self._encoded) >= MEMO:
                self._encoded.clear()
            # Lone surrogates cannot be tokenised; whatever an environment says must not raise.
            clean = text.encode("utf-8", "replace").decode()
            ids = self.tokenizer(clean, add_special_tokens=False, split_special_tokens=True)
            tokens = self._encoded[text] = tuple(ids["input_ids"])
        return list(tokens)

    def decode(self, tokens: Sequence[int] | NDArray[np.int32]) -> str:
        """Returns the text of token ids, special tokens left out."""
        return self.tokenizer.decode(
            list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )

    def trie(self, candidates: Sequence[str]) -> tuple[TokenTrie, int]:
        """Returns the tree of the candidates' tokens, each with the end token, and its depth."""
        key = tuple(candidates)
        found = self._tries.get(key)
        if found is None:
            if len(self._tries) >= MEMO >> 4:
                self._tries.clear()
            sequences = [self.encode(text) for text in key]
            depth = 1 + max(map(len, sequences))
            found = self._tries[key] = TokenTrie(sequences, end=self.end_token), depth
        return found

    # Acting.

    def session(self) -> PrefixCache:
        """Returns an empty cache for `act`: contexts that grow are not computed again."""
        return PrefixCache()

    def act(
        self, requests: Sequence[Request], sampling: Sampling, cache: PrefixCache | None = None
    ) -> list[Sample]:
        """Generates one action for each request; no gradients.

        Args:
            requests: prompts, each with its generator and perhaps candidates.
            sampling: how tokens are drawn.
            cache: made by `session`; what was computed for a request's slot is not computed again.

        Raises:
            ValueError: for an empty prompt, an empty list of candidates, or a prompt and action
                that are longer than the model can read.
        """
        with self._acting():
            if sampling.normalization is None:
                return generate(self, requests, sampling, cache)
            listed = [i for i, request in enumerate(requests) if request.candidates is not None]
            chosen = choose_candidates(self, [requests[i] for i in listed], sampling)
            samples = dict(zip(listed, chosen, strict=True))
            others = [i for i in range(len(requests)) if i not in samples]
            spoken = generate(self, [requests[i] for i in others], sampling, cache)
            samples |= zip(others, spoken, strict=True)
            return [samples[i] for i in range(len(requests))]

    @contextmanager
    def _acting(self) -> Iterator[None]:
        """No gradients, and not in training mode: gradient checkpointing would drop the cache."""
        training = self.training
        self.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            self.train(training)

    def weights_version(self) -> int:
        """Returns a number that changes whenever an optimiser changes the weights in place."""
        return sum(parameter._version for parameter in self.model.parameters())

    def new_cache(self, states: States | None = None) -> DynamicCache:
        """Returns a cache of keys and values, empty or with [b, heads, length, size] states."""
        if states is None:
            return DynamicCache(config=self.model.config)
        return DynamicCache(states, config=self.model.config)

    def next_logits(
        self,
        tokens: NDArray[np.int64],
        mask: NDArray[np.bool_],
        positions: NDArray[np.int64],
        cache: DynamicCache,
    ) -> Tensor:
        """Returns float32 [b, V] logits after the last column of tokens [b, n]."""
        inputs: dict[str, Any] = {"input_ids": self._tensor(tokens), "use_cache": True}
        inputs[self._cache_name] = cache
        if self.padding:
            inputs["attention_mask"] = self._tensor(mask.astype(np.int64))
            inputs["position_ids"] = self._tensor(positions)
        with head_reads(self.model, lambda hidden: hidden[:, -1:]) as states:
            logits = self.model(**inputs).logits[:, -1].float()
        for steering in self._steering:
            logits = steering(states[0][:, -1], logits)
        return logits

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    # Scoring.

    def forward(self, collated: Collated) -> Scores:
        """Scores action tokens under the distribution they were sampled from, with gradients.

        Tokens that were forced (one token allowed) have log-probability and entropy 0.
        """
        return score_actions(self, collated)

    def hidden(self, collated: Collated, *, adapter: bool = True) -> tuple[Tensor, Tensor]:
        """Returns hidden states at action tokens [k, H] and bootstrap positions [b, H]; no head.

        Args:
            collated: the segments.
            adapter: False reads the base model without its adapter (a policy without one raises
                ConfigError).
        """
        if not adapter and not self.has_adapter:
            raise ConfigError("This policy has no adapter to switch off; load it with lora=...")
        with nullcontext() if adapter else self.model.disable_adapter():
            return collated.places(read_hidden(self.model, collated))

    def freeze_reference(self) -> None:
        """Keeps the present weights for `reference_logprobs`; needless with an adapter."""
        if not self.has_adapter:
            self._reference = [self.frozen_copy()]

    def reference_logprobs(self, collated: Collated) -> Tensor:
        """Returns [k] log-probs of the reference: adapter off, or `freeze_reference`'s copy.

        Raises:
            ConfigError: if there is neither an adapter nor a frozen reference.
        """
        with torch.no_grad():
            if self.has_adapter:
                with self.model.disable_adapter():
                    return score_actions(self, collated).logprobs
            if not self._reference:
                raise ConfigError(
                    "There is no reference: call freeze_reference() before training, or train an "
                    "adapter (its base is the reference)."
                )
            return self._reference[0].to(self.device)(collated).logprobs

    # Listed actions.

    def score_candidates_batch(
        self,
        prompts: Sequence[NDArray[np.int32]],
        candidates: Sequence[Sequence[str]],
        normalization: Normalization = "sum",
    ) -> list[NDArray[np.float32]]:
        """Returns `score_candidates` of every prompt, computed together."""
        with self._acting():
            scores = candidate_logprobs(self, prompts, candidates, normalization)
        return [score.cpu().numpy() for score in scores]

    def score_candidates(
        self,
        prompt: NDArray[np.int32],
        candidates: Sequence[str],
        normalization: Normalization = "sum",
    ) -> NDArray[np.float32]:
        """Returns the log-probabilities [C] of a softmax over candidates.

        The score of a candidate is the sum of its tokens' log-probs, the end token's included
        ("sum": GLAM, arXiv 2302.02662), divided by the number of tokens ("token") or of
        whitespace-separated words ("word": TWOSOME, arXiv 2401.14151).
        """
        return self.score_candidates_batch([prompt], [candidates], normalization)[0]
