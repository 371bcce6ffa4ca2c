"""Bids of liar's dice and the scripted players that make and interpret them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import combinations_with_replacement
from math import comb, factorial, prod

import numpy as np

from agentgym.envs.cards import duel

FACES = 6
NAMES = ("one", "two", "three", "four", "five", "six")
LIAR = "liar"
NO_BID = -1
SLIP = 0.02
"""Assumed probability of an action that the model of a player excludes."""

Hand = tuple[int, ...]
"""The faces of a player's dice, from 0, sorted."""


@cache
def bid_name(bid: int) -> str:
    """Returns the name of a bid: 0 is "1 one", 5 "1 six", 6 "2 ones"."""
    quantity, face = bid // FACES + 1, NAMES[bid % FACES]
    return f"{quantity} {face}" + ("" if quantity == 1 else "es" if face == "six" else "s")


_COUNTS = (*NAMES, "seven", "eight", "nine", "ten")
_BID = re.compile(
    rf"(?:i )?(?:bid ?:? ?)?(?P<count>\d{{1,2}}|{'|'.join(_COUNTS)})(?: ?(?:x|\*|of) ?| |(?=[a-z]))"
    rf"(?:(?P<face>{'|'.join(NAMES)})(?:e?s)?|(?P<digit>[1-6])'?s)"
)
_CHALLENGE = re.compile(
    r"(?:i )?(?:call (?:a |you a |the bid a )?(?:liar|lie)|challenge)|that's a lie"
)


def usual_bid(text: str) -> str:
    """Returns "2 sixes" for other words of a bid, such as "two 6s", and "liar" for a challenge.

    Args:
        text: an action in its plain form.

    Returns:
        The name of the bid, or the text if it is none.
    """
    if _CHALLENGE.fullmatch(text):
        return LIAR
    found = _BID.fullmatch(text)
    if found is None:
        return text
    count, face = found["count"], found["face"]
    quantity = int(count) if count.isdigit() else _COUNTS.index(count) + 1
    which = NAMES.index(face) if face else int(found["digit"]) - 1
    return bid_name((quantity - 1) * FACES + which) if quantity else text


def is_true(bid: int, hands: list[Hand]) -> bool:
    """Returns whether all hands together have at least as many dice of the face as bid."""
    return sum(hand.count(bid % FACES) for hand in hands) > bid // FACES


@cache
def at_least(hits: int, dice: int) -> float:
    """Returns the probability of at least `hits` dice of a face among `dice` unknown ones."""
    chances = (comb(dice, k) * 5 ** (dice - k) for k in range(max(0, hits), dice + 1))
    return sum(chances) / FACES**dice


