"""Exact solution of liar's dice between two players with one die each.

A bid is a number from 0 to 11: one 1, ..., one 6, two 1s, ..., two 6s. The bids before the last bid
`b` are a set of lower bids, encoded as a bit mask below 2^b. All situations with last bid `b` form
one array, and their continuations by a bid `c` are one slice of the array of `c`.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from agentgym.envs.cards.solver import normalised

FACES = 6
BIDS = 2 * FACES
ITERATIONS = 500

Table = list[np.ndarray]
"""One array per last bid (the first: no bid yet) of choice probabilities, with shape [sets of
earlier bids, own face, choices]. The choices are calling the bid a lie (not at the start), then
each higher bid."""


@cache
def lie_pays() -> np.ndarray:
    """Returns the payoff of calling a bid a lie, 1 or -1: [bid, own face, opponent's face]."""
    quantity, face = np.divmod(np.arange(BIDS), FACES)
    own = np.arange(FACES)
    hits = (own == face[:, None]).astype(int)
    count = hits[:, :, None] + hits[:, None, :]
    return np.where(count > quantity[:, None, None], -1.0, 1.0)


@cache
def second_acts() -> tuple[np.ndarray, ...]:
    """Returns whether the second player is to act, per last bid and set of earlier bids."""
    odd = [np.array([bits.bit_count() % 2 == 0 for bits in range(2**bid)]) for bid in range(BIDS)]
    return (np.array([False]), *odd)


def uniform() -> Table:
    """Returns the uniformly random strategy."""
    shapes = [(1, FACES, BIDS), *((2**bid, FACES, BIDS - bid) for bid in range(BIDS))]
    return [np.full(shape, 1 / shape[-1]) for shape in shapes]


def _rows(last: int) -> slice:
    """Returns rows of a higher bid's array that continue a last bid (0: none, else bid + 1)."""
    return slice(0, 1) if last == 0 else slice(2 ** (last - 1), 2**last)


def _raises(last: int) -> list[tuple[int, int]]:
    """Returns the choices that are bids, each with the index of its array."""
    return [(after - last - (last == 0), after) for after in range(last + 1, BIDS + 1)]


def reaches(table: Table) -> tuple[Table, Table]:
    """Returns the reach probabilities of the player to act and of the opponent, by own face."""
    mine: Table = [np.ones((len(chances), FACES)) for chances in table]
    theirs: Table = [np.ones((len(chances), FACES)) for chances in table]
    for last, chances in enumerate(table):
        rows = _rows(last)
        for choice, after in _raises(last):
            mine[after][rows] = theirs[last]
            theirs[after][rows] = mine[last] * chances[:, :, choice]
    return mine, theirs


def worth(table: Table, responding: int | None = None) -> tuple[Table, float, Table]:
    """Returns the counterfactual value of each choice for the player to act.

    Args:
        table: strategy of both players.
        responding: player (0: the first bidder) who plays a best response instead, or None.

    Returns:
        The counterfactual values, the value of the game for the first bidder, and the table that
        includes the best response.
    """
    mine, theirs = reaches(table)
    worths: Table = [np.empty_like(chances) for chances in table]
    played = list(table)
    acting: Table = [np.empty(0)] * len(table)
    waiting: Table = [np.empty(0)] * len(table)
    for last in reversed(range(len(table))):
        rows = _rows(last)
        for choice, after in _raises(last):
            worths[last][:, :, choice] = waiting[after][rows]
        if last:
            worths[last][:, :, 0] = theirs[last] @ lie_pays()[last - 1] / FACES**2
        if responding is not None:
            best = np.eye(table[last].shape[-1])[worths[last].argmax(axis=-1)]
            answers = second_acts()[last] == bool(responding)
            played[last] = np.where(answers[:, None, None], best, table[last])
        chances = played[last]
        acting[last] = (chances * worths[last]).sum(axis=-1)
        waiting[last] = np.zeros_like(acting[last])
        for _, after in _raises(last):
            waiting[last] += acting[after][rows]
        if last:
            called = mine[last] * chances[:, :, 0]
            waiting[last] -= called @ lie_pays()[last - 1] / FACES**2
    # If the second player responds, only its own values are valid.
    value = -waiting[0].sum() if responding == 1 else acting[0].sum()
    return worths, float(value), played


@cache
def equilibrium(iterations: int = ITERATIONS) -> Table:
    """Returns an approximate equilibrium, by CFR+ (Tammelin, arXiv:1407.5042)."""
    current = uniform()
    regrets: Table = [np.zeros_like(chances) for chances in current]
    average: Table = [np.zeros_like(chances) for chances in current]
    for weight in range(1, iterations + 1):
        worths, _, _ = worth(current)
        mine, _ = reaches(current)
        turn = bool(weight % 2)
        for last, chances in enumerate(current):
            now = second_acts()[last] == turn
            w = worths[last][now]
            value = (chances[now] * w).sum(axis=-1, keepdims=True)
            regrets[last][now] = np.maximum(regrets[last][now] + w - value, 0)
            average[last][now] += weight * mine[last][now, :, None] * chances[now]
            current[last][now] = normalised(regrets[last][now])
    return [normalised(total) for total in average]
