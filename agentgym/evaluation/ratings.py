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

    P(i beats j) = s_i / (s_i + s_j). Fitted by the minorise-maximise iteration of Hunter, MM
    Algorithms for Generalized Bradley-Terry Models (Annals of Statistics 32, 2004).

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
    total = wins.sum(-1)
    strength = np.ones(total.shape)
    for _ in range(STEPS):
        before = strength
        shares = games / (strength[..., :, None] + strength[..., None, :])
        strength = np.where(total > 0, total / np.maximum(shares.sum(-1), 1e-300), 1.0)
        strength /= np.exp(np.log(strength).mean(-1, keepdims=True))
        if np.abs(np.log(strength / before)).max() < 1e-9:
            break
    return np.log(strength)


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
