"""Differences between the log-probabilities of generation and of training."""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import FloatArray


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


def importance_weights(training: Tensor, generation: Tensor, cap: float) -> Tensor:
    """Returns the truncated importance weights of tokens [k].

        w_k = min(exp(log pi_training(k) - log pi_generation(k)), cap)

    Both are log-probabilities of the behaviour policy, as computed by training and by generation.
    The weights correct the expectation over sampled tokens, in addition to the ratio of PPO.

    Source: "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training" (Yao et al.,
    2025), truncated importance sampling.

    Args:
        training: [k] log-probabilities as computed by training.
        generation: [k] log-probabilities as recorded in the rollout.
        cap: the largest weight.
    """
    return (training - generation).clamp(max=math.log(cap)).exp()
