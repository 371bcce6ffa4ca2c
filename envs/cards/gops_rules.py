"""The rules of GOPS and its simple scripted players."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from agentgym.envs.cards.gops_solver import Cards, Position


@dataclass
class State:
    """The deck and the bids.

    Attributes:
        prizes: all prizes in the order of the deck.
        bids: the bids of both players in the rounds played.
        points: the points of both players.
        pot: sum of the carried prizes.
    """

    prizes: list[int]
    bids: list[tuple[int, int]] = field(default_factory=list)
    points: tuple[int, int] = (0, 0)
    pot: int = 0


def after(state: State, first: int, second: int, carry: bool) -> State:
    """Returns the state after a round.

    Args:
        state: the state before.
        first: the bid of the first player.
        second: the bid of the second player.
        carry: whether a tied prize is added to the next one.
    """
    stake = state.pot + state.prizes[len(state.bids)]
    points = (
        state.points[0] + stake * (first > second),
        state.points[1] + stake * (second > first),
    )
    pot = stake if first == second and carry else 0
    return State(state.prizes, [*state.bids, (first, second)], points, pot)


def hand_of(state: State, cards: int, player: int) -> Cards:
    """Returns the cards of a player (0 or 1), ascending."""
    gone = {pair[player] for pair in state.bids}
    return tuple(card for card in range(1, cards + 1) if card not in gone)


def position(state: State, cards: int, me: int) -> Position:
    """Returns the position of a player (0 or 1)."""
    left = state.prizes[len(state.bids) :]
    mine, theirs = hand_of(state, cards, me), hand_of(state, cards, 1 - me)
    return mine, theirs, tuple(sorted(left)), left[0], state.pot


def infosets(cards: int, order: str) -> int:
    """Returns the number of information sets of both players, told apart by all that they saw."""
    return 2 * sum(
        math.perm(cards, bids) ** 2 * (math.perm(cards, bids + 1) if order == "random" else 1)
        for bids in range(cards)
    )


def scripted(level: str, hand: Cards, prize: int) -> np.ndarray:
    """Returns the bid probabilities of a scripted player for each card of its hand.

    Args:
        level: "random", "highest", "match" or "raise".
        hand: the player's cards, ascending.
        prize: the current prize.
    """
    if level == "random":
        return np.full(len(hand), 1 / len(hand))
    bid = hand[-1]
    if level == "match":
        bid = min(hand, key=lambda card: (abs(card - prize), card))
    elif level == "raise":
        bid = next((card for card in hand if card > prize), hand[0])
    return np.array([float(card == bid) for card in hand])
