"""A commons: the rules as pure functions, and its scripted players."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

CAPACITY = 100
COLLAPSE = 5
"""A smaller stock after the harvest does not recover."""
EXPECTED_MONTHS = 12
"""Planning horizon of the expert if the number of months is not announced."""
MODELS = ("grim", "sustainable", "follower", "overuser", "greedy")
"""Levels that the expert considers for co-players. The first wins ties."""
GENTLE = tuple((first, 1.0) for first in (1.0, 0.75, 0.5, 0.25, 0.0))
"""The expert's plans: multiples of the sustainable share, next month and afterwards."""
ROUGH = tuple((first, later) for first in (1.25, 1.5, 2.0, 100.0) for later in (1.0, first))
"""Additional plans against co-players that overuse the stock."""


@dataclass
class State:
    """State of an episode.

    Attributes:
        stock: the current stock.
        stocks: the stock before each harvest.
        takes: the amount each player obtained in each harvest.
        named: the smallest number in each player's messages before each harvest, or -1.
        talk: messages of all players since the last harvest, one list per message turn.
        talking: whether the players exchange messages, before the stock recovers.
    """

    stock: int
    stocks: list[int] = field(default_factory=list)
    takes: list[list[int]] = field(default_factory=list)
    named: list[list[int]] = field(default_factory=list)
    talk: list[list[str]] = field(default_factory=list)
    talking: bool = False


def share(stock: int, players: int, player: int | None = None) -> int:
    """Returns the largest equal share that lets the stock recover by next month.

    If `player` is given, the remainder of the division goes to the first players.
    """
    rest = 0 if player is None else int(player < stock // 2 % players)
    return stock // 2 // players + rest


def grown(stock: int) -> int:
    """Returns the stock one month after a harvest."""
    return min(CAPACITY, 2 * stock)


def allot(bids: list[int], stock: int, rng: np.random.Generator) -> list[int]:
    """Returns the amount each player obtains.

    If the requests exceed the stock, each unit goes to a player sampled uniformly from those whose
    requests are not yet met.
    """
    if sum(bids) <= stock:
        return list(bids)
    takes = [0] * len(bids)
    wanting = [i for i, bid in enumerate(bids) if bid]
    for chance in rng.random(stock).tolist():
        lucky = wanting[int(chance * len(wanting))]
        takes[lucky] += 1
        if takes[lucky] == bids[lucky]:
            wanting.remove(lucky)
    return takes


def overused(stocks: list[int], takes: list[list[int]]) -> bool:
    """Returns whether more than half of the stock was taken in any month."""
    return any(sum(got) > stock // 2 for stock, got in zip(stocks, takes, strict=True))


def agreed(named: list[list[int]], takes: list[list[int]], last: list[int]) -> int:
    """Returns the smallest number proposed by players that have kept their word, or -1."""
    rounds = [*zip(named, takes, strict=True)]
    trusted = [
        number
        for i, number in enumerate(last)
        if number >= 0 and all(said[i] < 0 or got[i] <= said[i] for said, got in rounds)
    ]
    return min(trusted, default=-1)


def wish(level: str, stock: int, players: int, broken: bool, agreement: int) -> int:
    """Returns the amount that a scripted player requests.

    Args:
        level: the scripted player's level.
        stock: the current stock.
        players: number of players.
        broken: whether the stock was overused in any month.
        agreement: smallest number proposed by players that have kept their word, or -1.
    """
    fair = share(stock, players)
    if level == "greedy":
        return stock
    if level == "grim":
        return stock // players if broken else fair
    if level == "overuser" or (level == "follower" and agreement < 0):
        return min(stock, fair * 3 // 2 + 1)
    return min(stock, agreement) if level == "follower" else fair


def kind_of(state: State, player: int) -> str | float:
    """Returns the level that explains a player's harvests, or its mean share of the stock."""
    players = len(state.takes[0])
    errors = dict.fromkeys(MODELS, 0.0)
    for t, stock in enumerate(state.stocks):
        broken = overused(state.stocks[:t], state.takes[:t])
        agreement = agreed(state.named[:t], state.takes[:t], state.named[t])
        for level in MODELS:
            expected = wish(level, stock, players, broken, agreement)
            errors[level] += abs(state.takes[t][player] - expected) / stock
    best = min(MODELS, key=lambda level: errors[level])
    months = len(state.stocks)
    if errors[best] <= 0.02 * months:
        return best
    return (
        sum(got[player] / stock for got, stock in zip(state.takes, state.stocks, strict=True))
        / months
    )


def forecast(
    stock: int,
    kinds: list[str | float],
    plan: tuple[float, float],
    left: int,
    broken: bool,
    agreement: int,
) -> float:
    """Returns the predicted harvest of a player that follows a plan.

    Args:
        stock: the current stock.
        kinds: the co-players (see `kind_of`).
        plan: multiples of the sustainable share that the player takes, and proposes to the
            co-players, in the first month and afterwards.
        left: number of remaining months, or its estimate.
        broken: whether the stock has been overused.
        agreement: agreed amount for the next harvest, -1 without one, -2 for the player's proposal.
    """
    players, total = len(kinds) + 1, 0.0
    for month in range(left):
        mine = min(stock, int(plan[month > 0] * share(stock, players)))
        agreement = mine if agreement == -2 else agreement
        asked = mine + sum(
            wish(kind, stock, players, broken, agreement)
            if isinstance(kind, str)
            else int(kind * stock)
            for kind in kinds
        )
        total += mine * min(1.0, stock / max(asked, 1))
        if stock - asked < COLLAPSE:
            break
        broken, agreement = broken or asked > stock // 2, -2
        stock = grown(stock - asked)
    return total


def best_take(state: State, me: int, players: int, stock: int, agreement: int, left: int) -> int:
    """Returns the amount with the highest predicted long-term harvest against the co-players.

    Args:
        state: the state of the episode.
        me: the player.
        players: number of players.
        stock: the stock at the harvest.
        agreement: as in `forecast`.
        left: number of remaining months, or its estimate, including this harvest.
    """
    if left == 1:
        return share(stock, players, me) if agreement == -2 else stock
    kinds = [kind_of(state, i) if state.takes else MODELS[0] for i in range(players) if i != me]
    broken = overused(state.stocks, state.takes)
    rough = broken and any(kind in ("overuser", "greedy") or kind not in MODELS for kind in kinds)
    plan = max(
        GENTLE + ROUGH * rough,
        key=lambda plan: forecast(stock, kinds, plan, left, broken, agreement),
    )
    return min(stock, int(plan[0] * share(stock, players, me)))
