"""What generation is asked for and gives back: `Sampling`, `Request`, `Sample`, `PrefixCache`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from agentgym.errors import ConfigError
from agentgym.trainers.trajectory import FloatArray, Support

Tokens = NDArray[np.int32]
Normalization = Literal["sum", "token", "word"]
States = list[tuple[Tensor, Tensor]]
"""Keys and values of one sequence, [heads, length, size] each, for every layer."""


WORTHWHILE = 8
"""A `PrefixCache` is not asked for fewer tokens than this: copying costs more."""


@dataclass(frozen=True)
class Sampling:
    """How actions are drawn.

    Attributes:
        temperature: divides the logits; 0 takes the most probable token (evaluation only).
        top_k: keeps the k most probable tokens; 0: all.
        top_p: keeps the fewest most probable tokens whose probabilities sum to at least p.
        max_new_tokens: length at which a free-form action is cut off; a candidate is never cut.
        normalization: how candidates are drawn. None: token by token, each among those that lead to
            a candidate. Otherwise as a whole, by a softmax over the sums of their tokens' log-probs
            ("sum"), divided by the number of tokens ("token") or words ("word").
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    max_new_tokens: int = 32
    normalization: Normalization | None = None

    def __post_init__(self) -> None:
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
                "top_k and top_p cut off tokens, and normalization draws whole candidates: leave "
                "one of them out."
            )

    @property
    def restricts(self) -> bool:
        """Whether fewer tokens than the vocabulary can be drawn."""
        return self.temperature == 0 or self.top_k > 0 or self.top_p < 1


@dataclass
class Request:
    """One action to be generated.

    Attributes:
        prompt: [P] token ids; P >= 1.
        rng: draws the uniform numbers of this action, and nothing else.
        candidates: the action must be one of these texts; None: free-form.
        slot: names the place (an episode, an agent) whose growing context this is: the key under
            which a `PrefixCache` keeps what was computed; None: nothing is kept.
    """

    prompt: Tokens
    rng: np.random.Generator
    candidates: Sequence[str] | None = None
    slot: int | str | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """A generated action.

    Attributes:
        tokens: [L] action tokens, the end token included (unless cut off); L >= 1.
        logprobs: [L] log-probabilities under the distribution that was really sampled from.
        support: the tokens that could have been sampled; None: the whole vocabulary.
        text: the action as text, without the end token; the candidate itself if there were any.
        finished: whether the end token was generated.
        choice: place among the candidates of an action that was drawn as a whole: its first token
            then carries the log-probability of the action, the others are forced. None: drawn
            token by token.
    """

    tokens: Tokens
    logprobs: FloatArray
    support: Support | None
    text: str
    finished: bool
    choice: int | None = None


@dataclass
class GenerationStats:
    """Work done since the last `reset`.

    Attributes:
        requests: actions generated.
        prompt_tokens: tokens of their prompts.
        cached_tokens: tokens that a `PrefixCache` held already.
        forced_tokens: action tokens that the constraint left no choice about.
        new_tokens: action tokens, forced ones included.
        forward_passes: calls of the model.
        fed_tokens: tokens fed to the model, padding excluded.
        padded_tokens: padding fed to the model.
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


class PrefixCache:
    """Keys and values of what each slot has seen: a prompt that extends it feeds only the rest.

    Made by `Policy.session()`. What is kept belongs to the weights it was computed with: it is
    dropped by itself when an optimiser has changed them, and by `clear`.
    """

    def __init__(self) -> None:
        self._slots: dict[int | str, tuple[Tokens, States]] = {}
        self._weights: int | None = None

    def clear(self) -> None:
        """Forgets everything."""
        self._slots.clear()

    def drop(self, slot: int | str) -> None:
        """Forgets one slot (its episode is over); unknown slots are no error."""
        self._slots.pop(slot, None)

    def refresh(self, weights: int) -> None:
        """Forgets everything if `weights`, a number that changes with the weights, has changed."""
        if weights != self._weights:
            self.clear()
        self._weights = weights

    def keep(self, slot: int | str, tokens: Tokens, states: States) -> None:
        """Keeps what was computed for a slot's tokens."""
        self._slots.pop(slot, None)
        self._slots[slot] = tokens, states

    def match(self, slot: int | str | None, tokens: Tokens) -> tuple[int, States]:
        """Returns how many tokens at the start are known (never all), and states covering them.

        A slot that is new borrows from the one kept last: prompts begin with the same rules.
        """
        if slot is None or not self._slots:
            return 0, []
        known, states = self._slots.get(slot) or next(reversed(self._slots.values()))
        length = min(len(known), len(tokens) - 1)
        differs = np.flatnonzero(known[:length] != tokens[:length])
        length = int(differs[0]) if len(differs) else length
        return (length, states) if length >= WORTHWHILE else (0, [])
