"""Scripted players of Avalon. They use only the knowledge of their seat."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import combinations
from math import comb

import numpy as np

from agentgym.envs.social_deduction.avalon_rules import (
    EVIL_PLAYERS,
    MERLIN,
    MOST_PROPOSALS,
    TEAM_SIZES,
    State,
    fails_needed,
    is_evil,
    known_evil,
)

# Likelihoods of behaviour given the sides. The values are rough guesses of our own.
SABOTAGE = 0.7
"""Probability that an evil player on a quest plays fail."""
APPROVE = ((0.6, 0.45), (0.35, 0.75))
"""Probability to approve a team, by the side of the voter and whether evil is on the team."""
CLEAN_LEADER = 0.4
"""Odds that an evil leader, compared with a good one, proposes a team without evil."""
OPINIONS = {"suspect": ((0.5, 1.5), (1.2, 0.6)), "trust": ((1.2, 0.7), (1.0, 1.0))}
"""Odds of an opinion, by the sides of the speaker and of the player it is about."""
HIDE = 2
"""Number of quests with fails from which on Merlin uses its knowledge."""

History = tuple[
    tuple[tuple[tuple[int, ...], int], ...],
    tuple[tuple[int, tuple[int, ...], tuple[bool, ...]], ...],
    tuple[tuple[str, int, int], ...],
]
"""Results (team, fails), proposals (leader, team, votes) and opinions."""
Opinion = tuple[str, int]


@dataclass(frozen=True)
class View:
    """The knowledge of one player.

    Attributes:
        me: index of the player.
        role: its role.
        evil: the players it knows to be evil, without itself.
        players: number of players.
        quest: index of the current quest.
        attempt: number of the proposal for the quest, from 1.
        team: the team proposed last.
        history: the public history.
    """

    me: int
    role: str
    evil: frozenset[int]
    players: int
    quest: int
    attempt: int
    team: tuple[int, ...]
    history: History

    @property
    def side(self) -> frozenset[int]:
        """The players of its own side that an evil player knows, with itself."""
        return self.evil | {self.me}

    @property
    def size(self) -> int:
        """The number of players on the current quest."""
        return TEAM_SIZES[self.players][self.quest]

    @property
    def needed(self) -> int:
        """The number of fails that make the current quest fail."""
        return fails_needed(self.players, self.quest)


def view(state: State, me: int) -> View:
    """Returns the knowledge of a player."""
    results = tuple((tuple(result.team), result.fails) for result in state.results)
    proposals = tuple(
        (each.leader, tuple(each.team), tuple(each.votes)) for each in state.proposals
    )
    return View(
        me,
        state.roles[me],
        frozenset(known_evil(state.roles, me)),
        len(state.roles),
        min(len(state.results), 4),
        state.attempt,
        tuple(state.team) if state.proposals else (),
        (results, proposals, tuple(state.talk)),
    )


@cache
def sides(players: int) -> np.ndarray:
    """Returns all sets of evil players as rows, bool (hypotheses, players)."""
    sets = list(combinations(range(players), EVIL_PLAYERS[players]))
    table = np.zeros((len(sets), players), bool)
    for row, evil in zip(table, sets, strict=True):
        row[list(evil)] = True
    return table


@lru_cache(maxsize=64)
def public_odds(players: int, history: History) -> np.ndarray:
    """Returns the odds of all sets of evil players given the public history, (hypotheses,)."""
    evil = sides(players)
    odds = np.ones(len(evil))
    results, proposals, talk = history
    for team, fails in results:
        for count in range(EVIL_PLAYERS[players] + 1):
            chance = comb(count, fails) * SABOTAGE**fails * (1 - SABOTAGE) ** max(0, count - fails)
            odds[evil[:, team].sum(axis=1) == count] *= chance
    for leader, team, votes in proposals:
        dirty = evil[:, team].any(axis=1).astype(int)
        odds *= np.where((dirty == 0) & evil[:, leader], CLEAN_LEADER, 1.0)
        for voter, vote in enumerate(votes):
            approve = np.array(APPROVE)[evil[:, voter].astype(int), dirty]
            odds *= approve if vote else 1 - approve
    for kind, who, about in dict.fromkeys(talk):
        odds *= np.array(OPINIONS[kind])[evil[:, who].astype(int), evil[:, about].astype(int)]
    return odds / odds.max()


def beliefs(mine: View, outside: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Returns the sets of evil players and their probabilities.

    Args:
        mine: the knowledge of the player.
        outside: whether the private knowledge is left out.
    """
    evil, odds = sides(mine.players), public_odds(mine.players, mine.history)
    if not outside:
        odds = odds * (evil[:, mine.me] == is_evil(mine.role))
        for other in mine.evil:
            odds = odds * evil[:, other]
    return evil, odds / odds.sum()


def suspicion(mine: View, outside: bool = False) -> np.ndarray:
    """Returns the probability of each player to be evil, (players,). See `beliefs`."""
    evil, odds = beliefs(mine, outside)
    return (odds @ evil).round(9)  # reproducible ties across machines


def clean(mine: View, team: Iterable[int]) -> float:
    """Returns the probability that nobody on a team is evil."""
    evil, odds = beliefs(mine)
    return round(float(odds @ ~evil[:, list(team)].any(axis=1)), 9)


