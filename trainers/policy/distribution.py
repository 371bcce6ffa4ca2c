"""The distribution of an action token: sampling (`draw`) and scoring (`score`).

Both divide the logits by the temperature and take a softmax over the allowed tokens. The
log-probability of a fresh sample is therefore the same in both, so the first importance-sampling
ratio is 1.

Shapes: b rows, C columns (the vocabulary, or padded lists of allowed tokens), k action tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from agentgym.errors import LogitsError


class Draw(NamedTuple):
    """Sampled tokens, one per row.

    Attributes:
        column: int64 [b] the sampled columns.
        logprob: float32 [b] their log-probabilities.
        logits: [b, C] -inf at columns that could not have been sampled.
    """

    column: Tensor
    logprob: Tensor
    logits: Tensor

    @property
    def kept(self) -> Tensor:
        """Returns bool [b, C], True for the columns that could have been sampled."""
        return self.logits > -torch.inf


def draw(
    logits: Tensor,
    uniforms: Tensor,
    temperature: float,
    top_k: int = 0,
    top_p: float = 1.0,
    guide: Tensor | None = None,
) -> Draw:
    """Samples one column per row by inverse CDF.

    Args:
        logits: float32 [b, C], -inf at tokens that are not allowed. If others are not finite, the
            log-probability is NaN (see `check_finite`).
        uniforms: float64 [b] uniform numbers in [0, 1).
        temperature: divides the logits. With 0, the first of the most probable columns is taken.
        top_k: keeps the k most probable columns, the first ones among ties. 0 keeps all.
        top_p: keeps the fewest most probable columns with a total probability of at least p
            (nucleus sampling, arXiv 1904.09751), after `top_k`.
        guide: [b, C] logits that rank the columns for `top_k` and `top_p`. If None, `logits` do.
    """
    if temperature == 0:
        highest, column = logits.max(-1)
        only = torch.full_like(logits, -torch.inf).scatter_(-1, column[:, None], 0.0)
        return Draw(column, highest - highest, only)  # 0, or NaN
    if temperature != 1:
        logits = logits / temperature
    if 0 < top_k < logits.shape[-1] or top_p < 1:
        by = logits if guide is None else guide / temperature
        logits = logits.masked_fill(~most_probable(by, top_k, top_p), -torch.inf)
    logprobs = logits.log_softmax(-1)
    # Summed in float64, because float32 is too coarse for a CDF over a large vocabulary.
    cdf = logprobs.double().exp_().cumsum_(-1)
    total = cdf[:, -1:].contiguous()
    column = torch.searchsorted(cdf, uniforms[:, None] * total, right=True)
    # A product that is rounded up to the total must not select a column beyond the last possible.
    column = torch.minimum(column, torch.searchsorted(cdf, total))
    column = column.clamp_(max=logits.shape[-1] - 1)  # a total of NaN is found nowhere
    return Draw(column[:, 0], logprobs.gather(-1, column)[:, 0], logits)


def check_finite(logprobs: Iterable[float]) -> None:
    """Checks the log-probabilities of sampled tokens, after they were copied from the device.

    Raises:
        LogitsError: if one of them is NaN or infinite.
    """
    if not all(map(math.isfinite, logprobs)):
        raise LogitsError(
            "The logits are not finite, so no token can be sampled. Either the weights are not "
            "finite (they diverged, or the files are damaged: lower --lr, continue from an earlier "
            "checkpoint), or the activations exceed the range of the dtype (float16 ends at 65504: "
            "use --dtype bfloat16 or float32)."
        )


def most_probable(logits: Tensor, top_k: int, top_p: float) -> Tensor:
    """Returns a bool mask [b, C] of the columns kept by top-k followed by top-p."""
    ordered, order = torch.sort(logits, dim=-1, descending=True, stable=True)
    keep = torch.ones_like(ordered, dtype=torch.bool)
    if 0 < top_k < ordered.shape[-1]:
        keep[:, top_k:] = False
        ordered = ordered.masked_fill(~keep, -torch.inf)
    if top_p < 1:
        probabilities = ordered.softmax(-1)
        # A column is kept if the columns before it sum to less than p, so one is always kept.
        keep &= probabilities.cumsum(-1) - probabilities < top_p
        keep[:, 0] = True
    return torch.zeros_like(keep).scatter(-1, order, keep)


@torch.no_grad()
def score(
    logits: Tensor,
    target: Tensor,
    support: tuple[Tensor, Tensor] | None,
    temperature: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Returns log-probabilities [k] and entropies [k] in nats for k tokens, without gradients.

    Args:
        logits: [k, V] of any float type.
        target: int64 [k] the tokens to score.
        support: int64 offsets [k + 1] and ids. Token i was sampled from
            `ids[offsets[i]:offsets[i + 1]]`, or from all tokens but t if the ids are `~t`, below 0.
            An empty range, or None, means the whole vocabulary.
        temperature: divides the logits.
    """
    if support is None:
        return _score_vocabulary(logits, target, temperature)
    offsets, ids = support
    counts = offsets.diff()
    if bool((excluded := ids < 0).any()):
        row = torch.repeat_interleave(counts)[excluded]
        logits = logits.index_put((row, ~ids[excluded]), logits.new_tensor(-torch.inf))
        counts, ids = counts.index_fill(0, row, 0), ids[~excluded]
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


