"""Exact values and equilibria of GOPS by dynamic programming over matrix games.

A position is a pair of hands, the prizes left and the carried prizes. Its simultaneous bids are a
zero-sum matrix game whose entries are values of the following positions. `solve_games` solves many
matrix games at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import combinations

import numpy as np

Cards = tuple[int, ...]
Position = tuple[Cards, Cards, Cards, int, int]
"""My hand, the opponent's, the prizes left, the current and the carried prize: see
`GopsSolver.game`."""
Bidder = Callable[[Cards, int], np.ndarray]
"""Maps a player's hand (ascending) and the current prize to bid probabilities."""
Gains = Callable[[Cards, Cards, Cards, int, int], tuple[float, ...]]
"""Maps a position (the arguments of `GopsSolver.game`) to my expected gain by bid."""


def solve_games(payoffs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Solves zero-sum matrix games exactly.

    One of the optimal strategies solves a square subgame by equal payoffs (Shapley and Snow, Basic
    Solutions of Discrete Games, 1950). All subgames are enumerated, and the strategy with the
    best worst case is kept, so that a solution certifies itself: the guaranteed payoffs of both
    players are equal.

    Args:
        payoffs: float (games, m, m), the payoffs of the row player. m should be small: there are
            binomial(2m, m) - 1 subgames.

    Returns:
        The values (games,), computed from the strategies of the row player, and the optimal
        strategies of rows and columns, both (games, m).
    """
    positive = _positive(payoffs)
    values, rows = _secure(positive)
    _, columns = _secure(positive.max() + 1.0 - positive.transpose(0, 2, 1))
    return values + payoffs.min(axis=(1, 2)) - 1.0, rows, columns


def _positive(payoffs: np.ndarray) -> np.ndarray:
    """Returns the games with payoffs of at least 1, so that values are not 0."""
    return payoffs - payoffs.min(axis=(1, 2), keepdims=True) + 1.0


def _secure(payoffs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the best guaranteed payoffs and the row strategies that guarantee them."""
    games, m, _ = payoffs.shape
    best, strategies = np.full(games, -np.inf), np.zeros((games, m))
    for size in range(1, m + 1):
        some = np.array(list(combinations(range(m), size)))
        chosen, against = (a.reshape(-1, size) for a in _pairs(some))
        square = payoffs[:, chosen[:, :, None], against[:, None, :]].swapaxes(2, 3)
        singular = np.abs(np.linalg.det(square)) < 1e-9
        square = np.where(singular[..., None, None], np.eye(size), square)
        weights = np.linalg.solve(square, np.ones((*square.shape[:-1], 1)))[..., 0]
        wrong = singular | (weights < -1e-9).any(axis=-1)
        weights = np.where(wrong[..., None], 1.0, np.maximum(weights, 0.0))
        mixed = np.zeros((games, len(chosen), m))
        places = np.broadcast_to(chosen, weights.shape)
        np.put_along_axis(mixed, places, weights / weights.sum(axis=-1, keepdims=True), axis=2)
        secured = (mixed @ payoffs).min(axis=2).round(12)  # equal for every linear algebra
        top = secured.argmax(axis=1)
        found = np.take_along_axis(secured, top[:, None], axis=1)[:, 0]
        better = found > best  # prefers small supports
        best = np.where(better, found, best)
        kept = np.take_along_axis(mixed, top[:, None, None], axis=1)[:, 0]
        strategies = np.where(better[:, None], kept, strategies)
    return best, strategies


def _pairs(some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns all pairs of rows of an array, as two arrays."""
    first, second = np.meshgrid(range(len(some)), range(len(some)), indexing="ij")
    return some[first], some[second]


def _mask(cards: Cards) -> int:
    return sum(1 << (card - 1) for card in cards)


def next_prizes(left: Cards, order: str) -> Cards:
    """Returns the prizes that may be revealed next, all equally likely.

    Args:
        left: the prizes left, ascending.
        order: "random", "ascending" or "descending".
    """
    if order == "random":
        return left
    return left[-1:] if order == "descending" else left[:1]


class GopsSolver:
    """The solution of GOPS with cards and prizes 1 to n, for the difference of points.

    The game is symmetric: all values are those of the player called "me".

    Args:
        cards: number n of cards.
        order: "random", "ascending" or "descending": the order of the prizes.
        carry: whether a tied prize is added to the next one. Otherwise nobody gains from it.
    """

    def __init__(self, cards: int, order: str = "random", carry: bool = False):
        self.cards, self.order, self.carry = cards, order, carry
        self._bids: dict[Position, np.ndarray] = {}
        everything = tuple(range(1, cards + 1))
        stakes = sum(everything) + 1 if carry else 1
        self._values = np.zeros((1 << cards, 1 << cards, 1 << cards, stakes))
        for size in range(1, cards + 1):
            for left in combinations(everything, size):
                if order != "random" and left != self._rest(size):
                    continue
                pots = self._pots(tuple(sorted({*everything} - {*left})))
                for pot in pots:
                    self._fill(left, pot)

    def _rest(self, size: int) -> Cards:
        """Returns the last prizes of a deck in a fixed order."""
        first = 1 if self.order == "descending" else self.cards - size + 1
        return tuple(range(first, first + size))

    def _pots(self, gone: Cards) -> list[int]:
        """Returns the possible sums of carried prizes."""
        if not self.carry:
            return [0]
        subsets = (c for size in range(len(gone) + 1) for c in combinations(gone, size))
        return sorted({sum(subset) for subset in subsets})

    def _next(self, left: Cards) -> Cards:
        """Returns the prizes that may be revealed next."""
        return next_prizes(left, self.order)

    def _fill(self, left: Cards, pot: int) -> None:
        """Sets the values of all hands with the given prizes left."""
        hands = np.array(list(combinations(range(1, self.cards + 1), len(left))))
        mine, theirs = _pairs(hands)
        mine, theirs = mine.reshape(-1, len(left)), theirs.reshape(-1, len(left))
        masks = (1 << (hands - 1)).sum(axis=1)
        one, other = (a.ravel() for a in np.meshgrid(masks, masks, indexing="ij"))
        prizes = self._next(left)
        total = sum(
            solve_games(self._payoffs(mine, theirs, left, prize, pot))[0] for prize in prizes
        )
        self._values[one, other, _mask(left), pot] = total / len(prizes)

    def _payoffs(
        self, mine: np.ndarray, theirs: np.ndarray, left: Cards, prize: int, pot: int
    ) -> np.ndarray:
        """Returns the matrix games of pairs of hands, float (pairs, k, k).

        Args:
            mine: my hands, int (pairs, k).
            theirs: the opponent's hands, int (pairs, k).
            left: the prizes left, with the current one.
            prize: the current prize.
            pot: the sum of the carried prizes.
        """
        after = _mask(left) - _mask((prize,))
        bits = 1 << (mine - 1), 1 << (theirs - 1)
        one, other = (own.sum(axis=1, keepdims=True) - own for own in bits)
        beats = np.sign(mine[:, :, None] - theirs[:, None, :])
        pots = np.where(beats == 0, (pot + prize) * self.carry, 0)
        later = self._values[one[:, :, None], other[:, None, :], after, pots]
        return beats * (pot + prize) + later

    def game(self, mine: Cards, theirs: Cards, left: Cards, prize: int, pot: int = 0) -> np.ndarray:
        """Returns the matrix game of a position: my expected gain by my bid and theirs.

        Args:
            mine: my hand, ascending.
            theirs: the opponent's hand, ascending.
            left: the prizes left, with the current one, ascending.
            prize: the current prize.
            pot: the sum of the carried prizes.

        Returns:
            Expected points won minus points lost from here on, float (k, k).
        """
        return self._payoffs(np.array([mine]), np.array([theirs]), left, prize, pot)[0]

    def equilibrium(
        self, mine: Cards, theirs: Cards, left: Cards, prize: int, pot: int = 0
    ) -> np.ndarray:
        """Returns equilibrium bid probabilities for each card of my hand (see `game`).

        They are kept, so that a position is solved once.
        """
        position = mine, theirs, left, prize, pot
        if position not in self._bids:
            bids = _secure(_positive(self.game(*position)[None]))[1][0]
            bids.flags.writeable = False
            self._bids[position] = bids
        return self._bids[position]

    def responses(self, bidder: Bidder) -> Gains:
        """Returns my expected gains against a known policy if my later bids are best responses.

        Args:
            bidder: the opponent's policy.
        """

        @cache
        def gains(
            mine: Cards, theirs: Cards, left: Cards, prize: int, pot: int
        ) -> tuple[float, ...]:
            chances = bidder(theirs, prize)
            stake, rest = pot + prize, tuple(p for p in left if p != prize)
            found = []
            for card in mine:
                gain = 0.0
                kept = tuple(c for c in mine if c != card)
                for bid, chance in zip(theirs, chances, strict=True):
                    if chance == 0:
                        continue
                    sign = (card > bid) - (card < bid)
                    carried = 0 if sign else stake * self.carry
                    theirs_kept = tuple(c for c in theirs if c != bid)
                    later = [
                        max(gains(kept, theirs_kept, rest, p, carried))
                        for p in (self._next(rest) if rest else ())
                    ]
                    gain += chance * (sign * stake + sum(later) / max(1, len(later)))
                found.append(float(gain))
            return tuple(found)

        return gains
