"""Rules of Werewolf as functions of its state: nights, votes and the winner."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import compress

from agentgym.envs.social_deduction.deduction import DOCTOR, PLAYERS, ROLES, SEER, WOLF, Event

NOBODY = "nobody"


@dataclass
class State:
    """The roles, the living players, the phase and the history of the game.

    Attributes:
        roles: role of each player.
        alive: whether each player is alive.
        phase: "den" (all wolves but the last propose a victim), "night", "talk" or "vote".
        day: number of the night or day, from 1.
        spoken: rounds of talk completed today.
        proposal: victim proposed by the other wolf, or -1.
        guarded: player protected last by the doctor, or -1.
        seen: findings of the seer: whether a player is a wolf.
        log: public events as text, one line per event.
        events: public events for scripted players.
    """

    roles: list[str]
    alive: list[bool] = field(default_factory=lambda: [True] * len(PLAYERS))
    phase: str = "den"
    day: int = 1
    spoken: int = 0
    proposal: int = -1
    guarded: int = -1
    seen: dict[int, bool] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


def living(state: State, role: str | None = None) -> list[int]:
    """Returns the living players, optionally only those with a role."""
    if role is None:
        return [*compress(range(len(PLAYERS)), state.alive)]
    return [i for i, r in enumerate(state.roles) if r == role and state.alive[i]]


def winner(state: State) -> str | None:
    """Returns the winning team, "wolves" or "village", or None."""
    wolves = len(living(state, WOLF))
    if wolves == 0:
        return "village"
    return "wolves" if 2 * wolves >= sum(state.alive) else None


def bury(state: State, who: int, how: str) -> None:
    """Removes a player from the game and reveals its role."""
    state.alive[who] = False
    state.events.append(("dead", who, ROLES.index(state.roles[who])))
    state.log.append(f"{how}: {PLAYERS[who]}, who was {named(state.roles[who])}.")


def end_night(state: State, choices: dict[str, int]) -> None:
    """Applies the choices of the deciding wolf, the seer and the doctor, by role."""
    if SEER in choices:
        state.seen[choices[SEER]] = state.roles[choices[SEER]] == WOLF
    saved = choices.get(DOCTOR, -1)
    state.guarded = saved
    if choices[WOLF] == saved:
        state.log.append(f"Killed in night {state.day}: nobody.")
    else:
        bury(state, choices[WOLF], f"Killed in night {state.day}")
    state.phase, state.spoken, state.proposal = "talk", 0, -1


def end_vote(state: State, votes: dict[int, int]) -> None:
    """Counts the votes and eliminates the player with the most votes, unless tied. -1 is nobody."""
    cast = "; ".join(f"{PLAYERS[i]} for {label(j)}" for i, j in votes.items())
    state.log.append(f"Votes of day {state.day}: {cast}.")
    state.events += [("vote", i, j) for i, j in votes.items()]
    ranks = Counter(votes.values()).most_common(2)
    tied = len(ranks) > 1 and ranks[0][1] == ranks[1][1]
    out = -1 if tied else ranks[0][0]
    if out < 0:
        state.log.append(f"Voted out on day {state.day}: nobody.")
    else:
        bury(state, out, f"Voted out on day {state.day}")
    state.day += 1
    state.phase = "den" if len(living(state, WOLF)) > 1 else "night"


def named(role: str) -> str:
    """Returns a role with its article."""
    return f"{'the' if role in (SEER, DOCTOR) else 'a'} {role}"


def label(who: int) -> str:
    """Returns the name of a player, or "nobody" for -1."""
    return PLAYERS[who] if who >= 0 else NOBODY


def number(name: str) -> int:
    """Returns the index of a player's name, or -1 for "nobody"."""
    return PLAYERS.index(name) if name != NOBODY else -1
