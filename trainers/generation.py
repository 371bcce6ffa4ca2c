"""Generation: `Sampling`, `Request`, `Sample`, and the batched loop that turns requests into samples.

Tokens are drawn by inverse CDF with uniform numbers of each request's own generator, so what is
sampled does not depend on who else is in the batch. The log-probability kept with a token is the
one it was really drawn with: temperature first, then the constraint, then top-k, then top-p.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentgym.trainers.trajectory import FloatArray, Support


@dataclass(frozen=True)
class Sampling:
    """How actions are drawn.

    Attributes:
        temperature: divides the logits; 0 takes the most probable token (evaluation only).
        top_k: keeps the k most probable tokens; 0: all.
        top_p: keeps the fewest most probable tokens whose probabilities sum to at least p.
        max_new_tokens: length at which a free-form action is cut off; a candidate is never cut.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    max_new_tokens: int = 32


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

    prompt: NDArray[np.int32]
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
    """

    tokens: NDArray[np.int32]
    logprobs: FloatArray
    support: Support | None
    text: str
    finished: bool


@dataclass
class GenerationStats:
    """Work done since the last `reset`.

    Attributes:
        requests: actions generated.
        prompt_tokens: tokens of their prompts.
        cached_tokens: prompt tokens that a `PrefixCache` held already.
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

    Made by `Policy.session()`. What is stored belongs to the weights it was computed with: it is
    dropped by itself when an optimiser has changed them, and by `clear`.
    """

    def clear(self) -> None:
        """Forgets everything."""
        raise NotImplementedError

    def drop(self, slot: int | str) -> None:
        """Forgets one slot (its episode is over); unknown slots are no error."""
        raise NotImplementedError
