"""Bias, noise and policy gradients of estimates of advantages, from their moments per bin."""

from __future__ import annotations

import numpy as np

from benchmarks.credit.token_world import Array, Ints


class Moments:
    """Count, mean and variance of numbers per bin."""

    def __init__(self, bins: int) -> None:
        self.count, self.sum, self.square = np.zeros((3, bins))

    def add(self, where: Ints, x: Array) -> None:
        """Adds the numbers x to the bins `where`, both [n]."""
        bins = len(self.count)
        self.count += np.bincount(where, minlength=bins)
        self.sum += np.bincount(where, x, bins)
        self.square += np.bincount(where, x * x, bins)

    def mean(self) -> Array:
        """Returns the mean of each bin."""
        return self.sum / np.maximum(self.count, 1)

    def variance(self) -> Array:
        """Returns the unbiased variance of each bin."""
        variance = self.square / np.maximum(self.count, 1) - self.mean() ** 2
        return np.maximum(variance, 0) * self.count / np.maximum(self.count - 1, 1)


def bias_of(moments: Moments, truth: Array, center: Array | None = None) -> tuple[float, float]:
    """Returns the root mean square bias after subtraction of the noise, and its ratio to the noise.

    Args:
        moments: moments of the estimate in each bin.
        truth: [bins] exact means.
        center: [bins / V, V] probabilities. If given, the mean of the bias over each V is removed.
    """
    seen = moments.count >= 30
    error = np.where(seen, moments.mean() - truth, 0.0)
    # 1e-12: estimates are rounded to float32 even if they are deterministic.
    noise = np.where(seen, moments.variance() / np.maximum(moments.count, 1) + 1e-12, 0.0)
    weight = np.where(seen, moments.count, 0.0)
    if center is not None:
        complete = np.all(seen.reshape(center.shape), axis=-1)
        p = center
        table, spread = error.reshape(p.shape), noise.reshape(p.shape)
        middle = (p * table).sum(-1, keepdims=True)
        # Var[e_w - sum_v p_v e_v] for independent bins
        spread = (1 - 2 * p) * spread + (p**2 * spread).sum(-1, keepdims=True)
        error = np.where(complete[:, None], table - middle, 0.0).reshape(-1)
        noise = np.where(complete[:, None], spread, 0.0).reshape(-1)
        weight = np.where(np.repeat(complete, p.shape[1]), weight, 0.0)
    weight /= weight.sum()
    square = float((weight * (error**2 - noise)).sum())
    ratio = float(np.sqrt((weight * error**2).sum() / (weight * noise).sum()))
    return max(square, 0.0) ** 0.5, ratio


def gradients_of(moments: Moments, truth: Array, policy: Array) -> tuple[float, float]:
    """Returns the cosine between mean and exact gradients, and the noise-to-signal ratio.

    The gradient of log pi(w) with respect to the logits of its place is e_w - pi.

    Args:
        moments: moments of the estimate in each bin (place, token).
        truth: [bins] A*.
        policy: [places, V] probabilities of tokens.
    """
    shape = policy.shape
    seen = np.all((moments.count >= 30).reshape(shape), axis=-1)
    visits = moments.count.reshape(shape).sum(-1, keepdims=True)[seen]
    pi = policy[seen]

    def gradient(advantage: Array) -> Array:
        table = advantage.reshape(shape)[seen]
        return pi * (table - (pi * table).sum(-1, keepdims=True))

    one, two = gradient(moments.mean()), gradient(truth)
    cosine = (visits**2 * one * two).sum()
    cosine /= np.sqrt((visits**2 * one**2).sum() * (visits**2 * two**2).sum())
    second = (moments.square / np.maximum(moments.count, 1)).reshape(shape)[seen]
    length = 1 - 2 * pi + (pi**2).sum(-1, keepdims=True)  # |e_w - pi|^2
    share = visits / visits.sum()
    signal = (share * one**2).sum()
    noise = (share * pi * second * length).sum() - signal
    return float(cosine), float(np.sqrt(noise / signal))
