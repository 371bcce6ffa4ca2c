"""Legal tokens at each position of an action."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from agentgym.trainers.data.trajectory import Support

if TYPE_CHECKING:
    from torch import Tensor

    from agentgym.trainers.policy.language_model import LanguageModel


def candidate_support(model: LanguageModel, candidates: Sequence[str], text: str) -> Support | None:
    """Returns the legal tokens at each position of a candidate's tokens, or None if not listed."""
    if text not in candidates:
        return None
    trie, node = model.trie(candidates)[0], 0
    allowed: list[Sequence[int]] = []
    for token in model.encode_action(text):
        allowed.append(trie.children(node))
        node = trie.step(node, token)
    return support_of(allowed)


def support_of(allowed: Sequence[Sequence[int]]) -> Support:
    """Returns the legal tokens at each position as a `Support`."""
    offsets = np.cumsum([0, *map(len, allowed)]).astype(np.int32)
    ids = np.fromiter(itertools.chain.from_iterable(allowed), np.int32, offsets[-1])
    return Support(offsets, ids)


def listed(allowed: NDArray[np.bool_]) -> Sequence[int]:
    """Returns allowed tokens [V] as ids, or the others as `~id` if they are fewer."""
    ids = allowed.nonzero()[0]
    return (ids if 2 * len(ids) <= len(allowed) else ~(~allowed).nonzero()[0]).tolist()


def places_of(kept: Tensor) -> list[list[int]]:
    """Returns the columns of each row [b, C] that are True. Only their numbers leave the device."""
    counts, columns = kept.sum(-1).tolist(), kept.nonzero()[:, 1].tolist()
    stops = itertools.accumulate(counts)
    return [columns[stop - count : stop] for stop, count in zip(stops, counts, strict=True)]
