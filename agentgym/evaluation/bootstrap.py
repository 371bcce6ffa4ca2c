"""Statistics of several runs: interquartile means, probability of improvement, best of n settings.

The first two are those of "Deep Reinforcement Learning at the Edge of the Statistical Precipice"
(Agarwal et al., arXiv 2108.13264), the last one follows "How to Train Your LLM Web Agent: A
Statistical Diagnosis" (arXiv 2507.04103). Intervals are 95 % percentile intervals of bootstrap
samples, which are too narrow with fewer than about five runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentgym.evaluation.report import Estimate

Scores = Sequence[ArrayLike]
"""Scores of the runs of each environment, normalised so that environments can be averaged."""
SAMPLES = 2000


def interquartile_mean(scores: Scores) -> float:
    """Returns the mean of the middle half of all scores, the mean without both outer quarters.

    A score at the border of the middle half counts with the part of it that is inside.

    Args:
        scores: scores of the runs, by environment.
    """
    ordered = np.sort(np.concatenate([np.asarray(each, np.float64) for each in scores]))
    mean = interquartile_weights(len(ordered)) @ ordered
    return float(max(min(mean, ordered[-1]), ordered[0]))  # rounding may leave the range


@lru_cache(maxsize=16)
def interquartile_weights(n: int) -> NDArray[np.float64]:
    """Returns the weights of n scores, the lowest first, in their interquartile mean."""
    edges = np.arange(n + 1) / n
    inside = np.clip(edges[1:], 0.25, 0.75) - np.clip(edges[:-1], 0.25, 0.75)
    weights = inside / inside.sum()
    weights.flags.writeable = False
    return weights


def probability_of_improvement(one: Scores, other: Scores) -> float:
    """Returns the mean over environments of P(X > Y) + P(X = Y) / 2, for a run X and a run Y.

    Args:
        one: scores of the runs of one method, by environment.
        other: scores of the other method in the same environments.
    """
    shares = []
    for x, y in zip(one, other, strict=True):
        difference = np.subtract.outer(np.asarray(x), np.asarray(y))
        shares.append((np.sign(difference) + 1).sum() / difference.size / 2)
    return float(np.mean(shares))


def interval(
    statistic: Callable[..., float], *scores: Scores, samples: int = SAMPLES, seed: int = 0
) -> Estimate:
    """Returns a statistic with its interval from a bootstrap that is stratified by environment.

    Args:
        statistic: a function of scores, such as `interquartile_mean`.
        *scores: its arguments. The runs of each environment are resampled.
        samples: number of bootstrap samples.
        seed: seed of the samples.
    """
    rng = np.random.default_rng(seed)
    given = [[np.asarray(runs, np.float64) for runs in each] for each in scores]
    counts = [len(runs) for each in given for runs in each]
    if len({*counts}) == 1:  # the same numbers as one at a time
        draws = rng.integers(counts[0], size=(samples, len(counts), counts[0]))
    else:
        draws = [[rng.integers(count, size=count) for count in counts] for _ in range(samples)]
    found = []
    for draw in draws:
        rows = iter(draw)
        found.append(statistic(*([runs[next(rows)] for runs in each] for each in given)))
    low, high = np.percentile(found, [2.5, 97.5])
    return Estimate(statistic(*scores), float(low), float(high))


def best_of(
    n: int,
    selection: Scores,
    scores: Scores,
    *,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Estimate:
    """Returns the expected score of the best of n settings, for a budget of n trials.

    Each sample draws n settings with replacement and resamples the runs of each. The setting with
    the highest mean of `selection` is chosen, and the mean of its `scores` counts. The interval
    covers both the draw of the settings and that of the seeds.

    Args:
        n: number of settings that are tried.
        selection: by setting, the number of each run by which settings are compared.
        scores: by setting, the number of each run that is reported.
        samples: number of bootstrap samples.
        seed: seed of the samples.
    """
    rng = np.random.default_rng(seed)
    pairs = [
        np.stack([np.asarray(a), np.asarray(b)]) for a, b in zip(selection, scores, strict=True)
    ]
    found = np.empty(samples)
    for i in range(samples):
        means = []
        for setting in rng.integers(len(pairs), size=n):
            runs = pairs[setting]
            means.append(runs[:, rng.integers(runs.shape[1], size=runs.shape[1])].mean(1))
        found[i] = max(means, key=lambda each: each[0])[1]
    low, high = np.percentile(found, [2.5, 97.5])
    return Estimate(float(found.mean()), float(low), float(high))
