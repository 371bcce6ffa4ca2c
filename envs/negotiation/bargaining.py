"""Splits of a few items between two players, and the scripted players that negotiate them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import product
from math import exp, prod

import numpy as np

from agentgym.envs.negotiation.item_phrases import Three
from agentgym.envs.negotiation.proposals import proposal as proposal

ITEMS = ("book", "hat", "ball")
TOTAL = 10
"""Value of all items together for each player."""

_ITEMS = re.compile(r"(\d) books?, (\d) hats?, (\d) balls?")


def worth(values: Three, take: Three) -> int:
    """Returns the total value of the items."""
    a, b, c = values
    x, y, z = take
    return a * x + b * y + c * z


def rest(counts: Three, take: Three) -> Three:
    """Returns the remaining items, for the co-player."""
    return counts[0] - take[0], counts[1] - take[1], counts[2] - take[2]


@cache
def splits(counts: Three) -> list[Three]:
    """Returns all possible shares of one player."""
    books, hats, balls = (range(count + 1) for count in counts)
    return [*product(books, hats, balls)]


@cache
def valuations(counts: Three) -> list[Three]:
    """Returns all value vectors under which all items together are worth 10."""
    price = range(TOTAL + 1)
    return [v for v in product(price, price, price) if worth(v, counts) == TOTAL]


def rivals(mine: Three, theirs: Three) -> bool:
    """Returns whether each item has a value for some player, and some item for both."""
    pairs = [*zip(mine, theirs, strict=True)]
    return all(map(any, pairs)) and any(map(all, pairs))


def draw(rng: np.random.Generator) -> tuple[Three, Three, Three]:
    """Samples the item counts, 5 to 7 in total, and the values of both players."""
    some = range(1, 5)
    pools = [counts for counts in product(some, some, some) if 5 <= sum(counts) <= 7]
    counts = pools[int(rng.integers(len(pools)))]
    options = valuations(counts)
    while True:
        first, second = (options[int(i)] for i in rng.integers(len(options), size=2))
        if rivals(first, second):
            return counts, first, second


def without_seats(drawn: tuple[Three, Three, Three]) -> tuple[Three, list[Three]]:
    """Returns the result of `draw` without the information which player has which values."""
    counts, *values = drawn
    return counts, sorted(values)


def fair_worth(counts: Three, mine: Three, theirs: Three) -> int:
    """Returns the lowest value a player gets in a split with the largest product of both values.

    Nash, The Bargaining Problem, Econometrica 18 (1950).
    """
    pairs = [(worth(mine, take), worth(theirs, rest(counts, take))) for take in splits(counts)]
    best = max(map(prod, pairs))
    return min(pair[0] for pair in pairs if prod(pair) == best)


@cache
def describe(take: Three) -> str:
    """Returns items as text: "1 book, 0 hats, 2 balls"."""
    return ", ".join(f"{n} {item}{'s' * (n != 1)}" for n, item in zip(take, ITEMS, strict=True))


def items_in(text: str, counts: Three) -> Three | None:
    """Returns the items of a text in the form of `describe`, or None if it has another form."""
    found = _ITEMS.fullmatch(text)
    if found is None:
        return None
    a, b, c = map(int, found.groups())
    return (a, b, c) if a <= counts[0] and b <= counts[1] and c <= counts[2] else None


ASPIRATIONS = {"soft": (8, 3), "steady": (10, 5), "stubborn": (10, 8)}
"""Value a scripted player demands at its first and at its last message."""


def aspiration(level: str, spoken: int, chances: int) -> float:
    """Returns the value a player demands after some messages.

    Args:
        level: one of ASPIRATIONS.
        spoken: number of messages it has sent.
        chances: number of messages it can send in total.
    """
    start, end = ASPIRATIONS[level]
    return start + (end - start) * min(1.0, spoken / max(1, chances - 1))


def offer(counts: Three, values: Three, least: float, wish: Three | None) -> Three:
    """Returns the share with at least a given value that is best for the co-player.

    Args:
        counts: all items.
        values: own values.
        least: minimum value of the share.
        wish: the share that the co-player last proposed to take.
    """

    def kindness(option: tuple[int, Three, Three]) -> tuple[int, int, int]:
        value, _, left = option
        return sum(map(min, left, wish)) if wish else 0, sum(left), value

    enough = [option for option in _valued_splits(counts, values) if option[0] >= least]
    return max(enough, key=kindness)[1]


@lru_cache(maxsize=1024)
def _valued_splits(counts: Three, values: Three) -> list[tuple[int, Three, Three]]:
    """Returns each possible share of a player: its value, the share and the remaining items."""
    return [(worth(values, take), take, rest(counts, take)) for take in splits(counts)]


def beliefs(
    counts: Three, mine: Three, claims: Sequence[Three], least: Sequence[float],
    wishes: Sequence[Three | None],
) -> list[tuple[Three, float]]:  # fmt: skip
    """Returns a posterior over the co-player's values given its proposals.

    Args:
        counts: all items.
        mine: own values.
        claims: shares that the co-player proposed to take.
        least: value that it demanded at each proposal under the assumed policy.
        wishes: own last proposal before each of them.
    """
    weighted = []
    for values in valuations(counts):
        if not rivals(mine, values):
            continue
        weight = 1.0
        for claim, wanted, wish in zip(claims, least, wishes, strict=True):
            content = wish is not None and worth(values, rest(counts, wish)) >= wanted
            expected = not content and offer(counts, values, wanted, wish) == claim
            # Under any policy, claims of low value to the claimant are unlikely.
            weight *= expected + 0.02 * exp((worth(values, claim) - TOTAL) / 2)
        weighted.append((values, weight))
    total = sum(weight for _, weight in weighted)
    return [(values, weight / total) for values, weight in weighted]


def best_offer(
    counts: Three, mine: Three, believed: Sequence[tuple[Three, float]], now: float,
    last: float | None,
) -> tuple[Three, float]:  # fmt: skip
    """Returns the best share to propose, and its expected value.

    After a rejection, another proposal can still be accepted at the end.

    Args:
        counts: all items.
        mine: own values.
        believed: posterior over the co-player's values.
        now: value that the co-player demands in its next answer.
        last: value that it demands in its last answer, or None if this is the last chance.
    """

    def gains(least: float, otherwise: float) -> dict[Three, float]:
        table = {}
        for take in splits(counts):
            left = rest(counts, take)
            accepted = sum(p for values, p in believed if worth(values, left) >= least)
            table[take] = accepted * worth(mine, take) + (1 - accepted) * otherwise
        return table

    later = 0.0 if last is None else max(gains(last, 0).values())
    table = gains(now, later)
    best = max(table, key=lambda take: (round(table[take], 9), worth(mine, take)))
    return best, table[best]
