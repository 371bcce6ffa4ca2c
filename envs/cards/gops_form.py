"""`GopsForm`: the positions of GOPS, for exact evaluation of its scripted players."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np

from agentgym.agents.basic.view import View
from agentgym.envs.cards.gops_rules import State, after, position
from agentgym.envs.cards.gops_solver import Position, next_prizes
from agentgym.errors import ConfigError
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.seats import seat_view


class GopsForm:
    """The positions of GOPS: both hands, the prizes left, the current and the carried prizes.

    Both players see the position, and the bids of a scripted player depend on nothing else. A best
    response to it therefore depends on the position alone, so that all earlier bids and prizes that
    lead to the same position count once. This is not valid for agents that use them.

    Args:
        game: the game.
        cards: number of cards.
        order: "random", "ascending" or "descending": the order of the prizes.
        carry: whether a tied prize is added to the next one.
        limit: maximum number of information sets.

    Attributes:
        views: view of each information set, as its player sees it: the two players of the first
            position, then those of the second, and so on. Positions come after those that follow.
        seats: player of each information set.

    Raises:
        ConfigError: if there are more information sets than `limit`.
    """

    def __init__(self, game: TextGame, cards: int, order: str, carry: bool, limit: int):
        self.views: list[View] = []
        self.seats: list[int] = []
        self._game, self._cards, self._limit = game, cards, limit
        self._order, self._carry = order, carry
        self._rng = np.random.default_rng(0)
        self._numbers: dict[Position, int] = {}
        # Per position: the points that the first player wins and the positions that may follow,
        # by the bids of both players, int (k, k) and (k, k, options).
        self._stakes: list[np.ndarray] = []
        self._later: list[np.ndarray] = []
        self._first = self._revealed(State(list(range(1, cards + 1))))

    def _revealed(self, state: State) -> list[int]:
        """Returns the positions of all prizes that may be revealed next."""
        played, left = state.prizes[: len(state.bids)], state.prizes[len(state.bids) :]
        found = []
        for prize in next_prizes(tuple(sorted(left)), self._order):
            prizes = [*played, prize, *(other for other in left if other != prize)]
            found.append(self._add(State(prizes, state.bids, state.points, state.pot)))
        return found

    def _add(self, state: State) -> int:
        """Returns the number of a position, after adding all that follow and itself."""
        key = mine, theirs, _, prize, pot = position(state, self._cards, 0)
        if key in self._numbers:
            return self._numbers[key]
        later = [
            [self._revealed(after(state, one, other, self._carry)) for other in theirs]
            for one in mine
        ]
        if len(self.views) + 2 > self._limit:
            raise ConfigError(
                f"Gops has more than {self._limit:,} information sets of its scripted players. "
                "Choose fewer cards or raise max_infosets."
            )
        game = copy.copy(self._game)
        game.begin(game.tasks.train[0], state)
        for seat, agent in enumerate(game.possible_agents):
            self.views.append(seat_view(game, agent, self._rng))
            self.seats.append(seat)
        self._stakes.append((prize + pot) * np.sign(np.subtract.outer(mine, theirs)))
        self._later.append(np.array(later, int))
        self._numbers[key] = len(self._numbers)
        return self._numbers[key]

    def solve(self, probabilities: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the value of each player and the value of its best response.

        Args:
            probabilities: for each information set, the probabilities of its admissible actions.
        """
        # The gain of the first player: both play as given, the first or the second responds.
        gains = np.zeros((len(self._stakes), 3))
        for number, (stakes, later) in enumerate(zip(self._stakes, self._later, strict=True)):
            one, other = probabilities[2 * number : 2 * number + 2]
            own, first, second = np.moveaxis(
                stakes[..., None] + gains[later].sum(axis=2) / max(1, later.shape[2]), 2, 0
            )
            gains[number] = one @ own @ other, (first @ other).max(), (one @ second).min()
        total = self._cards * (self._cards + 1) / 2
        value, first, second = gains[self._first].mean(axis=0) / total
        return np.array([value, 0 - value]), np.array([first, 0 - second])
