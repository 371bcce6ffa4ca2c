"""Meta-strategies: distributions over the agents of a population, from the payoffs between them.

A population is a symmetric game: payoffs[i, j] is the mean return of agent i against agent j, over
all seats. Its meta-strategies choose the opponents of the next best response in PSRO (Lanctot et
al., arXiv 1711.00832).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TIE = 1e-9
"""Payoffs that differ by less are equal."""


def uniform(payoffs: Floats) -> Floats:
    """Returns the uniform distribution over n agents, as in fictitious play.

    Args:
        payoffs: [n, n].
    """
    return np.full(len(payoffs), 1 / len(payoffs))


def nash(payoffs: Floats) -> Floats:
    """Returns a symmetric Nash equilibrium of a zero-sum population, by linear programming.

    The strategy x maximises its smallest payoff. With all payoffs shifted above 0, y = x / value is
    the solution of: maximise sum(y) subject to B y <= 1, y >= 0, where B holds the payoffs of the
    opponent. The simplex method with Bland's rule starts at y = 0 and always ends.

    Args:
        payoffs: [n, n], antisymmetric up to sampling noise: the antisymmetric part is used.

    Returns:
        [n] probabilities. Of several equilibria, one with few agents.
    """
    n = len(payoffs)
    against = (payoffs - payoffs.T) / 2
    table = np.hstack([against - against.min() + 1, np.eye(n), np.ones((n, 1))])
    goal = np.concatenate([-np.ones(n), np.zeros(n + 1)])
    basis = np.arange(n, 2 * n)
    while (entering := np.flatnonzero(goal[:-1] < -TIE)).size:
        column = int(entering[0])
        usable = np.flatnonzero(table[:, column] > TIE)
        ratios = table[usable, -1] / table[usable, column]
        tied = usable[ratios <= ratios.min() + TIE]
        row = int(tied[basis[tied].argmin()])
        table[row] /= table[row, column]
        for other in range(n):
            if other != row:
                table[other] -= table[other, column] * table[row]
        goal -= goal[column] * table[row]
        basis[row] = column
    solution = np.zeros(2 * n)
    solution[basis] = table[:, -1]
    found = np.maximum(solution[:n], 0.0)
    return found / found.sum()


def alpharank(
    payoffs: Floats, *, alpha: float | None = None, population: int = 50, noise: float = 0.01
) -> Floats:
    """Returns the stationary distribution of alpha-rank over n agents.

    Omidshafiei et al., alpha-Rank: Multi-Agent Evaluation by Evolution (arXiv 1903.01373), for one
    population: a mutant agent r takes over a population of agent s with its fixation probability,
    and the ranking is the share of time that this Markov chain spends at each agent. It is defined
    for general-sum games too.

    Args:
        payoffs: [n, n].
        alpha: ranking intensity. None: infinite, where a mutant takes over if its payoff against
            the population exceeds that of the population against the mutant.
        population: number of individuals, for a finite `alpha`.
        noise: with an infinite `alpha`, the probability that a mutant with a lower payoff takes
            over, which keeps the chain irreducible.

    Raises:
        ValueError: if `noise` is not above 0 and below 1.
    """
    if not 0 < noise < 1:
        raise ValueError(f"noise must be above 0 and below 1, got {noise}.")
    n = len(payoffs)
    if n == 1:
        return np.ones(1)
    gain = payoffs.T - payoffs  # [s, r]: of the mutant r against s, minus that of s against r
    if alpha is None:
        taken = np.log(np.where(gain > 0, 1 - noise, noise))
        taken[np.abs(gain) < TIE] = np.log(0.5)
    else:
        own, size = np.diag(payoffs), population
        mutants = np.arange(1, size)
        # Fitness of a mutant minus that of the others, when there are so many mutants.
        ahead = [
            (k - 1) * own[None, :] + (size - k) * payoffs.T
            - (size - k - 1) * own[:, None] - k * payoffs
            for k in mutants
        ]  # fmt: skip
        terms = np.cumsum(-alpha / (size - 1) * np.array(ahead), axis=0)
        taken = -np.logaddexp.reduce(np.vstack([np.zeros((1, n, n)), terms]), axis=0)
    return _stationary(taken)


def _stationary(rates: Floats) -> Floats:
    """Returns the stationary distribution of a Markov chain, exact for any sizes of its rates.

    It leaves out one state after the other (Grassmann, Taksar & Heyman, Operations Research 33,
    1985), in logarithms.

    Args:
        rates: [n, n] logarithms of the rates from row to column. The diagonal is not read.
    """
    rates, n = rates.copy(), len(rates)
    for k in range(n - 1, 0, -1):
        rates[:k, k] -= np.logaddexp.reduce(rates[k, :k])
        rates[:k, :k] = np.logaddexp(rates[:k, :k], rates[:k, k, None] + rates[k, None, :k])
    found = np.zeros(n)
    for k in range(1, n):
        found[k] = np.logaddexp.reduce(found[:k] + rates[:k, k])
    found = np.exp(found - found.max())
    return found / found.sum()


META_STRATEGIES: dict[str, Callable[[Floats], Floats]] = {
    "uniform": uniform,
    "nash": nash,
    "alpharank": alpharank,
}
