"""`Engine`: the interface of generation, and the project's own engine.

`Policy.act` generates with an engine. The default is `OwnEngine`, which runs the policy's model
itself. Another one, such as an inference server with its own copy of the weights, is set with
`Policy.use`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol

import torch

from agentgym.trainers.policy.generate import Answer, generate, serve
from agentgym.trainers.policy.graph_decoder import GraphDecoder
from agentgym.trainers.policy.language_model import LanguageModel
from agentgym.trainers.policy.prefix_cache import PrefixCache, Slot
from agentgym.trainers.policy.sampling import Request, Sample, Sampling
from agentgym.trainers.policy.shared_attention import shares_attention


class Session(Protocol):
    """Contexts of many slots, which grow from call to call."""

    def drop(self, slot: Slot) -> None:
        """Forgets the context of a slot, for example at the end of its episode."""
        ...

    def clear(self) -> None:
        """Forgets all contexts."""
        ...


class Engine(Protocol):
    """Protocol of an engine."""

    def session(self, *, by_slot: bool = True, recurring: bool = False) -> Session:
        """Returns an empty session, in which `generate` computes shared prefixes once.

        Args:
            by_slot: whether the prompts of a slot begin alike. False: no context needs to be kept.
            recurring: whether whole prompts recur.
        """
        ...

    def sync(self, policy: LanguageModel) -> None:
        """Takes over the weights of a policy. Called before `generate` when they have changed.

        Nothing that was computed with the old weights may be used afterwards: an engine with a
        prefix cache resets it.
        """
        ...

    def sleep(self) -> None:
        """Frees memory that training can use, up to the next call of `sync` or `generate`."""
        ...

    def generate(
        self, requests: Sequence[Request], sampling: Sampling, session: Any = None
    ) -> list[Sample]:
        """Generates one action for each request.

        The log-probabilities of a sample are those of the distribution that its tokens were sampled
        from: after temperature, constraint, top-k and top-p. A constrained action follows the
        tokens of one candidate, as `LanguageModel.trie` has them.

        Args:
            requests: prompts, each with its random generator and optional candidates.
            sampling: sampling parameters, without `normalization`.
            session: created by `session`. None: no contexts are kept.
        """
        ...


class OwnEngine:
    """Generates with the policy's own model and weights.

    Args:
        policy: the policy.
        graphs: decodes in steps of static shapes, which CUDA graphs replay. False: decodes token by
            token. None: uses graphs on a GPU.
    """

    def __init__(self, policy: LanguageModel, graphs: GraphDecoder | bool | None = None):
        self._policy, self._graphs = policy, graphs

    def session(self, *, by_slot: bool = True, recurring: bool = False) -> PrefixCache:
        """Returns an empty prefix cache."""
        return PrefixCache(by_slot=by_slot, recurring=recurring)

    def sync(self, policy: LanguageModel) -> None:
        """Does nothing: the weights are the policy's, and a `PrefixCache` notices their change."""

    def sleep(self) -> None:
        """Does nothing: training uses the same weights."""

    def generate(
        self, requests: Sequence[Request], sampling: Sampling, session: PrefixCache | None = None
    ) -> list[Sample]:
        """Generates one action for each request."""
        with self._mode():
            return generate(self._policy, requests, sampling, session, self._decoder())

    def serve(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        session: PrefixCache | None,
        answer: Answer,
        *,
        eager: bool = False,
    ) -> None:
        """Generates actions, and those of the further requests that `answer` returns."""
        with self._mode():
            decoder = self._decoder()
            serve(self._policy, requests, sampling, session, answer, decoder, eager=eager)

    def _decoder(self) -> GraphDecoder | None:
        if self._graphs is True or (self._graphs is None and self._policy.device.type == "cuda"):
            self._graphs = GraphDecoder(self._policy)
        return self._graphs or None

    @contextmanager
    def _mode(self) -> Iterator[None]:
        policy = self._policy
        inference = torch.inference_mode() if policy.inference_mode else nullcontext()
        with inference, shares_attention(policy.model):
            yield
