"""`Policy`: a causal language model that generates actions and scores them.

It is the trainer's interface to a model: `act` (batched generation, optionally constrained to
candidates), `forward` (log-probs under the distribution that was sampled from, with gradients),
`hidden` (hidden states for critics), `score_candidates` (a softmax over admissible actions).

Shapes: B rows, S positions, k action tokens, b bootstraps, V vocabulary, H hidden, C candidates.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentgym.errors import ConfigError
from agentgym.trainers.policy.adapters import (
    REFERENCE,
    copy_adapter,
    load_reference_adapter,
    reference_adapter,
    rename_adapter,
)
from agentgym.trainers.policy.averaging import polyak
from agentgym.trainers.policy.candidates import candidate_logprobs, choose_candidates
from agentgym.trainers.policy.collate import Collated
from agentgym.trainers.policy.engine import Engine, OwnEngine, Session
from agentgym.trainers.policy.generate import Answer
from agentgym.trainers.policy.language_model import LanguageModel
from agentgym.trainers.policy.loading import align_memory, load_model, save_model
from agentgym.trainers.policy.lora import LoraSettings
from agentgym.trainers.policy.prefix_cache import PrefixCache
from agentgym.trainers.policy.sampling import (
    GenerationStats,
    Normalization,
    Request,
    Sample,
    Sampling,
)
from agentgym.trainers.policy.scoring import Scores, all_logprobs, read_hidden, score_actions

STEERING_FILE = "steering.pt"


class Policy(LanguageModel):
    """A language model as a policy. Create one with `Policy.load`.

    Args:
        model: a `transformers` causal LM, or a `peft` model around one.
        tokenizer: its tokenizer.
        batch_size: batch size of generation. If None, it depends on the device.

    Attributes:
        engine: generates the actions of `act` (see `use`).

    Raises:
        ConfigError: if the tokenizer has no end-of-sequence token or the model no output head.
    """

    def __init__(self, model: Any, tokenizer: Any, *, batch_size: int | None = None):
        super().__init__(model, tokenizer, batch_size=batch_size)
        # In a list, so that it is not registered as a submodule.
        self._reference: list[Policy] = []
        self._average: dict[str, Tensor] = {}
        self._synced: int | None = None
        self.engine: Engine = OwnEngine(self)

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
        align_memory(model)
        return cls(model, tokenizer, batch_size=batch_size)

    def save(self, folder: str | Path) -> None:
        """Saves the weights (or the adapter) and the tokenizer as a Hugging Face folder."""
        save_model(self.model, folder)
        self.tokenizer.save_pretrained(str(folder))
        for steering in self._steering:
            steering.save(Path(folder) / STEERING_FILE)

    @property
    def _has_reference_adapter(self) -> bool:
        return self.has_adapter and REFERENCE in self.model.peft_config

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
        copied._average = {}
        copied._reference, copied._guide, copied._steering, copied._layer_shapes = [], [], [], {}
        copied.use(None)
        return copied

    def frozen_copy(self) -> Policy:
        """Returns a clone whose parameters require no gradients."""
        return self.clone().requires_grad_(False)

    # Acting.

    def use(self, engine: Engine | None) -> None:
        """Generates with another engine, or with the policy's own."""
        self.engine = OwnEngine(self) if engine is None else engine
        self._synced = None

    def session(self, *, by_slot: bool = True, recurring: bool = False) -> Session:
        """Returns an empty session for `act`, with which prompts are read once: see `Engine`."""
        return self.engine.session(by_slot=by_slot, recurring=recurring)

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
        # `Row` records it, and other engines need not.
        return [s if s.version is not None else replace(s, version=self.version) for s in samples]

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
        *,
        eager: bool = False,
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
            eager: further requests begin at once (see `Window`).

        Raises:
            ConfigError: as `act`.
            ValueError: as `act`.
        """
        engine = self.engine
        if isinstance(engine, OwnEngine) and self.blocks and sampling.normalization is None:
            assert session is None or isinstance(session, PrefixCache)
            with self._acting():
                self._sync()
                engine.serve(requests, sampling, session, answer, eager=eager)
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
        if training:  # which visits every module
            self.eval()
        try:
            with torch.no_grad(), self.autocast():
                yield
        finally:
            if training:
                self.train()

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

    # The reference policy.

    def freeze_reference(self, tau: float = 1.0) -> None:
        """Makes the current weights the reference policy, or moves the reference towards them.

        Args:
            tau: Polyak coefficient. The weights of the reference, or those of its adapter, become
                (1 - tau) reference + tau policy. Without a reference, they are copied.
        """
        if tau < 1:
            average = polyak(self.reference_weights(), self.own_weights(), tau)
            self.load_reference_weights(average)
            return
        self._average = {}
        if self.has_adapter:
            copy_adapter(self.model)
        else:
            self._reference = [self.frozen_copy()]

    def reference_weights(self) -> dict[str, Tensor]:
        """Returns the weights of the reference policy by the names of `own_weights`.

        Without a reference, the dictionary is empty. Those of a moving average are in float32.
        """
        if self._average:
            return self._average
        if self._has_reference_adapter:
            return rename_adapter(self.state_dict(), REFERENCE, self.model.active_adapter)
        return self._reference[0].own_weights() if self._reference else {}

    def load_reference_weights(self, weights: dict[str, Tensor]) -> None:
        """Sets the reference policy to weights of `reference_weights`."""
        if not self.reference_weights():
            self.freeze_reference()
        if self.has_adapter:
            renamed = rename_adapter(weights, self.model.active_adapter, REFERENCE)
            self.load_state_dict(renamed, strict=False)
        else:
            self._reference[0].load_state_dict(weights)
        self._average = {}
        own = self.reference_weights()
        if any(each.dtype != own[name].dtype for name, each in weights.items() if name in own):
            self._average = weights  # more exact than the model's

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
        read = partial(all_logprobs, collated=collated)
        with self.autocast():
            return self._by_reference(read) if reference else read(self)

    def _by_reference(self, compute: Callable[[Policy], Tensor]) -> Tensor:
        """Returns the result of a function of the reference policy, without gradients."""
        with torch.no_grad():
            if self._has_reference_adapter:
                with reference_adapter(self.model):
                    return compute(self)
            if not self._reference:
                raise ConfigError("There is no reference policy: call freeze_reference() first.")
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
        return [score.cpu().numpy().copy() for score in scores]  # equal prompts share theirs

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
            ValueError: for an unknown normalization, no candidates, an empty or too long prompt.
        """
        return self.score_candidates_batch([prompt], [candidates], normalization)[0]
