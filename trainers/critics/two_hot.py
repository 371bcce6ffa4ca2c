"""Two-hot values: a distribution over bins whose expectation is the value.

"Mastering Diverse Domains through World Models" (DreamerV3, arXiv 2301.04104), eq. 9 and 10, after
MuZero (arXiv 1911.08265). The bins are equally spaced in symlog(x) = sign(x) log(1 + |x|), dense
near 0 and sparse far from it. The expectation is that of the bins themselves, not of their symlogs,
so that the best prediction of a random return is its mean.

Changed: targets are normalised, so 129 bins from -147 to 147 standard deviations replace 255 bins
from -4.9e8 to 4.9e8.
"""

from __future__ import annotations

import torch
from torch import Tensor

from agentgym.trainers.data.batch import Batch
from agentgym.trainers.update.losses import Sum

BINS = 129
LIMIT = 5.0
"""Symlog of the last bin."""


def support(bins: int = BINS, limit: float = LIMIT) -> Tensor:
    """Returns the values of the bins in ascending order, symmetric around 0.

    Args:
        bins: number of bins, odd, so that 0 is one of them.
        limit: symlog of the last bin.

    Raises:
        ValueError: if the number of bins is even or below 3, or the limit not positive.
    """
    if bins < 3 or bins % 2 == 0 or limit <= 0:
        raise ValueError(
            f"Bins must be an odd number from 3 and the limit positive, got {bins} and {limit}."
        )
    upper = torch.linspace(0.0, limit, bins // 2 + 1).expm1()
    return torch.cat([-upper.flip(0)[:-1], upper])


def two_hot(values: Tensor, bins: Tensor) -> Tensor:
    """Returns the distribution [..., B] over the two nearest bins whose mean is the value.

    Args:
        values: values [...]. Those outside the bins count as the first or last bin.
        bins: ascending values of the bins [B].
    """
    inside = values.clamp(bins[0], bins[-1])
    above = torch.searchsorted(bins, inside.contiguous()).clamp(1, len(bins) - 1)
    low, high = bins[above - 1], bins[above]
    share = ((inside - low) / (high - low)).unsqueeze(-1)
    encoded = torch.zeros(*values.shape, len(bins), device=values.device, dtype=bins.dtype)
    encoded.scatter_(-1, (above - 1).unsqueeze(-1), 1 - share)
    return encoded.scatter_(-1, above.unsqueeze(-1), share)


def cross_entropy(logits: Tensor, targets: Tensor, index: Tensor, batch: Batch) -> Sum:
    """Returns the cross-entropy of logits [k, B] against the two-hot targets of the batch."""
    wanted = two_hot(targets[index], support(logits.shape[-1]).to(logits.device))
    loss = -(wanted * logits.log_softmax(-1)).sum()
    return Sum(loss, loss.new_tensor(float(len(logits))))
