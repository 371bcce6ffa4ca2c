"""Thought and action tokens of a reply, in environments wrapped in `ExtractAction`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from agentgym.trainers.policy.sampling import Sample

Decode = Callable[[NDArray[np.int32]], str]
ActionSpan = Callable[[str], tuple[int, int] | None]
"""Maps a reply to the characters of its action, or to None if it has no action."""


def span_finder(env: gymnasium.Env[Any, Any]) -> ActionSpan | None:
    """Returns the `action_span` of an environment's `ExtractAction`, or None without one."""
    try:
        return env.get_wrapper_attr("action_span")
    except AttributeError:
        return None


def thought_mask(sample: Sample, decode: Decode, span_of: ActionSpan) -> NDArray[np.bool_] | None:
    """Returns True for the thought tokens of a reply, [L].

    An action token shares at least one byte with the action or its marks, so a token on the border
    is an action token. The end token is an action token, too. A reply without an action was played
    as an invalid action and has no thought tokens.

    Args:
        sample: the reply.
        decode: maps token ids to text. Bytes that are no complete character are decoded to
            replacement characters.
        span_of: finds the characters of the action.

    Returns:
        The mask, or None if there are no thought tokens.
    """
    text = decode(sample.tokens)
    span = span_of(text)
    if span is None:
        return None

    def complete(count: int) -> tuple[int, bool]:
        """Returns the characters that the first tokens complete, and whether they begin another."""
        part = decode(sample.tokens[:count])
        pairs = enumerate(zip(part, text, strict=False))
        common = next((i for i, (one, other) in pairs if one != other), min(len(part), len(text)))
        return common, len(part) > common

    tokens = range(len(sample.tokens))
    start, stop = span
    first = bisect_left(tokens, start + 1, key=lambda token: sum(complete(token + 1)))
    after = bisect_left(tokens, stop, key=lambda token: complete(token)[0])
    mask = np.ones(len(sample.tokens), bool)
    mask[first:after] = False
    if sample.finished:
        mask[-1] = False
    return mask if mask.any() else None
