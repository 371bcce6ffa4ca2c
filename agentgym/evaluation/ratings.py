"""Ratings of agents from the results of games between them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ELO = 400 / math.log(10)
"""Elo points per unit of log-strength: 400 points are odds of 10 to 1."""
PRIOR = 0.5
"""Wins added in both directions to each pair that has played (Jeffreys prior)."""
STEPS = 1000


def bradley_terry(wins: Floats, prior: float | Floats = PRIOR) -> Floats:
    """Returns the maximum-likelihood log-strengths of the Bradley-Terry model, with mean 0.

    P(i beats j) = s_i / (s_i + s_j). Fitted by Newton steps. A step whose largest difference is d
    is taken by ln(1 + d) / d, with which it never goes too far (Sun & Tran-Dinh, Generalized
    Self-Concordant Functions, arXiv 1703.04599).

    Args:
        wins: [..., n, n] number of wins of row against column. A draw is half a win for both.
        prior: wins added in both directions to each pair that has played, so that an agent that
            wins every game has a finite strength.

    Returns:
        [..., n] log-strengths.
    """
    n = wins.shape[-1]
    games = wins + np.swapaxes(wins, -1, -2)
    wins = (wins + prior * (games > 0)) * (1 - np.eye(n))
    games = wins + np.swapaxes(wins, -1, -2)
    strength = np.zeros(wins.shape[:-1])
    for _ in range(STEPS):
        ahead = strength[..., :, None] - strength[..., None, :]
        expected = np.exp(-np.logaddexp(0, -ahead))
        curvature = games * expected * np.swapaxes(expected, -1, -2)
        hessian = curvature.sum(-1)[..., None] * np.eye(n) - curvature
        slope = (wins - games * expected).sum(-1)[..., None]
        step = (np.linalg.pinv(hessian, hermitian=True) @ slope)[..., 0]
        size = np.ptp(step, axis=-1, keepdims=True)
        strength = strength + step * np.log1p(size) / np.maximum(size, 1e-300)
        if size.max() < 1e-9:
            break
    return strength


def elo(wins: Floats, *, seed: int = 0, resamples: int = 500) -> tuple[Floats, Floats, Floats]:
    """Returns the Elo ratings of agents, with mean 0, and the ends of their 95 % intervals.

    Args:
        wins: [d, n, n] wins of row against column in the games of each deal. A draw is half a win.
            Deals are weighted at random, since games of one deal are dependent (the Bayesian
            bootstrap of Rubin, The Annals of Statistics 9, 1981). The added wins are too, else the
            interval of an agent that wins every game would be a point.
        seed: seed of the bootstrap.
        resamples: number of resamples.

    Returns:
        Three arrays [n]: ratings, lower and upper ends.
    """
    deals, n, _ = wins.shape
    rng = np.random.default_rng(seed)
    weights = rng.standard_exponential((resamples, deals))
    prior = rng.standard_gamma(PRIOR, (resamples, n, n))
    found = ELO * bradley_terry(np.einsum("rd,dij->rij", weights, wins), prior)
    low, high = np.percentile(found, [2.5, 97.5], axis=0)
    return ELO * bradley_terry(wins.sum(0)), low, high
