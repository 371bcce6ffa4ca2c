"""`Policy`: a causal language model that generates actions and scores them.

It is the trainer's interface to a model: `act` (batched generation, optionally constrained to
candidates), `forward` (log-probs under the distribution that was sampled from, with gradients),
`hidden` (hidden states for critics), `score_candidates` (a softmax over admissible actions).

The output head is computed only at the positions that are needed. Operations that a model applies
to its logits after the head (capping, scaling) are preserved.

Shapes: B rows, S positions, k action tokens, b bootstrap positions, V vocabulary, H hidden, C
candidates.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import DynamicCache
from transformers.cache_utils import Cache, DynamicLayer

from agentgym.errors import ConfigError
from agentgym.trainers.policy.action_format import ActionFormat
from agentgym.trainers.policy.candidates import candidate_logprobs, choose_candidates
from agentgym.trainers.policy.collate import Collated
from agentgym.trainers.policy.engine import Engine, OwnEngine, Session
from agentgym.trainers.policy.generate import Answer
from agentgym.trainers.policy.lm_head import check_head, head_reads
from agentgym.trainers.policy.loading import (
    REFERENCE,
    LoraSettings,
    base_model,
    copy_adapter,
    load_model,
    load_reference_adapter,
    reference_adapter,
    stores_tensors,
)
from agentgym.trainers.policy.prefix_cache import LayerShape, PrefixCache
from agentgym.trainers.policy.reading import layers_to_checkpoint
from agentgym.trainers.policy.sampling import (
    GenerationStats,
    Normalization,
    Request,
    Sample,
    Sampling,
)
from agentgym.trainers.policy.scoring import Scores, all_logprobs, read_hidden, score_actions
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
"""Number of texts whose tokens are cached. The cache of candidate tries holds 1/16 of it."""

CPU_WINDOW = 64 << 20
"""Bytes of keys and values that are generated together on a CPU."""

CPU_ROWS = 32
"""Minimum number of rows that are generated together on a CPU."""

GPU_ROWS = 512
"""Maximum number of rows that are generated together on a GPU, if their keys and values fit."""

STEERING_FILE = "steering.pt"

CACHE_NAMES = ("past_key_values", "cache_params")
"""Names of the cache argument in `transformers`: of attention models, of recurrent models."""


class Policy(nn.Module):
    """A causal language model as a policy. Create one with `Policy.load`.

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
        max_length: maximum sequence length in tokens, or None if unlimited.
        padding: whether rows of different lengths can be generated together.
        blocks: whether cached keys and values can be sliced and stacked (`PrefixCache`).
        inference_mode: whether `act` may compute in `torch.inference_mode`, which is faster than
            `torch.no_grad`. Models that store tensors in a forward pass must not.
        head_output: the operations after the output head, or None if they are unknown. The logits
            of all action tokens are then held in memory.
        version: number of the training iterations that its weights went through, which samples
            record. The trainer sets it. None: unknown.
        stats: counters of the work done by `act`.
        autocast: makes the context manager in which the model computes, such as
            `Accelerator.autocast`. Clones share it.
        engine: generates the actions of `act` (see `use`).
        logits_at_once: maximum number of logits (action tokens times vocabulary) that `forward`
            holds in memory. They are computed in parts, and again in the backward pass.
        gradient_checkpointing: whether `forward` keeps only the inputs of the model's layers, and
            the backward pass computes the layers again. See `checkpoint_layers`.
        shares_prefixes: whether `forward` computes common prefixes of its rows once, in a pass of
            their own, if the model has `blocks` and this is faster. See `shared_parts`.

    Raises:
        ConfigError: if the tokenizer has no end-of-sequence token or the model no output head.
    """

    logits_at_once: int = 1 << 24
    gradient_checkpointing: bool = False
    shares_prefixes: bool = True
    version: int | None = None

    def __init__(self, model: Any, tokenizer: Any, *, batch_size: int | None = None):
        super().__init__()
        if tokenizer.eos_token_id is None:
            raise ConfigError(
                "The tokenizer has no end-of-sequence token, which must end every action. "
                "Set tokenizer.eos_token before creating the policy."
            )
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        self.model: Any = model
        self.tokenizer = tokenizer
        plain = base_model(model)
        self.format = ActionFormat.of(plain, tokenizer)
        pad = tokenizer.pad_token_id
        self.pad_token: int = self.end_token if pad is None else pad
        self._batch_size = batch_size
        self.stats = GenerationStats()
        self.autocast: Callable[..., AbstractContextManager[Any]] = nullcontext
        config = model.config.get_text_config(decoder=True)
        self.hidden_size: int = config.hidden_size
        self.max_length: int | None = getattr(config, "max_position_embeddings", None)
        # In lists, so that they are not registered as submodules.
        self._reference: list[Policy] = []
        self._guide: list[Policy] = []
        self._steering: list[Any] = []
        self._encoded: dict[str, tuple[int, ...]] = {}
        self._tries: dict[tuple[str, ...], tuple[TokenTrie, int]] = {}
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
        self.inference_mode = self.blocks and not stores_tensors(plain)
        self.eval()
        self.head_output = check_head(model, self.end_token)
        self._synced: int | None = None
        self.engine: Engine = OwnEngine(self)
        self._layer_shapes: dict[torch.dtype | None, tuple[LayerShape, ...]] = {}

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
        """Loads a causal LM from the Hugging Face hub, a model folder or an adapter folder.

        Args:
            name: model id or folder.
            lora: adds a new LoRA adapter and freezes the base model.
            dtype: dtype of the weights. "auto" keeps the stored dtype.
            device: device of the model.
            batch_size: batch size of generation. If None, it depends on the device.
            seed: seed of the new adapter's weights.
            trust_remote_code: whether to run Python code that the model folder contains.

        Raises:
            ConfigError: if the model, its tokenizer, its end-of-sequence token or the device does
                not exist, its files are damaged, it needs its own code without
                `trust_remote_code`, or the adapter does not fit the model.
            MissingExtraError: if an adapter is needed and `peft` is not installed.
        """
        model, tokenizer = load_model(name, lora, dtype, seed, trust_remote_code)
        try:
            model = model.to(device)
        except (RuntimeError, AssertionError) as error:  # PyTorch without CUDA asserts
            raise ConfigError(f"The device {str(device)!r} cannot be used: {error}") from error
        return cls(model, tokenizer, batch_size=batch_size)

    def save(self, folder: str | Path) -> None:
        """Saves the weights (or the adapter) and the tokenizer as a Hugging Face folder."""
        selected = {"selected_adapters": [self.model.active_adapter]} if self.has_adapter else {}
        self.model.save_pretrained(str(folder), **selected)
        self.tokenizer.save_pretrained(str(folder))
        for steering in self._steering:
            steering.save(Path(folder) / STEERING_FILE)

    @property
    def end_token(self) -> int:
        """Id of the token that ends admissible actions and demonstrations."""
        return self.format.end_token

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return next(self.model.parameters()).device

    def rows_at_once(self, columns: int | None = None) -> int:
        """Returns the number of rows per forward pass.

        Args:
            columns: number of tokens per row whose keys and values are written in place while
                actions are generated. None: the rows are read in one pass, or each has a cache of
                its own.
        """
        if self._batch_size is not None:
            return self._batch_size
        if columns is None:
            # On a CPU, more rows are not faster and cost padding and cache misses.
            return 8 if self.device.type == "cpu" else 64
        if self.device.type != "cpu":
            return GPU_ROWS
        size = columns * sum(shape.bytes for shape in self.layer_shapes)
        return max(CPU_ROWS, CPU_WINDOW // size)

    @property
    def has_adapter(self) -> bool:
        """Whether only a LoRA adapter is trained."""
        return hasattr(self.model, "disable_adapter")

    @property
    def _has_reference_adapter(self) -> bool:
        return self.has_adapter and REFERENCE in self.model.peft_config

    @property
    def guide(self) -> Policy | None:
        """Policy whose probabilities rank tokens for `top_k` and `top_p`, or None for its own."""
        return self._guide[0] if self._guide else None

    def follow(self, guide: Policy | None) -> None:
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
            raise ConfigError(
                f"{type(self.model).__name__} does not support gradient checkpointing: set "
                "gradient_checkpointing to False."
            )
        self.gradient_checkpointing = True

    def clone(self, *, share_base: bool = True) -> Policy:
        """Returns an independent copy without the reference. The tokenizer is shared.

        Args:
            share_base: also share the weights below an adapter, which are never trained.
        """
        own = self.own_weights() if share_base else self.state_dict()
        base = [weight for name, weight in self.named_parameters() if name not in own]
        copied = copy.copy(self)
        copied._modules = dict(self._modules)
        copied.model = copy.deepcopy(self.model, {id(weight): weight for weight in base})
        if self._has_reference_adapter:
            copied.model.delete_adapter(REFERENCE)
        copied.stats = GenerationStats()
        copied._reference, copied._guide, copied._steering, copied._layer_shapes = [], [], [], {}
        copied.use(None)
        return copied

    def frozen_copy(self) -> Policy:
        """Returns a clone whose parameters require no gradients."""
        return self.clone().requires_grad_(False)

    # Text and tokens.

    def encode(self, text: str) -> list[int]:
        """Returns the token ids of a text. Special tokens in the text are encoded as plain text."""
        tokens = self._encoded.get(text)
        if tokens is None:
            if len(self._encoded) >= MEMO:
                self._encoded.clear()
            # Lone surrogates cannot be tokenised, but no observation may raise.
            clean = text.encode("utf-8", "replace").decode()
            ids = self.tokenizer(clean, add_special_tokens=False, split_special_tokens=True)
            tokens = self._encoded[text] = tuple(ids["input_ids"])
        return list(tokens)

    def encode_action(self, text: str) -> list[int]:
        """Returns the token ids of an action, with the end token."""
        return [*self.encode(self.format.prefix + text), self.end_token]

    def decode(self, tokens: Sequence[int] | NDArray[np.int32]) -> str:
        """Returns the text of token ids, without special tokens."""
        return self.tokenizer.decode(
            list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )

    def trie(self, candidates: Sequence[str]) -> tuple[TokenTrie, int]:
        """Returns the trie of the candidates' tokens, with end tokens, and its depth."""
        key = tuple(candidates)
        found = self._tries.get(key)
        if found is None:
            if len(self._tries) >= MEMO >> 4:
                self._tries.clear()
            sequences = [self.encode(self.format.prefix + text) for text in key]
            depth = 1 + max(map(len, sequences))
            found = self._tries[key] = TokenTrie(sequences, end=self.end_token), depth
        return found

    # Acting.

    def use(self, engine: Engine | None) -> None:
        """Generates with another engine, or with the policy's own."""
        self.engine = OwnEngine(self) if engine is None else engine
        self._synced = None

    def session(self) -> Session:
        """Returns an empty session for `act`, so that shared prompt prefixes are computed once."""
        return self.engine.session()

    def act(
        self, requests: Sequence[Request], sampling: Sampling, session: Session | None = None
    ) -> list[Sample]:
        """Generates one action for each request, without gradients.

        Args:
            requests: prompts, each with its random generator and optional candidates.
            sampling: sampling parameters.
            session: created by `session`. It reuses the computation of earlier prompts of a slot.

        Raises:
            ConfigError: if the policy is steered and another engine generates.
            ValueError: if a prompt or a list of candidates is empty, or a prompt and its action
                together exceed the model's maximum length.
        """
        with self._acting():
            self._sync()
            samples = self._generate(requests, sampling, session)
        return [replace(sample, version=self.version) for sample in samples]

    def _generate(
        self, requests: Sequence[Request], sampling: Sampling, session: Session | None
    ) -> list[Sample]:
        if sampling.normalization is None:
            return self.engine.generate(requests, sampling, session)
        listed = [i for i, request in enumerate(requests) if request.candidates is not None]
        chosen = choose_candidates(self, [requests[i] for i in listed], sampling)
        samples = dict(zip(listed, chosen, strict=True))
        others = [i for i in range(len(requests)) if i not in samples]
        generated = self.engine.generate([requests[i] for i in others], sampling, session)
        samples |= zip(others, generated, strict=True)
        return [samples[i] for i in range(len(requests))]

    def serve(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        session: Session | None,
        answer: Answer,
    ) -> None:
        """Generates actions until `answer` returns no further requests.

        The policy's own engine starts further requests while other actions are in progress
        (continuous batching), if the model has `blocks`. Otherwise they wait for all actions.

        Args:
            requests: as in `act`.
            sampling: sampling parameters.
            session: as in `act`.
            answer: called with finished actions and their requests, and whether others are in
                progress. If there are none, it may wait for further requests.

        Raises:
            ConfigError: as `act`.
            ValueError: as `act`.
        """

        def versioned(done: Sequence[tuple[Request, Sample]], busy: bool) -> Sequence[Request]:
            return answer([(r, replace(s, version=self.version)) for r, s in done], busy)

        engine = self.engine
        if isinstance(engine, OwnEngine) and self.blocks and sampling.normalization is None:
            assert session is None or isinstance(session, PrefixCache)
            with self._acting():
                self._sync()
                engine.serve(requests, sampling, session, versioned)
            return
        while requests:
            samples = self.act(requests, sampling, session)
            requests = answer(list(zip(requests, samples, strict=True)), False)

    def _sync(self) -> None:
        """Passes changed weights to the engine."""
        if self._steering and not isinstance(self.engine, OwnEngine):
            raise ConfigError(
                f"{type(self.engine).__name__} samples from the model's own logits, and this "
                "policy is steered: leave the engine to the policy with use(None)."
            )
        version = self.weights_version()
        if version != self._synced:
            self.engine.sync(self)
        self._synced = version

    @contextmanager
    def _acting(self) -> Iterator[None]:
        """Disables gradients and training mode, in which gradient checkpointing has no cache."""
        training = self.training
        self.eval()
        try:
            with torch.no_grad(), self.autocast():
                yield
        finally:
            self.train(training)

    def weights_version(self) -> int:
        """Returns a number that changes whenever an optimiser updates the weights in place."""
        return sum(parameter._version for parameter in self.model.parameters())

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

    def new_cache(self) -> DynamicCache:
        """Returns an empty key-value cache."""
        return DynamicCache(config=self.model.config)

    def next_logits(
        self,
        tokens: NDArray[np.int64],
        mask: NDArray[np.bool_] | Tensor | None,
        positions: NDArray[np.int64],
        cache: Cache,
        at: NDArray[np.int64] | None = None,
    ) -> Tensor:
        """Returns float32 [b, V] logits after the last column of tokens [b, n], or columns `at`."""
        inputs: dict[str, Any] = {"input_ids": self._tensor(tokens), "use_cache": True}
        inputs[self._cache_name] = cache
        if self.padding:
            inputs["position_ids"] = self._tensor(positions)
            if isinstance(mask, np.ndarray):
                mask = self._tensor(mask.astype(np.int64))
            inputs["attention_mask"] = mask

        def last(hidden: Tensor) -> Tensor:
            if at is None or tokens.shape[1] == 1:
                return hidden[:, -1:]
            rows = torch.arange(len(hidden), device=hidden.device)
            return hidden[rows, self._tensor(at)][:, None]

        if tokens.shape[1] == 1 and not self._steering:  # the head reads all there is
            return self.model(**inputs).logits[:, -1].float()
        with head_reads(self.model, last) as states:
            logits = self.model(**inputs).logits[:, -1].float()
        for steering in self._steering:
            logits = steering(last(states[0])[:, 0], logits)
        return logits

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    # Scoring.

    def forward(self, collated: Collated) -> Scores:
        """Scores action tokens under the distribution they were sampled from, with gradients.

        Forced tokens, which have a single legal continuation, get log-probability and entropy 0.
        """
        with self.autocast():
            return score_actions(self, collated)

    def hidden(self, collated: Collated) -> tuple[Tensor, Tensor]:
        """Returns hidden states at action tokens [k, H] and bootstrap positions [b, H].

        The output head is not computed.

        Args:
            collated: the segments.
        """
        with self.autocast():
            return read_hidden(self, collated)

    def own_weights(self) -> dict[str, Tensor]:
        """Returns the weights that change: with an adapter, neither the base nor the reference."""
        weights, marks = self.state_dict(), ("lora_", "modules_to_save")
        if not self.has_adapter:
            return weights
        return {
            name: tensor
            for name, tensor in weights.items()
            if any(mark in name for mark in marks) and f".{REFERENCE}." not in f"{name}."
        }

    def load_own_weights(self, weights: dict[str, Tensor]) -> None:
        """Restores `own_weights`.

        Raises:
            KeyError: if the names of the weights differ.
        """
        if differing := weights.keys() ^ self.own_weights().keys():
            raise KeyError(f"The weights {sorted(differing)[:3]} are not those of the policy.")
        self.load_state_dict(weights, strict=False)

    def freeze_reference(self) -> None:
        """Stores the current weights, or those of the adapter, as the reference policy."""
        if self.has_adapter:
            copy_adapter(self.model)
        else:
            self._reference = [self.frozen_copy()]

    def load_reference(self, folder: str | Path, **options: Any) -> None:
        """Loads the reference policy that `save` wrote when it was frozen.

        Args:
            folder: a model folder, or an adapter folder for a policy with adapter.
            **options: options of `Policy.load`, which is not called for an adapter.
        """
        if self.has_adapter:
            load_reference_adapter(self.model, folder)
        else:
            self._reference = [Policy.load(folder, **options).requires_grad_(False)]

    def reference_logprobs(self, collated: Collated) -> Tensor:
        """Returns the log-probs [k] of the action tokens under the reference policy.

        Raises:
            ConfigError: if no reference was frozen or loaded.
        """
        return self._by_reference(lambda policy: policy(collated).logprobs)

    @torch.no_grad()
    def all_logprobs(self, collated: Collated, *, reference: bool = False) -> Tensor:
        """Returns the log-probs [k, V] of all tokens in the places of the action tokens.

        They are -inf for tokens that could not have been sampled.

        Args:
            collated: the segments, with actions that were sampled token by token.
            reference: whether they are the reference policy's.

        Raises:
            ConfigError: if no reference was frozen or loaded.
        """
        with self.autocast():
            if reference:
                return self._by_reference(lambda policy: all_logprobs(policy, collated))
            return all_logprobs(self, collated)

    def _by_reference(self, compute: Callable[[Policy], Tensor]) -> Tensor:
        """Returns the result of a function of the reference policy, without gradients."""
        with torch.no_grad():
            if self._has_reference_adapter:
                with reference_adapter(self.model):
                    return compute(self)
            if not self._reference:
                raise ConfigError(
                    "There is no reference policy: call freeze_reference() before training."
                )
            return compute(self._reference[0].to(self.device))

    # Admissible actions.

    def score_candidates_batch(
        self,
        prompts: Sequence[NDArray[np.int32]],
        candidates: Sequence[Sequence[str]],
        normalization: Normalization = "sum",
    ) -> list[NDArray[np.float32]]:
        """Returns `score_candidates` of every prompt, computed in batches."""
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

        The score of a candidate is the sum of its tokens' log-probs, including the end token
        ("sum", as in GLAM, arXiv 2302.02662), divided by the number of tokens ("token") or of
        whitespace-separated words ("word", as in TWOSOME, arXiv 2401.14151).

        Args:
            prompt: [P] token ids.
            candidates: C texts.
            normalization: length normalisation of the scores.

        Raises:
            ValueError: if the normalization is unknown, the prompt is empty, there are no
                candidates, or a prompt and a candidate exceed the model's maximum length.
        """
        return self.score_candidates_batch([prompt], [candidates], normalization)[0]