@torch.no_grad()
def score_gradient(
    logits: Tensor,
    target: Tensor,
    support: tuple[Tensor, Tensor] | None,
    temperature: float,
    entropy: Tensor,
    by_logprob: Tensor,
    by_entropy: Tensor | None,
) -> Tensor:
    """Returns the gradient [k, V] of a loss with respect to the logits of `score`.

    With p the distribution of a token and H its entropy, the gradient with respect to logit v is
    `by_logprob * (1[v = target] - p(v)) - by_entropy * p(v) * (log p(v) + H)`, divided by the
    temperature.

    Args:
        logits: [k, V] as in `score`.
        target: int64 [k] as in `score`.
        support: offsets and ids as in `score`.
        temperature: divides the logits.
        entropy: [k] the entropies that `score` returned.
        by_logprob: [k] gradient of the loss with respect to the log-probabilities.
        by_entropy: [k] gradient of the loss with respect to the entropies. None: 0.
    """
    scaled = _scaled(logits, temperature)
    if support is not None:
        scaled = scaled.masked_fill(~allowed_tokens(*support, scaled.shape[-1]), -torch.inf)
    by_logprob = by_logprob / temperature
    if by_entropy is None:
        gradient = scaled.softmax(-1).mul_(-by_logprob[:, None])
        gradient.scatter_add_(-1, target[:, None], by_logprob[:, None])
        return gradient.to(logits.dtype)
    by_entropy = by_entropy / temperature
    logprobs = scaled.log_softmax(-1)
    del scaled
    p = logprobs.exp()
    gradient = logprobs.clamp_(min=_LOWEST).mul_(p).addcmul_(p, entropy[:, None])
    gradient.mul_(-by_entropy[:, None]).addcmul_(p, by_logprob[:, None], value=-1.0)
    gradient.scatter_add_(-1, target[:, None], by_logprob[:, None])
    return gradient.to(logits.dtype)


def allowed_tokens(offsets: Tensor, ids: Tensor, vocabulary: int) -> Tensor:
    """Returns bool [k, V], True for the tokens of a support: see `score`."""
    counts = offsets.diff()
    row, excluded = torch.repeat_interleave(counts), ids < 0
    most = (counts == 0).index_fill(0, row[excluded], True)
    allowed = most[:, None].repeat(1, vocabulary)
    allowed[row, torch.where(excluded, ~ids, ids)] = ~excluded
    return allowed


_LOWEST = torch.finfo(torch.float32).min
"""Replaces log 0 in p log p, which is 0 for p = 0."""


def _scaled(logits: Tensor, temperature: float) -> Tensor:
    """Returns float32 logits divided by the temperature, without a copy if nothing changes."""
    return logits.float() if temperature == 1 else logits.float() / temperature


def _score_vocabulary(logits: Tensor, target: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    logprobs = _scaled(logits, temperature).log_softmax(-1)
    chosen = logprobs.gather(-1, target[:, None])[:, 0]
    p = logprobs.exp()
    return chosen, -p.mul_(logprobs.clamp_(min=_LOWEST)).sum(-1)


def _score_support(
    logits: Tensor, target: Tensor, counts: Tensor, ids: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """Softmax over ragged sets of tokens. Rows with an empty set return 0."""
    k = len(counts)
    row = torch.repeat_interleave(torch.arange(k, device=ids.device), counts)
    allowed = logits[row, ids].float() / temperature
    peak = torch.full((k,), -torch.inf, device=allowed.device)
    peak = peak.scatter_reduce(0, row, allowed, "amax")
    peak = peak.masked_fill(counts == 0, 0.0)
    mass = torch.zeros(k, device=allowed.device).index_add(0, row, (allowed - peak[row]).exp())
    normaliser = mass.masked_fill(counts == 0, 1.0).log() + peak
    logprobs = allowed - normaliser[row]
    chosen = logits.gather(-1, target[:, None])[:, 0].float() / temperature
    logprob = (chosen - normaliser).masked_fill(counts == 0, 0.0)
    entropy = torch.zeros_like(normaliser).index_add(0, row, -logprobs.exp() * logprobs)
    return logprob, entropy
