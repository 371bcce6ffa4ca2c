"""The distribution an action token is drawn from: drawing (`draw`) beside scoring (`score`).

Both divide the logits by the temperature and take a softmax over the tokens that were allowed, so
that the log-probability of a fresh sample is the same number in both: the first ratio is 1.

Shapes: b rows, C columns (tokens of the vocabulary, or allowed tokens padded), k action tokens.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Draw(NamedTuple):
    """Tokens drawn, one a row.

    Attributes:
        column: int64 [b] the columns chosen.
        logprob: float32 [b] their log-probabilities.
        kept: bool [b, C] the columns that could have been chosen.
    """

    column: Tensor
    logprob: Tensor
    kept: Tensor


def draw(
    logits: Tensor,
    uniforms: Tensor,
    temperature: float,
    top_k: int = 0,
    top_p: float = 1.0,
    guide: Tensor | None = None,
) -> Draw:
    """Draws a column of each row by inverse CDF.

    Args:
        logits: float32 [b, C]; -inf where a token is not allowed.
        uniforms: float64 [b] in [0, 1).
        temperature: divides the logits; 0 takes the first of the most probable columns.
        top_k: keeps the k most probable columns; 0: all. Of equal ones the first are kept.
        top_p: keeps the fewest most probable columns that sum to at least p, after `top_k`.
        guide: [b, C] logits that say what is most probable to `top_k` and `top_p`; None: `logits`.
    """
    if temperature == 0:
        column = logits.argmax(-1)
        kept = torch.nn.functional.one_hot(column, logits.shape[-1]).bool()
        return Draw(column, torch.zeros_like(logits[:, 0]), kept)
    logits = logits / temperature
    kept = logits > -torch.inf
    if 0 < top_k < logits.shape[-1] or top_p < 1:
        by = logits if guide is None else guide / temperature
        kept = kept & _most_probable(by, top_k, top_p)
        logits = logits.masked_fill(~kept, -torch.inf)
    logprobs = logits.log_softmax(-1)
    # Summed in float64: over a large vocabulary float32 would bend the distribution.
    cdf = logprobs.double().exp().cumsum(-1)
    total = cdf[:, -1:]
    column = torch.searchsorted(cdf, uniforms[:, None] * total, right=True)
    # A product rounded up to the total must not fall off the last column that is possible.
    column = torch.minimum(column, (cdf < total).sum(-1, keepdim=True))
    return Draw(column[:, 0], logprobs.gather(-1, column)[:, 0], kept)


def _most_probable(logits: Tensor, top_k: int, top_p: float) -> Tensor:
    """Returns [b, C] which columns top-k and then top-p keep."""
    ordered, order = torch.sort(logits, dim=-1, descending=True, stable=True)
    keep = torch.ones_like(ordered, dtype=torch.bool)
    if 0 < top_k < ordered.shape[-1]:
        keep[:, top_k:] = False
        ordered = ordered.masked_fill(~keep, -torch.inf)
    if top_p < 1:
        probabilities = ordered.softmax(-1)
        # A column stays if those before it have not reached p yet; so one always stays.
        keep &= probabilities.cumsum(-1) - probabilities < top_p
        keep[:, 0] = True
    return torch.zeros_like(keep).scatter(-1, order, keep)


def score(
    logits: Tensor,
    target: Tensor,
    support: tuple[Tensor, Tensor] | None,
    temperature: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Returns log-probability [k] and entropy [k] (nats) of the distributions of k tokens.

    Args:
        logits: [k, V] of any float type.
        target: int64 [k] the tokens to score.
        support: int64 offsets [k + 1] and ids: token i could have been one of
            `ids[offsets[i]:offsets[i + 1]]`; an empty range, or None, means the whole vocabulary.
        temperature: divides the logits.
    """
    if support is None:
        return _score_vocabulary(logits, target, temperature)
    offsets, ids = support
    counts = offsets.diff()
    free = counts == 0
    if bool(free.all()):
        return _score_vocabulary(logits, target, temperature)
    logprob, entropy = _score_support(logits, target, counts, ids, temperature)
    if bool(free.any()):
        rows = free.nonzero()[:, 0]
        whole = _score_vocabulary(logits[rows], target[rows], temperature)
        logprob = logprob.index_copy(0, rows, whole[0])
        entropy = entropy.index_copy(0, rows, whole[1])
    return logprob, entropy


def _score_vocabulary(logits: Tensor, target: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    logprobs = (logits.float() / temperature).log_softmax(-1)
    entropy = -(logprobs.exp() * logprobs.clamp(min=torch.finfo(logprobs.dtype).min)).sum(-1)
    return logprobs.gather(-1, target[:, None])[:, 0], entropy


def _score_support(
    logits: Tensor, target: Tensor, counts: Tensor, ids: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """Softmax over ragged sets of tokens; rows whose set is empty come out as 0."""
    k = len(counts)
    row = torch.repeat_interleave(torch.arange(k, device=ids.device), counts)
    allowed = logits[row, ids].float() / temperature
    peak = torch.full((k,), -torch.inf, device=allowed.device)
    peak = peak.scatter_reduce(0, row, allowed.detach(), "amax")
    peak = peak.masked_fill(counts == 0, 0.0)
    mass = torch.zeros(k, device=allowed.device).index_add(0, row, (allowed - peak[row]).exp())
    normaliser = mass.masked_fill(counts == 0, 1.0).log() + peak
    logprobs = allowed - normaliser[row]
    chosen = logits.gather(-1, target[:, None])[:, 0].float() / temperature
    logprob = (chosen - normaliser).masked_fill(counts == 0, 0.0)
    entropy = torch.zeros_like(normaliser).index_add(0, row, -logprobs.exp() * logprobs)
    return logprob, entropy
