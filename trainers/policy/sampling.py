"""Inputs and outputs of generation: `Sampling`, `Request`, `Sample`, `GenerationStats`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from agentgym.errors import ConfigError
from agentgym.trainers.data.trajectory import FloatArray, Support, Tokens

Normalization = Literal["sum", "token", "word"]
UNBOUNDED = (
    "vLLM returns the most probable tokens of a position up to a number, and top_p alone has no "
    "such number: set top_k too (for example 100), set top_p to 1, or set engine to 'own'."
)


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters.

    Attributes:
        temperature: divides the logits. 0 is greedy decoding (evaluation only).
        top_k: keeps the k most probable tokens. 0 keeps all.
        top_p: keeps the fewest most probable tokens whose probabilities sum to at least p.
        max_new_tokens: maximum length of a free-form action in tokens. Candidates are never cut.
        normalization: length normalisation of candidate scores. If None, candidates are sampled
            token by token from the legal continuations. Otherwise, they are sampled as a whole from
            a softmax over the sums of their tokens' log-probs ("sum"), divided by the number of
            tokens ("token") or words ("word").
        stop: strings that end a free-form action, besides the model's end tokens. The action is the
            text before the string. All generated tokens are kept.
        epsilon: probability of a uniform choice of the candidate in place of the policy's
            (`exploration`). Free-form actions are not affected.

    Raises:
        ConfigError: if a parameter is out of range, `normalization` or `epsilon` is combined with
            `top_k` or `top_p`, or `epsilon` with temperature 0.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    max_new_tokens: int = 32
    normalization: Normalization | None = None
    stop: tuple[str, ...] = ()
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.stop, str) or not all(self.stop):
            raise ConfigError(f"stop must be a tuple of texts that are not empty: {self.stop!r}.")
        object.__setattr__(self, "stop", tuple(self.stop))  # a list in JSON
        if not 0 <= self.temperature < float("inf"):
            raise ConfigError(f"temperature must be 0 (greedy) or positive: {self.temperature}.")
        if self.top_k < 0:
            raise ConfigError(f"top_k must be 0 (all tokens) or positive, got {self.top_k}.")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p must be in (0, 1], got {self.top_p}.")
        if self.max_new_tokens < 1:
            raise ConfigError(f"max_new_tokens must be at least 1, got {self.max_new_tokens}.")
        if self.normalization and (self.top_k or self.top_p < 1):
            raise ConfigError(
                "top_k and top_p restrict tokens, but with normalization whole candidates are "
                "sampled. Use only one of them."
            )
        if not 0 <= self.epsilon < 1:
            raise ConfigError(f"epsilon must be in [0, 1), got {self.epsilon}.")
        if self.epsilon and self.restricts:
            raise ConfigError(
                f"epsilon = {self.epsilon} gives every candidate a probability, and temperature 0, "
                "top_k and top_p exclude some: use only one of them."
            )

    @property
    def restricts(self) -> bool:
        """Whether sampling is restricted to a subset of the vocabulary."""
        return self.temperature == 0 or self.top_k > 0 or self.top_p < 1


@dataclass
class Request:
    """A request to generate one action.

    Attributes:
        prompt: [P] token ids, P >= 1.
        rng: random generator of this action's uniform numbers.
        candidates: texts to choose the action from. None allows free-form actions.
        slot: key of the `PrefixCache` entry, shared by the requests of a growing context (an
            episode, an agent). If None, nothing is cached.
        weights: name of the weights to act with. "" is the policy itself.
        explores: whether the `epsilon` of the sampling applies to this action.
        max_new_tokens: a lower limit of a free-form action in tokens than that of the sampling.
        stop: strings that end a free-form action, besides those of the sampling.
        cancelled: whether nobody waits for the action any more. It ends at its next token, and is
            not `finished`. Another thread may set it.
        grammar: regular expression of a free-form action, such as `action_grammar(env).regex`.
            Tokens are then sampled from those after which the action can still be completed. None:
            any text.
    """

    prompt: Tokens
    rng: np.random.Generator
    candidates: Sequence[str] | None = None
    slot: int | str | None = None
    weights: str = ""
    explores: bool = True
    max_new_tokens: int | None = None
    stop: tuple[str, ...] = ()
    cancelled: bool = False
    grammar: str | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """A generated action.

    Attributes:
        tokens: [L] action tokens as they were generated, including the end token or the stop string
            unless the action was cut off. L >= 1.
        logprobs: [L] log-probabilities under the distribution that was sampled from.
        support: the tokens that could have been sampled, or None for the whole vocabulary.
        text: the action as text, without the end token, up to the stop string. A candidate is
            returned verbatim.
        finished: whether an end token or a stop string was generated.
        choice: index of the candidate if the action was sampled as a whole. Its first token then
            carries the log-probability of the action and the others are forced. None if the action
            was sampled token by token.
        version: version of the weights that sampled it (see `LanguageModel.version`).
        token_versions: [L] that of each token, if the weights changed within the action. `version`
            is then that of the last token.
    """

    tokens: Tokens
    logprobs: FloatArray
    support: Support | None
    text: str
    finished: bool
    choice: int | None = None
    version: int | None = None
    token_versions: Tokens | None = None


@dataclass
class GenerationStats:
    """Counters of the work done since the last `reset`.

    Attributes:
        requests: actions generated.
        prompt_tokens: tokens of their prompts.
        cached_tokens: tokens found in a `PrefixCache`, or shared with another request of the call.
        forced_tokens: action tokens with a single legal continuation.
        new_tokens: action tokens, including forced ones.
        forward_passes: forward passes of the model.
        fed_tokens: tokens fed to the model, without padding.
        padded_tokens: padding tokens fed to the model.
    """

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    forced_tokens: int = 0
    new_tokens: int = 0
    forward_passes: int = 0
    fed_tokens: int = 0
    padded_tokens: int = 0

    def reset(self) -> None:
        """Sets all counters to 0."""
        for name in self.__dataclass_fields__:
            setattr(self, name, 0)


def check_bounded(top_k: int, top_p: float) -> None:
    """Checks that the number of tokens that can be sampled has a bound.

    Raises:
        ConfigError: for top-p without top-k.
    """
    if top_p < 1 and not top_k:
        raise ConfigError(UNBOUNDED)