def truth(bid: int, hand: Hand, total: int) -> float:
    """Returns the probability that a bid is true given only one's own hand."""
    return at_least(bid // FACES + 1 - hand.count(bid % FACES), total - len(hand))


@cache
def policy(level: str, hand: Hand, total: int, last: int) -> np.ndarray:
    """Returns the action probabilities of a scripted player.

    Args:
        level: the player. "random" acts uniformly at random. "honest" takes the action that most
            likely wins if the round ends with it. "timid" challenges a bid that is more likely a
            lie than true and otherwise makes the lowest bid.
        hand: its dice.
        total: number of dice of all players.
        last: the last bid, or NO_BID at the start of a round.

    Returns:
        Probabilities of calling the bid a lie (omitted at the start), then of each higher bid.
    """
    wins = np.array([truth(bid, hand, total) for bid in range(last + 1, total * FACES)])
    if level == "timid":
        wins = np.eye(1, len(wins))[0] / 2
    if last != NO_BID:
        wins = np.array([1 - truth(last, hand, total), *wins])
    if level == "random":
        return np.full(len(wins), 1 / len(wins))
    return np.eye(len(wins))[wins.argmax()]


@cache
def choice(level: str, hand: Hand, total: int, last: int) -> int:
    """Returns the most likely action of a scripted player, as an index of `policy`."""
    return int(policy(level, hand, total, last).argmax())


@lru_cache(maxsize=1 << 18)
def doubt_chance(level: str, hand: Hand, total: int, last: int) -> float:
    """Returns the probability that a scripted player calls the last bid a lie (see `policy`).

    Only the lowest higher bid of each face matters, so the cost does not grow with the dice.
    """
    higher = range(last + 1, min(last + 1 + FACES, total * FACES))
    if level == "random":
        return 1 / (total * FACES - last)
    hopes = [0.5 if level == "timid" else truth(bid, hand, total) for bid in higher]
    return float(1 - truth(last, hand, total) >= max(hopes, default=0.0))


SIMPLE = ("random", "timid", "honest")


@cache
def all_hands(dice: int) -> dict[Hand, float]:
    """Returns every hand of `dice` dice with its probability."""
    return {
        hand: factorial(dice) / prod(map(factorial, Counter(hand).values())) / FACES**dice
        for hand in combinations_with_replacement(range(FACES), dice)
    }


@cache
def duel_table(level: str) -> duel.Table:
    """Returns the strategy of a simple level with one die against one."""
    rows = [
        np.array([policy(level, (f,), 2, last) for f in range(FACES)]) for last in range(-1, 12)
    ]
    return [
        np.broadcast_to(row, (len(acts), *row.shape))
        for row, acts in zip(rows, duel.second_acts(), strict=True)
    ]


@cache
def duel_answer(level: str, me: int) -> duel.Table:
    """Returns the best response to a level with one die against one."""
    theirs = duel.equilibrium() if level not in SIMPLE else duel_table(level)
    return duel.worth(theirs, me)[2]


@dataclass
class State:
    """State of a game.

    Attributes:
        hands: dice of every player. Empty if the player is out.
        mover: player to act.
        number: number of the round, from 0.
        bids: bids of the round.
        bidders: players who made them.
    """

    hands: list[Hand]
    mover: int
    number: int = 0
    bids: list[int] = field(default_factory=list)
    bidders: list[int] = field(default_factory=list)

    @property
    def last(self) -> int:
        """The last bid, or NO_BID."""
        return self.bids[-1] if self.bids else NO_BID

    @property
    def total(self) -> int:
        """The number of dice of all players."""
        return sum(map(len, self.hands))

    def after(self, player: int) -> int:
        """Returns the next player with dice."""
        player = (player + 1) % len(self.hands)
        while not self.hands[player]:
            player = (player + 1) % len(self.hands)
        return player


def beliefs(state: State, me: int, levels: list[str]) -> list[dict[Hand, float]]:
    """Returns a posterior over each player's hand given its bids.

    Args:
        state: the game. Only the bids and the numbers of dice are used.
        me: the player whose own hand is known.
        levels: assumed level of each player.
    """
    weights = [all_hands(len(hand)) for hand in state.hands]
    for before, bid, player in zip([NO_BID, *state.bids], state.bids, state.bidders, strict=False):
        choice = bid - before - (before == NO_BID)
        weights[player] = {
            hand: w * (SLIP + policy(levels[player], hand, state.total, before)[choice])
            for hand, w in weights[player].items()
        }
    weights[me] = {state.hands[me]: 1.0}
    totals = [sum(chances.values()) for chances in weights]
    return [
        {hand: w / total for hand, w in chances.items()}
        for chances, total in zip(weights, totals, strict=True)
    ]


def count_chances(face: int, hands: list[dict[Hand, float]]) -> np.ndarray:
    """Returns the distribution of the number of dice of a face over uncertain hands."""
    counts = np.ones(1)
    for chances in hands:
        own = np.zeros(1 + max(map(len, chances)))
        for hand, w in chances.items():
            own[hand.count(face)] += w
        counts = np.convolve(counts, own)
    return counts


def look_ahead(state: State, levels: list[str]) -> int:
    """Returns the choice after which the mover most likely does not lose a die.

    The search ends with the next player's action. If that is a higher bid, all players are assumed
    to be equally likely to lose.

    Args:
        state: the game. Only the mover's information is used.
        levels: assumed level of each player.
    """
    me, total = state.mover, state.total
    hands, rival = beliefs(state, me, levels), state.after(me)
    others = [chances for player, chances in enumerate(hands) if player != rival]
    spared = 1 - 1 / sum(map(bool, state.hands))
    counts = [count_chances(face, others) for face in range(FACES)]
    wins = [] if state.last == NO_BID else [_lies(state.last, counts, hands[rival])]
    for bid in range(state.last + 1, total * FACES):
        doubting = {
            hand: w * doubt_chance(levels[rival], hand, total, bid)
            for hand, w in hands[rival].items()
        }
        doubt = sum(doubting.values())
        wins.append((1 - doubt) * spared + doubt - _lies(bid, counts, doubting))
    return int(np.argmax(np.round(wins, 9)))


def _lies(bid: int, counts: list[np.ndarray], rival: dict[Hand, float]) -> float:
    """Returns the probability that a bid is a lie, summed over the weighted hands of the rival."""
    below = np.concatenate([[0.0], counts[bid % FACES].cumsum()])
    needed = bid // FACES + 1
    return float(
        sum(
            w * below[max(0, min(len(below) - 1, needed - hand.count(bid % FACES)))]
            for hand, w in rival.items()
        )
    )
