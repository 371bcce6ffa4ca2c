"""Differences between the log-probabilities of generation and of training."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from torch import Tensor

from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import FloatArray, IntArray


def logprob_gap(batch: Batch, logprobs: FloatArray, version: int) -> float:
    """Returns the largest difference from the log-probabilities recorded in the rollout, in nats.

    Replayed trajectories and turns of older weights do not count: they were sampled from another
    policy.

    Args:
        batch: the trajectories.
        logprobs: [K] log-probabilities of the forward pass of training.
        version: version of the weights in the forward pass.
    """
    same = batch.fresh & (staleness(batch, version) <= 0)
    return float(np.abs(logprobs - batch.recorded_logprobs)[same].max(initial=0.0))


def with_recomputed(batch: Batch, logprobs: FloatArray) -> Batch:
    """Returns a batch whose `logprobs` come from the forward pass of training.

    Fresh trajectories get the given ones, and their turns keep them. Replayed trajectories get
    those of the iteration in which they were played, so their ratio still compares the policy
    with the one that played them. If there are none, theirs stay as recorded.

    Args:
        batch: the trajectories.
        logprobs: [K] log-probabilities under the current policy.
    """
    found = np.where(batch.fresh, logprobs, batch.logprobs)
    replayed = np.array([t.replayed for t in batch.trajectories])[batch.turn_trajectory]
    for turn, old, start, stop in zip(
        batch.turns, replayed, batch.token_offsets, batch.token_offsets[1:], strict=False
    ):
        if not old:
            turn.recomputed = found[start:stop].copy()
        elif turn.recomputed is not None:
            found[start:stop] = turn.recomputed
    return replace(batch, logprobs=found, sampler_logprobs=batch.logprobs)


def staleness(batch: Batch, version: int) -> IntArray:
    """Returns how many versions older than `version` the weights were that sampled a token [K].

    It is 0 where the version was not recorded.

    Args:
        batch: the trajectories.
        version: version of the weights that are compared.
    """
    turns = [0 if turn.version is None else version - turn.version for turn in batch.turns]
    ages = np.array(turns, np.int64)[batch.token_turn]
    for m, turn in enumerate(batch.turns):
        if turn.token_versions is not None:
            ages[slice(*batch.token_offsets[m : m + 2])] = version - turn.token_versions
    return ages


def staleness_metrics(batch: Batch, version: int) -> dict[str, float]:
    """Returns mean and maximum of the staleness of fresh tokens, and the share of stale tokens.

    Args:
        batch: the trajectories.
        version: version of the weights that learn from them.
    """
    ages = staleness(batch, version)[batch.fresh]
    if not len(ages):
        return {}
    return {
        "staleness_mean": float(ages.mean()),
        "staleness_max": float(ages.max()),
        "stale_tokens": float((ages > 0).mean()),
    }


def importance_weights(log_weights: Tensor, cap: float) -> Tensor:
    """Returns the truncated importance weights of tokens [k].

        w_k = min(exp(log pi_training(k) - log pi_generation(k)), cap)

    Both are log-probabilities of the behaviour policy, as computed by training and by generation.
    The weights correct the expectation over sampled tokens, in addition to the ratio of PPO.

    Source: "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training" (Yao et al.,
    2025), truncated importance sampling.

    Args:
        log_weights: [k] the difference of the log-probabilities, or its sum over a turn or
            trajectory.
        cap: the largest weight.
    """
    return log_weights.clamp(max=math.log(cap)).exp()
