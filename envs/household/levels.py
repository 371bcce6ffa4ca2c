"""Levels: the receptacles of a home, the things in them, and a chore."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from agentgym.envs.household.things import (
    APPLIANCES,
    LAMP,
    SEEN,
    UNSEEN,
    kind_of,
    kinds,
    rooms,
)
from agentgym.tasks import task_number, task_rng

FAMILIES = ("pick", "look", "clean", "heat", "cool", "pick2")
"""The task families of ALFWorld, in the usual order of its result tables."""
HOMES = 120
"""Number of training homes. Test tasks of the seen split are other chores in these homes."""


@dataclass(frozen=True)
class Home:
    """A room with fixed receptacles.

    Attributes:
        room: the kind of room.
        receptacles: by name: "cabinet 1".
        seen: whether it is a training home.
    """

    room: str
    receptacles: tuple[str, ...]
    seen: bool

    @property
    def groups(self) -> str:
        """The groups of things found in the home."""
        return (SEEN | UNSEEN)[self.room]

    def of(self, kind: str) -> list[str]:
        """Returns the receptacles of a kind."""
        return [name for name in self.receptacles if kind_of(name) == kind]


@dataclass(frozen=True)
class Level:
    """A home with things in it and a chore.

    Attributes:
        home: the home.
        family: one of `FAMILIES`.
        kind: the kind of thing to handle.
        target: the kind of the target receptacle, or the lamp for the family "look".
        places: the initial place of each thing.
    """

    home: Home
    family: str
    kind: str
    target: str
    places: tuple[tuple[str, str], ...]


def make_home(name: str, seen: bool) -> Home:
    """Returns the home with a name, of a training kind or of an unseen kind."""
    rng = task_rng(name, "home")
    among = tuple(SEEN if seen else UNSEEN)
    room = among[task_number(name) % len(among)]
    counts = {kind: int(rng.integers(a, b + 1)) for kind, (a, b) in rooms()[room].items()}
    names = tuple(f"{kind} {i + 1}" for kind, count in counts.items() for i in range(count))
    return Home(room, names, seen)


def held_out(family: str, kind: str, target: str) -> bool:
    """Returns whether a chore is reserved for unseen homes (one in five is)."""
    return zlib.crc32(f"{family} {kind} {target}".encode()) % 5 == 0


def spots(home: Home, kind: str) -> list[str]:
    """Returns the receptacles of a home where a kind of thing can be at the start."""
    there = kinds()[kind].usual if home.seen else kinds()[kind].rare
    return [name for name in home.receptacles if kind_of(name) in there]


def found_in(home: Home) -> list[str]:
    """Returns the kinds of things that can be in a home."""
    return [k for k, v in kinds().items() if set(v.groups) & set(home.groups) and spots(home, k)]


@lru_cache(maxsize=4096)
def chores(home: Home, family: str) -> tuple[tuple[str, str], ...]:
    """Returns the possible chores of a family in a home: kinds of thing and of target."""
    there = {kind_of(name) for name in home.receptacles}
    if family in APPLIANCES and APPLIANCES[family] not in there:
        return ()
    if family == "look" and LAMP not in found_in(home):
        return ()
    pairs = []
    for kind in found_in(home):
        if kind == LAMP or (family in APPLIANCES and family not in kinds()[kind].treatments):
            continue
        targets = [LAMP] if family == "look" else kinds()[kind].fits
        for target in targets:
            elsewhere = any(kind_of(spot) != target for spot in spots(home, kind))
            possible = family == "look" or (target in there and elsewhere)
            if possible and held_out(family, kind, target) != home.seen:
                pairs.append((kind, target))
    return tuple(pairs)


def choose(rng: np.random.Generator, options: tuple | list):
    """Returns one of the options."""
    return options[int(rng.integers(len(options)))]


@lru_cache(maxsize=1024)
def make_level(task: str, family: str) -> Level:
    """Returns the level of a task, reproducible across machines.

    Args:
        task: "train/0", "test/0" (in training homes) or "unseen/0".
        family: one of `FAMILIES`, or "all" to sample one.
    """
    rng = task_rng(task, f"household {family}")
    if family == "all":
        family = choose(rng, FAMILIES)
    seen = not task.startswith("unseen/")
    while True:  # ends soon, since every family is possible in some kind of room
        number = int(rng.integers(HOMES if seen else 2**31 - 1))
        home = make_home(f"{'home' if seen else 'unseen home'}/{number}", seen)
        options = chores(home, family)
        if options:
            break
    kind, target = choose(rng, options)
    return Level(home, family, kind, target, furnish(rng, home, family, kind, target))


def furnish(
    rng: np.random.Generator, home: Home, family: str, kind: str, target: str
) -> tuple[tuple[str, str], ...]:
    """Returns the places of all things, so that the chore is possible and not done yet."""
    places = []
    for other in found_in(home):
        here = spots(home, other)
        if other == kind:
            here = [spot for spot in here if kind_of(spot) != target]
            count = int(rng.integers(2, 4)) if family == "pick2" else int(rng.integers(1, 3))
        elif other == LAMP:
            count = int(family == "look" or rng.random() < 0.5)
        else:
            count = int(rng.integers(0, 3))
        places += [(f"{other} {i + 1}", choose(rng, here)) for i in range(count)]
    return tuple(places)
