"""Cases for Debate: a motion, cards of evidence, and the semantics of standing cards."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from agentgym.tasks import task_rng

Tables = TypeVar("Tables", int, np.ndarray)
"""Cards on a table as a bit set, or an array of such tables."""

SIDES = ("pro", "con")
MOTIONS = (
    "The town should build a tram line.",
    "The school should start an hour later.",
    "The library should stay open at night.",
    "The harbour should be closed to cruise ships.",
    "The old bridge should be kept as it is.",
    "The market should move to the station.",
    "The village should buy its own wind turbine.",
    "The museum should be free for everybody.",
    "Cars should be kept out of the old town.",
    "The forest by the lake should be opened to campers.",
    "The theatre should be rebuilt on the river bank.",
    "The public pool should be heated all year.",
    "The city should plant fruit trees in its streets.",
    "The ferry should run on Sundays.",
    "The airfield should become a park.",
    "The council should meet online only.",
)
SOURCES = (
    "a survey of residents",
    "a cost estimate",
    "a trial in a neighbouring town",
    "a report by engineers",
    "the accounts of last year",
    "a letter from shop owners",
    "measurements of noise",
    "a study by the university",
    "the testimony of a planner",
    "records of the police",
    "a petition with many names",
    "an old survey map",
    "the figures of the insurers",
    "a legal opinion",
    "interviews with teachers",
    "a count of visitors",
    "photographs of the site",
    "the experience of the fire brigade",
    "a forecast of the weather office",
    "a comparison with five cities",
)
DISPUTED = 0.3
"""Probability that a card disputes a given card of the other side."""


@dataclass(frozen=True)
class Case:
    """A motion and its cards. The first half of the cards belongs to pro, the second half to con.

    Attributes:
        motion: the debated statement.
        sources: the source of each card.
        strengths: the strength of each card, from 1 to 4.
        attackers: the cards that dispute each card, as bit sets.
    """

    motion: str
    sources: tuple[str, ...]
    strengths: tuple[int, ...]
    attackers: tuple[int, ...]

    @property
    def hand(self) -> int:
        """The number of cards of each side."""
        return len(self.strengths) // 2


def standing(case: Case, table: Tables) -> Tables:
    """Returns the cards on the table that stand, as a bit set. Accepts arrays of tables.

    A card stands if all cards on the table that dispute it fall. A card falls if a standing card
    disputes it. Cards that only dispute each other neither stand nor fall. This is the grounded
    extension of Dung (1995).
    """
    lying = [(table & 1 << i, attackers & table) for i, attackers in enumerate(case.attackers)]
    stands: Any = table & 0
    falls = stands
    while True:
        before = stands | falls
        for card, threats in lying:
            stands = stands | card * (threats & ~falls == 0)
            falls = falls | card * (threats & stands != 0)
        changed = stands | falls != before
        if not (changed if isinstance(changed, bool) else changed.any()):
            return stands


def weights(case: Case, table: Tables) -> tuple[Tables, Tables]:
    """Returns the standing strength of pro and of con, for one or many tables."""
    stands = standing(case, table)
    alive = [s * (stands >> i & 1) for i, s in enumerate(case.strengths)]
    return sum(alive[: case.hand]), sum(alive[case.hand :])


def verdict(case: Case, table: int) -> str:
    """Returns the side with the stronger standing cards: "pro", "con" or "draw"."""
    pro, con = weights(case, table)
    return "draw" if pro == con else SIDES[con > pro]


@lru_cache(maxsize=4096)
def make_case(task: str, hand: int) -> Case:
    """Returns the case of a task. Its full set of cards is never a draw."""
    rng = task_rng(task, str(hand))
    while True:
        disputes = rng.random((2 * hand, 2 * hand)) < DISPUTED
        attackers = [
            sum(1 << j for j in range(2 * hand) if disputes[i, j] and (i < hand) != (j < hand))
            for i in range(2 * hand)
        ]
        case = Case(
            MOTIONS[int(rng.integers(len(MOTIONS)))],
            tuple(SOURCES[i] for i in rng.choice(len(SOURCES), 2 * hand, replace=False)),
            tuple(int(s) for s in rng.integers(1, 5, 2 * hand)),
            tuple(attackers),
        )
        if verdict(case, (1 << 2 * hand) - 1) != "draw":
            return case


@lru_cache(maxsize=4096)
def shown(case: Case) -> tuple[str, ...]:
    """Returns the cards as text, numbered from 1."""
    lines = []
    for i, (source, strength) in enumerate(zip(case.sources, case.strengths, strict=True)):
        against = [str(j + 1) for j, bits in enumerate(case.attackers) if bits >> i & 1]
        disputes = f"; disputes {', '.join(against)}" if against else ""
        lines.append(f"{i + 1} ({SIDES[i >= case.hand]}, strength {strength}): {source}{disputes}.")
    return tuple(lines)


def turns(rounds: int) -> list[int]:
    """Returns the side that acts in each turn. The first side alternates between rounds."""
    return [(r + i) % 2 for r in range(rounds) for i in range(2)]


@lru_cache(maxsize=64)
def stages(hand: int, order: tuple[int, ...]) -> list[np.ndarray]:
    """Returns the reachable tables before each turn and after the last one."""
    reached = [np.zeros(1, dtype=np.int64)]
    for side in order:
        cards = 1 << np.arange(side * hand, (side + 1) * hand)
        after = reached[-1][:, None] | cards
        reached.append(np.unique(after[after != reached[-1][:, None]]))
    return reached


@lru_cache(maxsize=256)
def values(case: Case, order: tuple[int, ...]) -> np.ndarray:
    """Returns the minimax value of each table for pro, by backward induction.

    The value of a final table is the lead of pro, plus 100 for a win and minus 100 for a loss.

    Args:
        case: the case.
        order: the side that acts in each turn, from an empty table.

    Returns:
        Array of length 2 ** number of cards, indexed by bit set. 0 for unreachable tables.
    """
    result = np.zeros(1 << 2 * case.hand, dtype=np.int64)
    reached = stages(case.hand, order)
    pro, con = weights(case, reached[-1])
    result[reached[-1]] = pro - con + 100 * np.sign(pro - con)
    for tables, side in zip(reached[-2::-1], order[::-1], strict=True):
        cards = 1 << np.arange(side * case.hand, (side + 1) * case.hand)
        never = 1000 if side else -1000  # a card cannot be played twice
        after = np.where(tables[:, None] & cards, never, result[tables[:, None] | cards])
        result[tables] = after.min(1) if side else after.max(1)
    return result


def playable(case: Case, table: int, side: int) -> list[int]:
    """Returns the cards that a side has not played yet, as indices."""
    return [i for i in range(side * case.hand, (side + 1) * case.hand) if not table >> i & 1]
