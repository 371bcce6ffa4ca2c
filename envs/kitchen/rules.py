"""Rules of the asynchronous kitchen: stations, food, and actions that take time."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import NamedTuple

TABLE, BOARD, FRYER, SINK = "table", "board", "fryer", "sink"
STOVES = ("stove 1", "stove 2")
STACK = 8
"""Things on a table at most."""
SIMMER = 4
"""Turns until a pot with an ingredient is soup."""
BOILING = "pot of boiling water"
ADDED = ("cut tomato", "cut onion")
"""Things that make soup of boiling water."""


class Process(NamedTuple):
    """A change of food at an appliance.

    Attributes:
        verb: name of the action that starts it, or continues it if `attended`.
        turns: number of turns.
        attended: whether each turn is an action of the agent. Otherwise it runs by itself.
        result: the thing at the end.
    """

    verb: str
    turns: int
    attended: bool
    result: str


@functools.cache
def kind_of(station: str) -> str:
    """Returns the kind of a station: "stove" for "stove 1"."""
    return station.split(" ")[0]


PROCESSES: dict[tuple[str, str], Process] = {
    **{("board", x): Process("cut", 3, True, f"cut {x}") for x in ("lettuce", "tomato", "onion")},
    ("board", "potato"): Process("cut", 3, True, "cut potato"),
    ("stove", "patty"): Process("cook", 6, False, "cooked patty"),
    ("stove", "egg"): Process("cook", 3, False, "fried egg"),
    ("fryer", "chicken"): Process("fry", 8, False, "fried chicken"),
    ("fryer", "cut potato"): Process("fry", 5, False, "fries"),
    ("sink", "pot"): Process("fill", 3, False, "pot of water"),
    ("stove", "pot of water"): Process("boil", 5, False, BOILING),
    **{
        ("stove", f"pot with {x}"): Process("simmer", SIMMER, False, f"pot of {x} soup")
        for x in ("tomato", "onion")
    },
}
"""What happens to a thing at a kind of appliance."""

DISHES: dict[str, tuple[str, ...]] = {
    "lettuce sandwich": ("bread", "cut lettuce", "bread"),
    "tomato sandwich": ("bread", "cut tomato", "cheese", "bread"),
    "egg sandwich": ("bread", "fried egg", "bread"),
    "burger": ("bun", "cooked patty", "cut onion", "bun"),
    "cheeseburger": ("bun", "cooked patty", "cheese", "cut lettuce", "bun"),
    "chicken sandwich": ("bread", "fried chicken", "cut tomato", "bread"),
    "fries": ("fries",),
    "tomato soup": ("bowl of tomato soup",),
    "onion soup": ("bowl of onion soup",),
}
"""Dishes: the things on the table, from the lowest to the highest."""

DISH_OF = {things: dish for dish, things in DISHES.items()}
SOURCES = {process.result: thing for (_, thing), process in PROCESSES.items()}


def raw(thing: str) -> list[str]:
    """Returns the raw things that are needed for a thing."""
    if thing.startswith("bowl of "):
        return ["pot", thing.removeprefix("bowl of ").removesuffix(" soup"), "bowl"]
    while thing in SOURCES:
        thing = SOURCES[thing]
    return [thing]


@dataclass
class Kitchen:
    """A kitchen at a turn.

    Attributes:
        at: station of the agent.
        hand: the thing in its hand, "" if there is none.
        things: the things on each station, from the lowest to the highest.
        left: turns until the thing on an appliance has changed. Appliances where nothing has been
            started are missing.
        orders: names of the dishes that have not been served.
        later: turn at which each dish is ordered that is not known yet.
        turn: number of turns so far.
        served: number of dishes served.
    """

    at: str
    hand: str
    things: dict[str, list[str]]
    left: dict[str, int] = field(default_factory=dict)
    orders: list[str] = field(default_factory=list)
    later: dict[str, int] = field(default_factory=dict)
    turn: int = 0
    served: int = 0

    def copy(self) -> Kitchen:
        """Returns an independent copy."""
        things = {station: [*stack] for station, stack in self.things.items()}
        return Kitchen(
            self.at, self.hand, things, {**self.left}, [*self.orders], {**self.later}, self.turn,
            self.served,
        )  # fmt: skip

    def top(self, station: str) -> str:
        """Returns the highest thing on a station, "" if it is empty."""
        stack = self.things[station]
        return stack[-1] if stack else ""

    def process(self, station: str) -> Process | None:
        """Returns the process of the thing on a station, if there is one."""
        return PROCESSES.get((kind_of(station), self.top(station)))

    def running(self, station: str) -> bool:
        """Returns whether the thing on a station changes by itself."""
        process = self.process(station)
        return station in self.left and process is not None and not process.attended

    def actions(self) -> dict[str, str]:
        """Returns the possible actions: name -> kind."""
        here, top = self.at, self.top(self.at)
        found = {f"move to {station}": "move" for station in self.things if station != here}
        table = kind_of(here) == TABLE
        if self.hand:
            if not top or (table and len(self.things[here]) < STACK):
                found[f"place {self.hand}"] = "place"
            if self.hand in ADDED and top == BOILING and kind_of(here) == "stove":
                found[f"add {self.hand}"] = "add"
            if self.hand == "bowl" and top.endswith(" soup") and top.startswith("pot of"):
                found["fill bowl"] = "ladle"
        else:
            if top and not self.running(here):
                found[f"pick up {top}"] = "pick up"
            process = self.process(here)
            if process and not self.running(here) and process.verb != "simmer":
                found[f"{process.verb} {top}"] = "work"
        found["wait"] = "wait"
        return found

    def act(self, action: str, kind: str) -> int:
        """Plays a possible action, and lets time pass. Returns the number of dishes served."""
        here = self.at
        stack = self.things[here]
        if kind == "move":
            self.at = action.removeprefix("move to ")
        elif kind == "place":
            stack.append(self.hand)
            self.hand = ""
        elif kind == "pick up":
            self.hand = stack.pop()
            self.left.pop(here, None)
        elif kind == "add":
            stack[-1] = f"pot with {self.hand[4:]}"
            self.left[here], self.hand = SIMMER + 1, ""
        elif kind == "ladle":
            self.hand = f"bowl of {stack[-1].removeprefix('pot of ')}"
            stack[-1] = "pot"
        elif kind == "work":
            self._work(here)
        return self._pass()

    def _work(self, station: str) -> None:
        process = self.process(station)
        assert process is not None
        if process.attended:
            self.left[station] = self.left.get(station, process.turns) - 1
            if not self.left[station]:
                self._finish(station)
        else:
            self.left[station] = process.turns + 1  # the turn of the action does not count

    def _finish(self, station: str) -> None:
        process = self.process(station)
        assert process is not None
        self.things[station][-1] = process.result
        del self.left[station]

    def _pass(self) -> int:
        """Lets a turn pass. Returns the number of dishes served."""
        self.turn += 1
        for station in [*self.left]:
            if self.running(station):
                self.left[station] -= 1
                if not self.left[station]:
                    self._finish(station)
        for dish in [dish for dish, turn in self.later.items() if turn <= self.turn]:
            self.orders.append(dish)
            del self.later[dish]
        before = self.served
        for station, stack in self.things.items():
            dish = DISH_OF.get(tuple(stack)) if kind_of(station) == TABLE else None
            if dish in self.orders:
                self.orders.remove(dish)
                stack.clear()
                self.served += 1
        return self.served - before
