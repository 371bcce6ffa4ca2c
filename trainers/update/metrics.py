"""Scalars of an update, and scores of a critic."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agentgym.trainers.data.trajectory import FloatArray, IntArray

SUMS = (
    *("policy", "entropy", "reference_kl", "kl", "clipped", "free", "value", "values"),
    *("importance", "truncated"),
)
"""Sums over the tokens of a microbatch."""
KL, FREE = SUMS.index("kl"), SUMS.index("free")


def metrics_of(
    totals: NDArray[np.float64],
    norms: NDArray[np.float64],
    steps: int,
    stopped: bool,
    weight: float,
    importance: bool = False,
) -> dict[str, float]:
    """Returns the scalars of an update.

    Args:
        totals: sums over all minibatches, in the order of `SUMS`.
        norms: mean gradient norms of policy and critic.
        steps: optimiser steps.
        stopped: whether `target_kl` ended the update.
        weight: sum of the weights of all tokens.
        importance: whether the loss had importance weights.
    """
    sums = dict(zip(SUMS, totals.tolist(), strict=True))
    free, values = max(sums["free"], 1.0), max(sums["values"], 1.0)
    weights = {
        "importance_weight": sums["importance"] / free,
        "importance_clipped": sums["truncated"] / free,
    }
    return (weights if importance else {}) | {
        "policy_loss": sums["policy"] / max(weight, 1e-8),
        "value_loss": sums["value"] / values,
        "entropy": sums["entropy"] / free,
        "reference_kl": sums["reference_kl"] / free,
        "kl": sums["kl"] / free,
        "clip_fraction": sums["clipped"] / free,
        "policy_grad_norm": float(norms[0]),
        "value_grad_norm": float(norms[1]),
        "steps": float(steps),
        "kl_stopped": float(stopped),
    }


def explained_variance(values: FloatArray, targets: FloatArray) -> float:
    """Returns the explained variance 1 - Var[target - value] / Var[target].

    It is 1 for perfect values, at most 0 for values that are no better than a constant, and 0 if
    the targets are constant.

    Args:
        values: values of tokens or turns.
        targets: their targets.
    """
    variance = float(np.var(targets))
    return 0.0 if variance < 1e-12 else 1.0 - float(np.var(targets - values)) / variance


def correlation(values: FloatArray, returns: FloatArray) -> float:
    """Returns the correlation of values and returns in [-1, 1], or 0 if either is constant."""
    spread = float(np.std(values)) * float(np.std(returns))
    if spread < 1e-12:
        return 0.0
    centred = (values - values.mean()) * (returns - returns.mean())
    return float(centred.mean()) / spread


def value_error(values: FloatArray, returns: NDArray[np.float64], states: IntArray) -> float | None:
    """Returns the root mean square error of the values of states that several episodes visit.

    The mean return of the visits to a state estimates its value. The variance of that mean is
    subtracted, so the result is that of the critic alone, on average. A critic with an error above
    a tenth of the reward of a success needs a lambda near 1.

    Args:
        values: [M] values of the observations before each turn.
        returns: [M] discounted return from each turn on.
        states: [M] equal integers for turns of one group in the same state.

    Returns:
        The error, or None if every state is visited once.
    """
    _, state, count = np.unique(states, return_inverse=True, return_counts=True)
    if len(count) == len(states):
        return None
    mean = np.bincount(state, returns) / count
    squares = np.bincount(state, (returns - mean[state]) ** 2)
    noise = squares / np.maximum(count - 1, 1) / count  # of the mean
    several = (count > 1)[state]
    error = (values - mean[state])[several] ** 2 - noise[state][several]
    return float(max(error.mean(), 0.0) ** 0.5)
