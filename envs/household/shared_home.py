"""Two people with a common goal in a home: goals, views, commands, and a plan for each."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from agentgym.envs.household.expert import at_place, put_away, search
from agentgym.envs.household.household import a, listed, plural
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
from agentgym.envs.household.rules import (
    HAND,
    Command,
    State,
    apply,
    commands,
    parse,
    preposition,
    refusal,
)
from agentgym.envs.household.things import OPENABLE, kind_of
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


def understood(level: Level, state: State, action: str) -> Command:
    """Returns the command of a person's action.

    Raises:
        ValueError: if it is unknown, impossible or without effect. The message is for the person.
    """
    command = parse(action)
    if command is None:
        raise ValueError("Unknown command. The instructions list the commands.")
    if command not in commands(level, state):
        raise ValueError(refusal(level, state, command) or "That changes nothing.")
    return command


def act(mover: State, other: State, command: Command) -> str:
    """Applies a possible command, shows its effect to the other, and returns the feedback."""
    feedback = apply(mover, command)
    exchange = {HAND: OTHER, OTHER: HAND}
    other.places = {thing: exchange.get(place, place) for thing, place in mover.places.items()}
    other.opened = mover.opened
    if other.at and not other.closed(other.at):
        other.checked.add(other.at)
    return feedback


def goal_text(goals: tuple[Goal, ...], state: State) -> str:
    """Returns the goals, and the things that are not yet where they belong."""
    wanted = [f"{counted(k, n)} {preposition(target)} {a(target)}" for k, target, n in goals]
    left = [counted(kind, count) for kind, _, count in missing(goals, state)]
    return f"Your goal: {listed(wanted)}. Still missing: {listed(left)}."


def counted(kind: str, count: int) -> str:
    """Returns a number of things."""
    return f"{count} {plural(kind) if count > 1 else kind}"


def company_text(name: str, other: State, last: str) -> str:
    """Returns the place and the last command of the other person."""
    where = f"at {other.at}" if other.at else "in the middle of the room"
    did = f" and did this: {last}" if last else ""
    return f"Your {name} is {where}{did}."


def place_text(level: Level, me: State) -> str:
    """Returns the place of a person, the visible things and the thing in hand."""
    hand = f"You are holding {me.held or 'nothing'}."
    around = f"Around you: {listed(level.home.receptacles)}."
    if not me.at:
        return f"You are in the middle of {a(level.home.room)}. {around} {hand}"
    if me.closed(me.at):
        return f"You are at {me.at}. It is closed. {around} {hand}"
    is_open = " It is open." * (kind_of(me.at) in OPENABLE)
    where = preposition(me.at).capitalize()
    inside = listed(me.inside(me.at))
    return f"You are at {me.at}.{is_open} {where} it: {inside}. {around} {hand}"


def home_key(task: str, me: State, other: State, last: str) -> str:
    """Returns the complete state except the memory of `me`, with the other's last command."""
    places = [f"{thing}:{place}" for thing, place in me.places.items()]
    known = [*sorted(me.opened), "", *sorted(other.checked)]
    return "|".join([task, me.at, other.at, *places, *known, last])
