"""`DuelForm`: liar's dice between two players with one die each, for exact evaluation of agents."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np

from agentgym.agents.basic.view import View
from agentgym.envs.cards import duel
from agentgym.envs.cards.bidding import State
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.seats import seat_view


class DuelForm:
    """The information sets of a duel: a starting player, a set of bids and the own face.

    Args:
        game: the game, with two players and one die each.

    Attributes:
        views: view of each information set, as its player sees it.
        seats: player of each information set.
    """

    def __init__(self, game: TextGame):
        self.views: list[View] = []
        self.seats: list[int] = []
        self._rng = np.random.default_rng(0)
        self._view_of: dict[tuple[int, tuple[int, ...], int], View] = {}
        self._places: list[tuple[int, int, int, int]] = []  # starter, last, earlier bids, face
        for starter in (0, 1):
            for bids in sorted(range(2**duel.BIDS), key=int.bit_count):
                self._add(game, starter, [bid for bid in range(duel.BIDS) if bids >> bid & 1])

    def _add(self, game: TextGame, starter: int, bids: list[int]) -> None:
        """Adds the information sets of one starting player after some bids."""
        bidders = [(starter + turn) % 2 for turn in range(len(bids))]
        mover = (starter + len(bids)) % 2
        last, earlier = (bids[-1] + 1 if bids else 0), sum(1 << bid for bid in bids[:-1])
        for face in range(duel.FACES):
            state = State([(face,)] * 2, mover, 0, bids, bidders)  # the other face is not seen
            twin = copy.copy(game)
            twin.begin(game.tasks.train[0], state)
            view = seat_view(twin, game.possible_agents[mover], self._rng)
            if len(bids) > 1:
                before = self._view_of[starter, tuple(bids[:-2]), face]
                choice = game.actions[1 + bids[-2]]
                view.history = [*before.history, (before.observation, choice)]
            self._view_of[starter, tuple(bids), face] = view
            self.views.append(view)
            self.seats.append(mover)
            self._places.append((starter, last, earlier, face))

    def solve(self, probabilities: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the value of each player and the value of its best response.

        Args:
            probabilities: for each information set, the probabilities of its admissible actions:
                the higher bids, then calling the last bid a lie.
        """
        tables = duel.uniform(), duel.uniform()
        for (starter, last, earlier, face), chances in zip(
            self._places, probabilities, strict=True
        ):
            tables[starter][last][earlier, face] = np.roll(chances, bool(last))
        values, best = np.zeros(2), np.zeros(2)
        for starter, table in enumerate(tables):
            value, first, second = (duel.worth(table, who)[1] for who in (None, 0, 1))
            order = [starter, 1 - starter]
            values[order] += np.array([value, -value]) / 2
            best[order] += np.array([first, -second]) / 2
        return values, best
