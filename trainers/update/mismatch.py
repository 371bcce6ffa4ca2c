"""Differences between the log-probabilities of generation and of training."""

from __future__ import annotations

import numpy as np

from agentgym.trainers.trajectory import Batch, FloatArray


def logprob_gap(batch: Batch, logprobs: FloatArray, version: int) -> float:
    """Returns the largest difference from the log-probabilities recorded in the rollout, in nats.

    Replayed trajectories and turns of older weights do not count: they were sampled from another
    policy.

    Args:
        batch: the trajectories.
        logprobs: [K] log-probabilities of the forward pass of training.
        version: version of the weights in the forward pass.
    """
    recorded = batch.logprobs if batch.sampler_logprobs is None else batch.sampler_logprobs
    same = batch.fresh & (batch.staleness(version) <= 0)
    return float(np.abs(logprobs - recorded)[same].max(initial=0.0))


def staleness_metrics(batch: Batch, version: int) -> dict[str, float]:
    """Returns mean and maximum of the staleness of fresh tokens, and the share of stale tokens.

    Args:
        batch: the trajectories.
        version: version of the weights that learn from them.
    """
    ages = batch.staleness(version)[batch.fresh]
    if not len(ages):
        return {}
    return {
        "staleness_mean": float(ages.mean()),
        "staleness_max": float(ages.max()),
        "stale_tokens": float((ages > 0).mean()),
    }


def importance_weights(batch: Batch, cap: float) -> tuple[FloatArray, dict[str, float]]:
    """Returns the truncated importance weights of tokens [K], and metrics of them.

        w_k = min(exp(log pi_training(k) - log pi_generation(k)), cap)

    Both are log-probabilities of the behaviour policy, as computed by training and by generation.
    The weights correct the expectation over sampled tokens, in addition to the ratio of PPO.

    Source: "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training" (Yao et al.,
    2025), truncated importance sampling.

    Args:
        batch: the trajectories, from `Batch.with_recomputed`.
        cap: the largest weight.

    Raises:
        ValueError: if the log-probabilities of the batch were not recomputed.
    """
    if batch.sampler_logprobs is None:
        raise ValueError("Importance weights need recomputed log-probabilities.")
    difference = batch.logprobs.astype(np.float64) - batch.sampler_logprobs
    clipped = difference > np.log(cap)
    weights = np.exp(np.minimum(difference, np.log(cap)))
    free = batch.free
    metrics = {
        "importance_weight": float(weights[free].mean()) if free.any() else 1.0,
        "importance_clipped": float(clipped[free].mean()) if free.any() else 0.0,
    }
    return weights.astype(np.float32), metrics
