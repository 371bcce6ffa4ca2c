"""The KL to the reference policy, as a penalty of the loss."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from agentgym.trainers.update.losses import MAX_LOG_RATIO, wide


def kl_penalty(
    logprobs: Tensor, reference: Tensor, kind: Literal["k1", "k2", "k3"] = "k3"
) -> Tensor:
    """Estimates KL(policy || reference) at every token that the policy sampled.

    With x = log reference - log policy:

    - k1 = -x: unbiased, may be negative. Its gradient in a loss has mean 0.
    - k2 = x^2 / 2: biased. Its gradient in a loss is an unbiased estimate of that of
      KL(policy || reference).
    - k3 = exp(x) - 1 - x: unbiased, never negative. Its gradient in a loss is an unbiased estimate
      of that of KL(reference || policy).

    The gradients are those at tokens that the policy has just sampled, which are constants.

    Source: John Schulman, "Approximating KL Divergence", 2020. GRPO, arXiv 2402.03300, eq. 4, has
    k3 in its loss.

    Args:
        logprobs: [k] log-probabilities under the policy, with gradient.
        reference: [k] log-probabilities under the reference policy.
        kind: the estimator.

    Returns:
        [k] estimates.

    Raises:
        ValueError: for an unknown estimator.
    """
    x = (wide(reference).detach() - wide(logprobs)).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    if kind == "k1":
        return -x
    if kind == "k2":
        return 0.5 * x.square()
    if kind == "k3":
        return torch.expm1(x) - x
    raise ValueError(f"kind must be 'k1', 'k2' or 'k3', got {kind!r}.")
