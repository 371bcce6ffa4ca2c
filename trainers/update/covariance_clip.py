"""Clip-Cov: tokens that lower the entropy most are detached from the gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from agentgym.trainers.data.batch import Batch, Credit
from agentgym.trainers.update.losses import wide


def covariance_clip(
    logprobs: Tensor,
    advantages: Tensor,
    *,
    fraction: float = 0.02,
    low: float = 1.0,
    high: float = 5.0,
    generator: torch.Generator,
) -> Tensor:
    """Selects tokens to detach from the gradient against entropy collapse ("Clip-Cov").

    Tokens with a large covariance (log pi - mean)(A - mean) lower the entropy most. The selected
    tokens are sampled uniformly from those with a covariance in (low, high).

    Source: "The Entropy Mechanism of Reinforcement Learning for Reasoning Language Models", arXiv
    2505.22617 (fraction 2e-4). SPEAR, arXiv 2509.22601, uses 0.02.

    Args:
        logprobs: [k] log-probabilities under the policy.
        advantages: [k] advantages.
        fraction: upper bound of the share of detached tokens.
        low: lower bound of the covariance.
        high: upper bound of the covariance.
        generator: generator of the sample, on the CPU.

    Returns:
        [k] True for detached tokens.
    """
    x, y = wide(logprobs.detach()), wide(advantages.detach())
    detached = torch.zeros_like(x, dtype=torch.bool)
    if x.numel() == 0:
        return detached
    covariance = (x - x.mean()) * (y - y.mean())
    candidates = ((covariance > low) & (covariance < high)).nonzero().squeeze(-1)
    wanted = min(int(fraction * x.numel()), len(candidates))
    chosen = torch.randperm(len(candidates), generator=generator)[:wanted].to(x.device)
    detached[candidates[chosen]] = True
    return detached


def low_entropy_tokens(
    batch: Batch, credit: Credit, free: Tensor, fraction: float, seed: int
) -> Tensor:
    """Returns the mask of the tokens that lower the entropy most (Clip-Cov).

    They are selected from the whole batch, with the log-probs of the behaviour policy, so the
    selection does not depend on the split into minibatches.
    """
    detached = torch.zeros_like(free)
    detached[free] = covariance_clip(
        torch.as_tensor(batch.logprobs)[free],
        torch.as_tensor(credit.advantages)[free],
        fraction=fraction,
        generator=torch.Generator().manual_seed(seed % 2**63),
    )
    return detached
