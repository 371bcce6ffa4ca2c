"""Kinds of dynamics: functions that draw the rules of a world."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from agentgym.envs.worlds.rules import Case, Rules

COLORS = ("red", "green", "blue", "white", "black", "yellow", "brown", "grey")
ROOMS = (
    "hall",
    "cellar",
    "attic",
    "kitchen",
    "library",
    "stable",
    "tower",
    "garden",
    "study",
    "shed",
)
ITEMS = ("bell", "coin", "fig", "key", "shell")


def _some(rng: np.random.Generator, words: tuple[str, ...], count: int) -> list[str]:
    return [words[int(i)] for i in rng.permutation(len(words))[:count]]


def dials(rng: np.random.Generator) -> Rules:
    """Dials in a circle of numbers. Each knob turns one or two of them."""
    names = [f"{color} dial" for color in _some(rng, COLORS, int(rng.integers(3, 5)))]
    places = int(rng.integers(3, 6))
    actions = {}
    for name in names:
        also = names[int(rng.integers(len(names)))]
        turned = {also: int(rng.choice((-1, 1))), name: int(rng.choice((-1, 1)))}
        actions[f"turn {name}"] = (Case(add=turned),)
    values = tuple(map(str, range(places)))
    about = "A panel has dials. A knob may turn another dial with its own."
    return Rules(about, dict.fromkeys(names, values), actions, tuple(names))


def levers(rng: np.random.Generator) -> Rules:
    """Levers that can be pulled only while another one is in a certain place."""
    names = [f"{color} lever" for color in _some(rng, COLORS, int(rng.integers(4, 6)))]
    values = ("up", "down")
    actions = {f"pull {names[0]}": (Case(add={names[0]: 1}),)}
    for i, name in enumerate(names[1:], 1):
        before = names[int(rng.integers(i))]
        when = {before: (values[int(rng.integers(2))],)}
        actions[f"pull {name}"] = (Case(when, add={name: 1}),)
    about = "A gate has levers. Some are stuck until another one is in the right place."
    return Rules(about, dict.fromkeys(names, values), actions, tuple(names))


def rooms(rng: np.random.Generator) -> Rules:
    """Rooms with doors of several colours that lead to other rooms, and a light in one of them."""
    names = _some(rng, ROOMS, int(rng.integers(7, 11)))
    actions = {}
    for color in _some(rng, COLORS, 2):
        ahead = [names[int(i)] for i in rng.permutation(len(names))]
        doors = {room: to for room, to in zip(names, ahead, strict=True) if room != to}
        cases = (Case({"room": (room,)}, put={"room": to}) for room, to in doors.items())
        actions[f"{color} door"] = tuple(cases)
    lamp = Case({"room": (names[int(rng.integers(1, len(names)))],)}, add={"light": 1})
    actions["press switch"] = (lamp,)
    about = "A house has doors of several colours, which lead one way, and a switch in one room."
    variables = {"room": tuple(names), "light": ("off", "on")}
    return Rules(about, variables, actions, tuple(variables))


def row(rng: np.random.Generator) -> Rules:
    """A row of different items, which actions put in another order."""
    count = int(rng.integers(4, 6))
    items = tuple(_some(rng, ITEMS, count))
    places = [f"place {i + 1}" for i in range(count)]
    orders = {
        "rotate row": [*range(1, count), 0],
        "swap first two": [1, 0, *range(2, count)],
        "swap last two": [*range(count - 2), count - 1, count - 2],
        "reverse row": [*reversed(range(count))],
    }
    chosen = [[*orders][int(i)] for i in rng.permutation(len(orders))[: int(rng.integers(2, 5))]]
    actions = {
        name: (Case(copy={places[i]: places[j] for i, j in enumerate(orders[name]) if i != j}),)
        for name in orders
        if name in chosen
    }
    # The values of a place begin with its own item, so that the first state is a row of all.
    variables = {place: items[i:] + items[:i] for i, place in enumerate(places)}
    return Rules("Items lie in a row.", variables, actions, tuple(places))


def island(rng: np.random.Generator) -> Rules:
    """A grid with a chest that can be opened in one field, and blocked fields."""
    size = int(rng.integers(3, 6))
    values = tuple(str(i + 1) for i in range(size))
    fields = [(y, x) for y in values for x in values]
    chest, *blocked = [fields[int(i)] for i in rng.permutation(len(fields))[:3] if i]
    actions = {}
    for name, (axis, by) in {
        "north": ("row", -1),
        "south": ("row", 1),
        "west": ("column", -1),
        "east": ("column", 1),
    }.items():
        inside = values[1:] if by < 0 else values[:-1]
        cases = []
        for y, x in blocked:
            line, place = (y, x)[axis == "column"], {"row": (y,), "column": (x,)}
            if values.index(line) - by in range(size):
                place[axis] = (values[values.index(line) - by],)
                cases.append(Case(place))
        actions[name] = (*cases, Case({axis: inside}, add={axis: by}))
    here = {"row": (chest[0],), "column": (chest[1],)}
    actions["use chest"] = (Case(here, add={"chest": 1}),)
    variables = {"row": values, "column": values, "chest": ("closed", "open")}
    return Rules("An island has a chest and some rocks.", variables, actions, tuple(variables))


KINDS: dict[str, Callable[[np.random.Generator], Rules]] = {
    "dials": dials,
    "levers": levers,
    "rooms": rooms,
    "row": row,
    "island": island,
}
"""The kinds of dynamics by name."""
MOST_TURNS = {"dials": 100, "levers": 150, "rooms": 100, "row": 100, "island": 300}
"""Largest turn limit of each kind. With more turns, random actions reach most of its goals."""
