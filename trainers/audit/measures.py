"""Measures of credit against exact advantages of turns. Pure functions of arrays.

Values are means of continuations, so that an exact advantage has a standard error. A turn whose
advantage is within two standard errors of 0 is "moot": it has not been shown to matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
CLEAR, DECISIVE = 2.0, 3.0
"""Standard errors beyond which an advantage is not 0, and beyond which a turn can be decisive."""
TINY = 1e-6


@dataclass(frozen=True)
class Exact:
    """Exact advantages of the turns of several episodes, one after the other.

    Attributes:
        advantages: [M] r + gamma V(next) - V, with V = 0 after the last turn.
        errors: [M] their standard errors.
        episodes: [M] number of the episode of each turn, ascending.
        success: [M] whether this episode succeeded.
    """

    advantages: Floats
    errors: Floats
    episodes: NDArray[np.int64]
    success: NDArray[np.bool_]

    @property
    def clear(self) -> NDArray[np.bool_]:
        """[M] whether the turn matters: the others are moot."""
        return np.abs(self.advantages) > np.maximum(CLEAR * self.errors, TINY)

    def spans(self) -> Iterator[slice]:
        """Yields the turns of each episode."""
        starts = np.flatnonzero(np.diff(self.episodes, prepend=-1))
        for start, stop in zip(starts, np.append(starts[1:], len(self.episodes)), strict=True):
            yield slice(int(start), int(stop))

    def decisive(self) -> Iterator[tuple[slice, int]]:
        """Yields the turns of an episode and its decisive one, for those that have one.

        It is the turn with the largest absolute advantage, if this exceeds three standard errors.
        """
        for span in self.spans():
            turn = span.start + int(np.abs(self.advantages[span]).argmax())
            bound = max(DECISIVE * self.errors[turn], TINY)
            if span.stop - span.start > 1 and abs(self.advantages[turn]) > bound:
                yield span, turn


@dataclass(frozen=True)
class Quality:
    """How well the credit of an estimator agrees with exact advantages.

    Attributes:
        sign_errors: share of the turns that matter whose credit has the other sign, or none.
        correlation: Pearson's correlation over all turns, nan for constant credit.
        ranks: Spearman's correlation.
        moot_credit: share of the absolute credit on turns that are not known to matter.
        place: mean place of the decisive turn in its episode, from 0 (first) to 1. Chance: 0.5.
        first: share of the episodes in which it comes first. Ties share the place.
    """

    sign_errors: float
    correlation: float
    ranks: float
    moot_credit: float
    place: float
    first: float


def quality(credit: Floats, exact: Exact) -> Quality:
    """Returns how well the credit of turns [M] agrees with their exact advantages."""
    clear, advantages = exact.clear, exact.advantages
    total = float(np.abs(credit).sum())
    places = [
        place(np.sign(advantages[turn]) * credit[span], turn - span.start)
        for span, turn in exact.decisive()
    ]
    mean_place, first = np.mean(places, axis=0) if places else (np.nan, np.nan)
    return Quality(
        sign_errors=_mean(np.sign(credit[clear]) != np.sign(advantages[clear])),
        correlation=correlation(credit, advantages),
        ranks=correlation(ranks(credit), ranks(advantages)),
        moot_credit=float(np.abs(credit[~clear]).sum()) / total if total else np.nan,
        place=float(mean_place),
        first=float(first),
    )


def place(scores: Floats, turn: int) -> tuple[float, float]:
    """Returns the place of a turn from 0 to 1 and its share of the first place.

    Args:
        scores: [T] scores of the turns of an episode, T > 1. The highest comes first.
        turn: the index of the turn.
    """
    ahead = float((scores > scores[turn] + TINY).sum())
    ties = float((np.abs(scores - scores[turn]) <= TINY).sum())
    return (ahead + (ties - 1) / 2) / (len(scores) - 1), 0.0 if ahead else 1 / ties


def correlation(one: Floats, other: Floats) -> float:
    """Returns Pearson's correlation, nan if one of them is constant."""
    if len(one) < 2 or np.ptp(one) < TINY or np.ptp(other) < TINY:
        return float("nan")
    return float(np.corrcoef(one, other)[0, 1])


def ranks(values: Floats) -> Floats:
    """Returns the rank of each value. Equal values share their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[inverse].astype(np.float64)


@dataclass(frozen=True)
class Steps:
    """How much the turns of failures and successes contribute.

    Attributes:
        useful_in_failures: share of the turns of failed episodes that raise the expected return.
        useless_in_successes: share of the turns of successful ones that do not.
        moot: share of all turns that are not known to matter.
        decided: episodes with a decisive turn.
        chance: share of them in which a random order would put it first.
    """

    useful_in_failures: float
    useless_in_successes: float
    moot: float
    decided: int
    chance: float


def steps(exact: Exact) -> Steps:
    """Returns how much the turns contribute."""
    useful = exact.clear & (exact.advantages > 0)
    lengths = [span.stop - span.start for span, _ in exact.decisive()]
    return Steps(
        useful_in_failures=_mean(useful[~exact.success]),
        useless_in_successes=_mean(~useful[exact.success]),
        moot=_mean(~exact.clear),
        decided=len(lengths),
        chance=_mean(np.array([1 / length for length in lengths])),
    )


@dataclass(frozen=True)
class CriticError:
    """The error of a critic: mean absolute error, and share of the values' variance it explains."""

    absolute: float
    explained: float


def critic_error(predicted: Floats, values: Floats) -> CriticError:
    """Returns the error of a critic's values of states against exact ones."""
    variance = float(values.var())
    explained = 1 - float((values - predicted).var()) / variance if variance else float("nan")
    return CriticError(float(np.abs(predicted - values).mean()), explained)


def advantages(
    rewards: Floats, returns: Floats, episodes: NDArray[np.int64], gamma: float
) -> tuple[Floats, Floats]:
    """Returns advantages and standard errors of turns from the returns of continuations.

    Args:
        rewards: [M] reward of each turn.
        returns: [M, K] returns of continuations from the state before each turn, K > 1.
        episodes: [M] number of the episode of each turn, ascending.
        gamma: discount per turn.
    """
    values = returns.mean(axis=1)
    noise = returns.var(axis=1, ddof=1) / returns.shape[1]
    last = np.append(np.diff(episodes) != 0, True)
    following = np.where(last, 0.0, np.append(values[1:], 0.0))
    further = np.where(last, 0.0, np.append(noise[1:], 0.0))
    return rewards + gamma * following - values, np.sqrt(noise + gamma**2 * further)


def _mean(values: NDArray[np.bool_] | Floats) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
