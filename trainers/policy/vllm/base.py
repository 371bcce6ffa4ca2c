"""`VLLM`: the common part of the engines that generate with vLLM.

vLLM has its own copy of the model, which takes over the policy's weights after each update, and its
own prefix cache (PagedAttention, Kwon et al., arXiv 2309.06180).
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from agentgym.errors import ConfigError
from agentgym.trainers.policy.distribution import check_finite
from agentgym.trainers.policy.generate import finish
from agentgym.trainers.policy.grammars import check_grammars
from agentgym.trainers.policy.language_model import LanguageModel
from agentgym.trainers.policy.loading import base_model
from agentgym.trainers.policy.prefix_cache import Slot
from agentgym.trainers.policy.request_state import Row
from agentgym.trainers.policy.sampling import Request, Sample, Sampling, check_bounded

if TYPE_CHECKING:
    from agentgym.trainers.policy.policy import Policy

Step = tuple[int, dict[int, float]]
"""A generated token, and the log-probabilities of it and of the most probable tokens."""
ZERO = -9998.0
"""Log-probabilities below are those of tokens that could not be sampled: a server writes -9999."""
PROBE = "You are in a room. There is a door to the north.\n> go north\n"
"""A prompt that vLLM and the policy have to continue alike."""
LARGEST_GAP = 1.0
"""Difference of log-probabilities in nats that no rounding explains."""
LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Maximum ranks of an adapter that vLLM offers."""


class VLLMSession:
    """A session without contents: vLLM's prefix cache finds shared prefixes by their tokens."""

    def drop(self, slot: Slot) -> None:
        """Does nothing: vLLM evicts the prefixes that were not used for the longest time."""

    def clear(self) -> None:
        """Does nothing."""


