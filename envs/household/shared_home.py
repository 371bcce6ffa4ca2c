"""Two people with a common goal in a home: goals, their hands and eyes, and a plan for each."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from agentgym.envs.household.expert import at_place, put_away, search
from agentgym.envs.household.levels import (
    HOMES,
    Home,
    Level,
    choose,
    chores,
    found_in,
    make_home,
    spots,
)
from agentgym.envs.household.rules import HAND, Command, State, apply
from agentgym.envs.household.things import kind_of
from agentgym.tasks import task_rng

OTHER = "other hand"
"""The place of a thing in the hand of the other person."""
WAIT: Command = ("look", "", "")
LONGEST = 200
"""Commands after which a person alone gives up."""

Goal = tuple[str, str, int]
"""Kind of thing, kind of receptacle, and the number of things to put there."""


@dataclass(frozen=True)
class Chores:
    """A goal, the home to reach it in, and a home where someone was watched.

    Attributes:
        goals: the things to put, and where.
        level: the home and the places of its things.
        watched: the commands that moved things in the other home.
        alone: number of commands that the partner needs without help.
    """

    goals: tuple[Goal, ...]
    level: Level
    watched: tuple[Command, ...]
    alone: int


@lru_cache(maxsize=1024)
def make_chores(task: str) -> Chores:
    """Returns the chores of a task, reproducible across machines."""
    rng = task_rng(task, "watch and help")
    while True:  # ends soon, since most homes have many chores
        home, other = (make_home(f"home/{int(rng.integers(HOMES))}", True) for _ in range(2))
        both = [pair for pair in chores(home, "pick") if pair in chores(other, "pick")]
        if home == other or not both:
            continue
        first, second = choose(rng, both), choose(rng, both)
        if first[0] != second[0] and reserved(first, second) == task.startswith("test/"):
            break
    goals = tuple((kind, target, int(rng.integers(1, 3))) for kind, target in (first, second))
    watched = tuple(c for c in alone(_level(rng, other, goals), goals) if c[0] in ("take", "put"))
    level = _level(rng, home, goals)
    return Chores(goals, level, watched, len(alone(level, goals)))


def reserved(first: tuple[str, str], second: tuple[str, str]) -> bool:
    """Returns whether two chores, in any order, are the goal of test tasks only (one in five)."""
    return zlib.crc32(" ".join(sorted(first + second)).encode()) % 5 == 0


def _level(rng: np.random.Generator, home: Home, goals: tuple[Goal, ...]) -> Level:
    """Returns a home with enough things in it, none of them where it belongs."""
    wanted = {kind: (target, count) for kind, target, count in goals}
    places = []
    for kind in found_in(home):
        target, count = wanted.get(kind, ("", int(rng.integers(0, 2))))
        here = [spot for spot in spots(home, kind) if kind_of(spot) != target]
        places += [(f"{kind} {i + 1}", choose(rng, here)) for i in range(count)]
    return Level(home, "pick", goals[0][0], goals[0][1], tuple(places))


def alone(level: Level, goals: tuple[Goal, ...]) -> list[Command]:
    """Returns the commands of a person who reaches the goals without help."""
    state, played = State(at="", places=dict(level.places)), []
    while missing(goals, state) and len(played) < LONGEST:
        played.append(plan(level, state, goals))
        apply(state, played[-1])
    return played


def missing(goals: tuple[Goal, ...], state: State) -> list[Goal]:
    """Returns the goals that are not reached, with the number of things that are missing."""
    left = []
    for kind, target, count in goals:
        put = sum(
            kind_of(thing) == kind and kind_of(place) == target
            for thing, place in state.places.items()
        )
        left += [(kind, target, count - put)] * (put < count)
    return left


def plan(level: Level, state: State, goals: tuple[Goal, ...]) -> Command:
    """Returns the next command of a person who knows the goals and their own observations.

    A thing in the other's hand counts as put where it belongs.
    """
    left = missing(goals, state)
    carried = {kind_of(thing) for thing, place in state.places.items() if place == OTHER}
    left = [(k, t, n - (k in carried)) for k, t, n in left if n > (k in carried)]
    held = kind_of(state.held)
    if held:
        target = next((target for kind, target, _ in left if kind == held), "")
        if not target:
            return put_away(level, state)
        place = min(level.home.of(target), key=lambda name: (name != state.at, state.closed(name)))
        return at_place(state, ("put", state.held, place))
    if not left:
        return WAIT
    known = [
        (thing, place)
        for kind, target, _ in left
        for thing, place in state.places.items()
        if kind_of(thing) == kind and kind_of(place) != target and place in state.checked
    ]
    if known:
        thing, place = min(known, key=lambda pair: pair[1] != state.at)
        return at_place(state, ("take", thing, place))
    if {*level.home.receptacles} <= state.checked:
        return WAIT
    return search(level, state, left[0][0])


def follow(level: Level, mover: State, other: State) -> None:
    """Shows the other person the effect of a command on the home."""
    exchange = {HAND: OTHER, OTHER: HAND}
    other.places = {thing: exchange.get(place, place) for thing, place in mover.places.items()}
    other.opened = mover.opened
    if other.at and not other.closed(other.at):
        other.checked.add(other.at)
