"""Scripted players of Werewolf. They use only the knowledge of their seat."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from agentgym.envs.social_deduction.deduction import (
    DOCTOR,
    ROLES,
    SEER,
    WOLF,
    Event,
    chances,
    public_odds,
)

Statement = tuple[str, int]
NOTHING: Statement = ("", -1)
JOINING = 0.2
"""Bonus on the wolf probability of a player that receives all accusations, in votes."""


@dataclass(frozen=True)
class View:
    """The knowledge of one player.

    Attributes:
        me: index of the player.
        role: role of the player.
        options: players that it can choose now, or could choose in a vote.
        events: public events.
        wolves: known wolves.
        innocent: players known to be no wolves.
    """

    me: int
    role: str
    options: tuple[int, ...]
    events: tuple[Event, ...]
    wolves: frozenset[int] = frozenset()
    innocent: frozenset[int] = frozenset()


def pick(values: Mapping[int, float], rng: np.random.Generator) -> int:
    """Returns a key with the highest value. Ties are broken at random."""
    most = max(values.values())
    best = [key for key, value in values.items() if value == most]
    return best[int(rng.integers(len(best)))]


def beliefs(view: View) -> np.ndarray:
    """Returns the player's belief: the probability of each role per player, shape (7, 4)."""
    known = dict.fromkeys(view.wolves, WOLF) | {view.me: view.role}
    return chances(public_odds(view.events), known, tuple(view.innocent))


def prey(view: View) -> tuple[int, ...]:
    """Returns the players that the player may want to eliminate."""
    fellows = view.wolves if view.role == WOLF else ()
    return tuple(i for i in view.options if i not in fellows)


def accused(view: View) -> dict[int, int]:
    """Returns the number of accusations against each accused candidate in `prey`."""
    found = [about for kind, _, about in view.events if kind in ("finds", "suspect")]
    return {i: found.count(i) for i in prey(view) if i in found}


class Reasoning:
    """Maintains odds over all deals. Wolves also model the beliefs of the village."""

    def night(self, view: View, rng: np.random.Generator) -> int:
        """Returns the player to kill, inspect or protect."""
        think = beliefs(view)
        worth = think[:, ROLES.index(SEER)] + 0.3 * think[:, ROLES.index(DOCTOR)]
        options: Iterable[int] = prey(view)
        if view.role == SEER:
            worth = think[:, 0]
            options = [i for i in options if i not in view.wolves | view.innocent] or options
        return pick({i: float(worth[i]) for i in options}, rng)

    def talk(self, view: View, rng: np.random.Generator) -> Statement:
        """Returns the statement to make."""
        said = {(kind, about) for kind, who, about in view.events if who == view.me}
        plan = self._lie(view) if view.role == WOLF else self._tell(view)
        return next((s for s in plan if s not in said), NOTHING)

    def _tell(self, view: View) -> Iterable[Statement]:
        claims = {who for kind, who, _ in view.events if kind == "claim"}
        if view.role == SEER:
            yield from (("finds", i) for i in sorted(view.wolves) if i in view.options)
            yield from (("clears", i) for i in sorted(view.innocent) if i in view.options)
        think = beliefs(view)[:, 0]
        suspect = max(view.options, key=lambda i: think[i])
        yield "suspect", suspect
        yield from (("trust", i) for i in sorted(claims) if i in view.options and think[i] < 0.2)

    def _lie(self, view: View) -> Iterable[Statement]:
        accusers = [
            who
            for kind, who, about in view.events
            if kind == "finds" and about in view.wolves and who in prey(view)
        ]
        if any(("finds", who, view.me) in view.events for who in accusers):
            yield "finds", accusers[-1]
        yield from (("suspect", i) for i in accusers)
        seen = chances(public_odds(view.events), {})[:, 0]
        yield "suspect", max(prey(view), key=lambda i: seen[i])

    def vote(self, view: View, rng: np.random.Generator) -> int:
        """Returns the player to vote for, favouring accused players to avoid split votes."""
        odds = public_odds(view.events)
        think = chances(odds, {}) if view.role == WOLF else beliefs(view)
        count = accused(view)
        total = sum(count.values()) or 1
        worth = {i: float(think[i, 0] + JOINING * count.get(i, 0) / total) for i in prey(view)}
        return pick(worth, rng)


class Follower:
    """Follows the most frequent accusation. Only the seer uses its private knowledge."""

    def night(self, view: View, rng: np.random.Generator) -> int:
        """Returns the player to kill, inspect or protect."""
        return pick(dict.fromkeys(prey(view), 0.0), rng)

    def talk(self, view: View, rng: np.random.Generator) -> Statement:
        """Returns the statement to make."""
        found = [i for i in sorted(view.wolves) if i in view.options]
        if view.role == SEER and found:
            return "finds", found[0]
        count = accused(view)
        return ("suspect", pick(count, rng)) if count else NOTHING

    def vote(self, view: View, rng: np.random.Generator) -> int:
        """Returns the player to vote for."""
        return pick(accused(view) or dict.fromkeys(prey(view), 0), rng)


MINDS = {"follower": Follower(), "reasoning": Reasoning()}