class VLLM(ABC):
    """Generates with vLLM.

    Constrained actions follow the policy's token tries, so the project's own engine samples from
    the same distribution. The random numbers differ: a request's generator seeds vLLM's.

    Args:
        policy: the policy. All its weights are copied, or those of its adapter.
    """

    def __init__(self, policy: Policy):
        self._policy = policy
        self._adapted = policy.has_adapter
        self._base_synced = False
        self._syncs = 0
        self._folder = Path(tempfile.mkdtemp(prefix="agentgym-vllm-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def session(self, *, by_slot: bool = True, recurring: bool = False) -> VLLMSession:
        """Returns a session without contents."""
        return VLLMSession()

    def sync(self, policy: LanguageModel) -> None:
        """Takes over the policy's weights and resets the prefix cache, which holds keys of the old.

        The base of an adapter never changes and is copied only once. vLLM loads the files of an
        adapter's id only once, so each version has an id of its own.

        Raises:
            ConfigError: at the first call, if vLLM does not compute the same model.
        """
        self._syncs += 1
        with self._updating():
            if not (self._adapted and self._base_synced):
                self._load_weights(policy.model)
                self._base_synced = True
            if self._adapted:
                folder = self._folder / f"adapter-{self._syncs}"
                policy.model.save_pretrained(
                    str(folder),
                    selected_adapters=[policy.model.active_adapter],
                    save_embedding_layers=False,
                )
                self._load_adapter(folder)
        if self._syncs == 1:
            self._compare(policy)

    def _compare(self, policy: LanguageModel) -> None:
        """Compares log-probabilities with the policy's.

        vLLM has its own implementation of each architecture, some of which ignore weights that
        they do not expect.
        """
        prompt = self._policy.encode(PROBE)
        asked = {"temperature": 1.0, "max_tokens": 1, "logprobs": 0}
        steps = self._complete([prompt] * 8, [{**asked, "seed": seed} for seed in range(8)])
        tokens, positions = np.array([prompt]), np.arange(len(prompt))[None]
        logits = policy.next_logits(tokens, None, positions, policy.new_cache())
        expected = logits[0].float().log_softmax(-1)
        gap = max(abs(float(expected[token]) - found[token]) for [(token, found)] in steps)
        if not gap <= LARGEST_GAP:
            raise ConfigError(
                f"Log-probabilities of vLLM and of the policy differ by up to {gap:.1f} nats: vLLM "
                f"does not read the weights of {type(base_model(policy.model)).__name__} as they "
                "are, or its server has another model. Set engine to 'own', or serve the model "
                "that is trained."
            )

    def generate(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        session: VLLMSession | None = None,
    ) -> list[Sample]:
        """Generates one action for each request.

        Args:
            requests: prompts, each with its random generator and optional candidates.
            sampling: sampling parameters, without `normalization`.
            session: not used.

        Raises:
            ConfigError: if `sampling` has top-p without top-k, or a request has a grammar.
            ValueError: as `generate.generate`.
        """
        if any(request.grammar is not None for request in requests):
            check_grammars("vllm")
        check_bounded(sampling.top_k, sampling.top_p)
        rows = [Row(request, self._policy, sampling) for request in requests]
        # A row is not done after one pass if a candidate contains the end token.
        while waiting := [row for row in rows if not row.done]:
            prompts = [[*row.request.prompt.tolist(), *row.tokens] for row in waiting]
            parameters = [self._parameters(row, sampling) for row in waiting]
            for row, steps in zip(waiting, self._complete(prompts, parameters), strict=True):
                _take_over(row, steps, sampling)
        return finish(rows, self._policy, sampling)

    def _parameters(self, row: Row, sampling: Sampling) -> dict[str, Any]:
        """Returns vLLM's sampling parameters for the next tokens of a row."""
        form, free = self._policy.format, row.trie is None
        done = len(row.tokens)
        support: dict[str, Any] = {}
        if not free:
            support |= {"trie": self._trie(row), "tokens": list(row.tokens)}
        if sampling.temperature > 0 and sampling.top_k:
            support |= {"top_k": sampling.top_k, "top_p": sampling.top_p}
        return {
            "temperature": sampling.temperature,
            "max_tokens": row.limit - done,
            "seed": int(row.uniforms[done] * 2**53),
            # 0: that of the sampled token only
            "logprobs": min(support.get("top_k", 0), self._policy.model.config.vocab_size),
            "ignore_eos": True,
            "stop_token_ids": sorted(form.end_tokens) if free else [form.end_token],
            "stop": list(row.ending.strings) if free else None,
            "detokenize": free,
            "skip_special_tokens": False,  # a stop string may be one
            "spaces_between_special_tokens": False,
            "extra_args": support or None,
        }

    def _trie(self, row: Row) -> Any:
        """Returns the trie of a row, in a form that reaches vLLM's worker."""
        return row.trie

    @abstractmethod
    def _complete(
        self, prompts: list[list[int]], parameters: list[dict[str, Any]]
    ) -> list[list[Step]]:
        """Returns the generated tokens of each prompt."""

    @abstractmethod
    def _updating(self) -> AbstractContextManager[None]:
        """Returns the context in which weights are loaded. It resets the prefix cache."""

    @abstractmethod
    def _load_weights(self, model: Any) -> None:
        """Takes over all weights of a model, without those of its adapter."""

    @abstractmethod
    def _load_adapter(self, folder: Path) -> None:
        """Replaces the adapter by that in a folder."""


def _take_over(row: Row, steps: Sequence[Step], sampling: Sampling) -> None:
    """Appends generated tokens to a row, up to the end of its action.

    `Row.add` also appends the forced tokens that follow. vLLM generated the same ones.
    """
    start = len(row.tokens)
    while not row.done and (place := len(row.tokens) - start) < len(steps):
        token, logprobs = steps[place]
        check_finite([logprobs.get(token, 0.0)])
        if sampling.temperature == 0:
            row.add(token, 0.0, (token,))
            continue
        allowed: Sequence[int] = () if row.trie is None else row.trie.children(row.node)
        if sampling.restricts:
            allowed = sorted(each for each, logprob in logprobs.items() if logprob > ZERO)
        row.add(token, logprobs[token], allowed)


def weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Yields the weights of a model, without those of its adapter, by their names in files."""
    from transformers.core_model_loading import revert_weight_conversion

    base = base_model(model)
    found = {
        name.replace(".base_layer.", "."): tensor
        for name, tensor in base.state_dict().items()
        if "lora_" not in name
    }
    yield from revert_weight_conversion(base, found).items()