def ranked(values: np.ndarray, rng: np.random.Generator) -> list[int]:
    """Returns the indices of values in ascending order. Ties are broken at random."""
    return [int(i) for i in np.lexsort((rng.random(len(values)), values))]


def failed(mine: View) -> set[int]:
    """Returns the players that were on a quest with fails."""
    return {player for team, fails in mine.history[0] if fails for player in team}


class Naive:
    """Judges players only by the quests they were on. Evil always plays fail."""

    def _bad(self, mine: View) -> set[int]:
        """Returns the players that the player would not take along."""
        return (failed(mine) - {mine.me}) | (set() if is_evil(mine.role) else mine.evil)

    def propose(self, mine: View, rng: np.random.Generator) -> list[int]:
        """Returns the team to propose."""
        bad = self._bad(mine)
        worth = np.array([(i != mine.me) + (i in bad) for i in range(mine.players)])
        return ranked(worth, rng)[: mine.size]

    def vote(self, mine: View, rng: np.random.Generator) -> bool:
        """Returns whether to approve the team."""
        if is_evil(mine.role):
            return bool(mine.side & {*mine.team})
        return mine.attempt == MOST_PROPOSALS or not self._bad(mine) & {*mine.team}

    def fail(self, mine: View, rng: np.random.Generator) -> bool:
        """Returns whether an evil player plays fail."""
        return True

    def talk(self, mine: View, rng: np.random.Generator) -> Opinion | None:
        """Returns the opinion to state, or None."""
        bad = sorted(failed(mine) - mine.side)
        return ("suspect", bad[int(rng.integers(len(bad)))]) if bad else None

    def assassinate(self, mine: View, rng: np.random.Generator) -> int:
        """Returns the player named as Merlin."""
        good = [i for i in range(mine.players) if i not in mine.side]
        return good[int(rng.integers(len(good)))]


class Reasoning(Naive):
    """Maintains odds over all sets of evil players. Evil players use the odds of outsiders."""

    def _hide(self, mine: View) -> View:
        """Returns the view that the player acts on. Merlin ignores its secret until it matters."""
        lost = sum(fails > 0 for _, fails in mine.history[0])
        hides = mine.role == MERLIN and lost < HIDE
        return replace(mine, evil=frozenset()) if hides else mine

    def propose(self, mine: View, rng: np.random.Generator) -> list[int]:
        """Returns the safest team with the player, or one with just enough evil players."""
        mine = self._hide(mine)
        if not is_evil(mine.role):
            worth = suspicion(mine)
            worth[mine.me] = -1
            return ranked(worth, rng)[: mine.size]
        worth = suspicion(mine, outside=True)
        worth[mine.me] = -1
        fellows = [i for i in ranked(worth, rng) if i in mine.side][: mine.needed]
        others = [i for i in ranked(worth, rng) if i not in mine.side]
        return [*fellows, *others][: mine.size]

    def vote(self, mine: View, rng: np.random.Generator) -> bool:
        """Returns whether to approve the team."""
        if is_evil(mine.role):
            return len(mine.side & {*mine.team}) >= mine.needed
        mine = self._hide(mine)
        least = 0.8 * clean(mine, self.propose(mine, rng))
        return mine.attempt == MOST_PROPOSALS or clean(mine, mine.team) >= round(least, 9)

    def fail(self, mine: View, rng: np.random.Generator) -> bool:
        """Returns whether to play fail: with just enough others, and not on a first quest of two.

        An early fail of a small team gives the evil players away.
        """
        fellows = sorted(mine.side & {*mine.team})
        if len(mine.team) == 2 and mine.quest == 0:
            return False
        return len(fellows) >= mine.needed and mine.me in fellows[: mine.needed]

    def talk(self, mine: View, rng: np.random.Generator) -> Opinion | None:
        """Returns the opinion to state, or None.

        Merlin accuses only players that the others could suspect as well.
        """
        mine = self._hide(mine)
        outside = suspicion(mine, outside=True)
        worth = outside if is_evil(mine.role) else suspicion(mine)
        usual = EVIL_PLAYERS[mine.players] / mine.players
        targets = [
            i
            for i in ranked(-worth, rng)
            if i != mine.me and outside[i] > usual and not (is_evil(mine.role) and i in mine.side)
        ]
        if mine.role == MERLIN and mine.evil:
            targets = [i for i in targets if i in mine.evil]
        return ("suspect", targets[0]) if targets else None

    def assassinate(self, mine: View, rng: np.random.Generator) -> int:
        """Returns the good player whose votes, teams and opinions fit the true sides best."""
        _, proposals, talk = mine.history
        fits = np.full(mine.players, -np.inf)
        for i in range(mine.players):
            if i not in mine.side:
                fits[i] = 0
        for leader, team, votes in proposals:
            dirty = bool(mine.side & {*team})
            fits[leader] += not dirty
            if votes:
                fits += [0.5 if vote != dirty else -0.5 for vote in votes]
        for kind, who, about in dict.fromkeys(talk):
            fits[who] += 1 if (kind == "suspect") == (about in mine.side) else -1
        return ranked(-fits, rng)[0]


MINDS: dict[str, Naive] = {"naive": Naive(), "reasoning": Reasoning()}
