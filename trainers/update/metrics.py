"""Scalars of an update, and scores of a critic."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agentgym.trainers.data.trajectory import FloatArray

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
