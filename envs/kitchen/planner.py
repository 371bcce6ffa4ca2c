"""The expert of the asynchronous kitchen: the longest remaining work is started first."""

from __future__ import annotations

import functools

from agentgym.envs.kitchen.rules import (
    ADDED,
    BOARD,
    BOILING,
    DISHES,
    FRYER,
    PROCESSES,
    SIMMER,
    SINK,
    SOURCES,
    STOVES,
    TABLE,
    Kitchen,
    kind_of,
)

APPLIANCES = {"board": (BOARD,), "fryer": (FRYER,), "sink": (SINK,), "stove": STOVES}
MAKERS = {process.result: key for key, process in PROCESSES.items()}
HANDLING = 3
"""Turns to carry a thing to the next station: pick up, move, place."""


@functools.cache
def steps(thing: str, goal: str) -> tuple[tuple[str, str], ...] | None:
    """Returns the processes that turn a thing into a goal: (kind of appliance, thing), in order.

    None: the goal cannot be made of this thing.
    """
    chain: list[tuple[str, str]] = []
    while goal != thing:
        if goal not in SOURCES:
            return None
        source = SOURCES[goal]
        chain.append(MAKERS[goal])
        goal = source
    return tuple(reversed(chain))


@functools.cache
def work_of(chain: tuple[tuple[str, str], ...]) -> int:
    """Returns the number of turns of processes, with carrying."""
    return sum(PROCESSES[key].turns + HANDLING for key in chain)


class Planner:
    """Chooses an action in a kitchen.

    Every open order gets a table. Every thing that an order lacks gets the most advanced thing in
    the kitchen that it can be made of. Of those whose next station is free, the one with the
    longest remaining work is carried first.

    Args:
        kitchen: the kitchen. It is not changed.
    """

    def __init__(self, kitchen: Kitchen):
        self.kitchen = kitchen
        self.tables = [station for station in kitchen.things if kind_of(station) == TABLE]
        self.next: dict[str, str] = {}
        self.goals: dict[str, str] = {}
        self.urgency: dict[str, float] = {}
        self._assign()

    def _assign(self) -> None:
        """Finds the table of each order and the thing for each goal.

        `self.goals` maps the place of a thing ("hand" or a station) to the thing it shall become,
        and `self.next` a table to the thing that has to be placed there next.
        """
        kitchen = self.kitchen
        places = {
            s: stack[-1] for s, stack in kitchen.things.items() if stack and s not in self.tables
        }
        if kitchen.hand:
            places["hand"] = kitchen.hand
        free = [*self.tables]
        for number, dish in enumerate(kitchen.orders):
            if not free:
                break
            table = max(free, key=lambda t: self._match(t, DISHES[dish]))
            free.remove(table)
            done = self._match(table, DISHES[dish])
            missing = DISHES[dish][max(done, 0) :]
            if done >= 0 and missing:
                self.next[table] = missing[0]
            for place, thing in enumerate(missing):
                self._claim(thing, places, number + place / 100)

    def _match(self, table: str, dish: tuple[str, ...]) -> int:
        """Returns the number of things of a dish on a table, -1 if others are on it."""
        stack = tuple(self.kitchen.things[table])
        return len(stack) if stack == dish[: len(stack)] else -1

    def _claim(self, goal: str, places: dict[str, str], order: float) -> None:
        """Finds the most advanced thing for a goal, and what it needs."""
        if not goal.startswith("bowl of "):
            self._take(goal, places, order)
            return
        if goal in places.values():
            self._take(goal, places, order)
            return
        soup = goal.removeprefix("bowl of ")
        name = soup.removesuffix(" soup")
        for thing in (f"pot of {soup}", f"pot with {name}"):
            if thing in places.values():
                place = next(p for p, found in places.items() if found == thing)
                del places[place]
                self._goal(place, f"pot of {soup}", 0.0 - order)
                break
        else:
            self._take(BOILING, places, order, extra=SIMMER + 2 * HANDLING)
            self._take(f"cut {name}", places, order, extra=SIMMER + HANDLING)
        self._take("bowl", places, order)

    def _take(self, goal: str, places: dict[str, str], order: float, extra: float = 0.0) -> None:
        best: tuple[int, str] | None = None
        for place, thing in places.items():
            chain = steps(thing, goal)
            if chain is not None and (best is None or len(chain) < best[0]):
                best = len(chain), place
        if best:
            chain = steps(places.pop(best[1]), goal)
            assert chain is not None
            self._goal(best[1], goal, work_of(chain) + extra - order)

    def _goal(self, place: str, goal: str, urgency: float) -> None:
        self.goals[place], self.urgency[place] = goal, urgency

    def action(self) -> str:
        """Returns the next action."""
        kitchen = self.kitchen
        if kitchen.hand:
            return self._go(*self._target())
        here, process = kitchen.at, kitchen.process(kitchen.at)
        options = kitchen.actions()
        if process and here in self.goals and kitchen.top(here) != self.goals[here]:
            work = f"{process.verb} {kitchen.top(here)}"
            if work in options and not process.attended:
                return work
        place = self._choose()
        if place is None:
            return "wait"
        if place == here and process and kitchen.top(here) != self.goals.get(here):
            return f"{process.verb} {kitchen.top(here)}"
        if place != here and self._unfinished(place):
            return f"move to {place}"
        return self._go(place, f"pick up {kitchen.top(place)}")

    def _go(self, station: str, action: str) -> str:
        return action if station == self.kitchen.at else f"move to {station}"

    def _unfinished(self, station: str) -> bool:
        """Returns whether the thing on an appliance is to be changed there by an action."""
        process = self.kitchen.process(station)
        wanted = self.goals.get(station, self.kitchen.top(station))
        return process is not None and self.kitchen.top(station) != wanted

    def _choose(self) -> str | None:
        """Returns the place to go to with empty hands, or None if there is nothing to do."""
        kitchen, found = self.kitchen, []
        for place in self.goals:
            if kitchen.running(place):
                continue
            ready = self._unfinished(place) or self._destination(place) is not None
            if ready:
                found.append((self.urgency[place] + (place == kitchen.at) * 0.5, place))
        if found:
            return max(found)[1]
        for table in self.tables:  # a stack that fits no order
            if kitchen.things[table] and table not in self.next and self._spare():
                return table
        blocked = {self._wanted(place) for place in self.goals if not kitchen.running(place)}
        for station in (BOARD, FRYER, SINK, *STOVES):
            if kitchen.things.get(station) and not kitchen.running(station):
                pot = kitchen.top(station).startswith("pot ") and station in self.goals
                if kind_of(station) in blocked and self._spare() and not pot:
                    return station
        return None

    def _wanted(self, place: str) -> str:
        """Returns the kind of appliance that the thing at a place needs next, "" for none."""
        thing = self.kitchen.hand if place == "hand" else self.kitchen.top(place)
        if thing == BOILING and kind_of(place) != "stove":
            return "stove"
        chain = steps(thing, self.goals[place])
        return chain[0][0] if chain else ""

    def _destination(self, place: str) -> tuple[str, str] | None:
        """Returns the station to which a thing can be carried now, and the action there."""
        kitchen, goal = self.kitchen, self.goals[place]
        thing = kitchen.hand if place == "hand" else kitchen.top(place)
        kind = self._wanted(place)
        if kind:
            for station in APPLIANCES[kind]:
                if station in kitchen.things and not kitchen.things[station] and station != place:
                    return station, f"place {thing}"
            return None
        for table, wanted in self.next.items():
            if wanted == goal:
                return table, f"place {thing}"
        for station in kitchen.things:
            top = kitchen.top(station)
            if thing in ADDED and top == BOILING and kind_of(station) == "stove":
                if self.goals.get(station) == top and f"bowl of {thing[4:]} soup" in self._soups():
                    return station, f"add {thing}"
            if thing == "bowl" and top.startswith("pot of ") and top.endswith(" soup"):
                return station, "fill bowl"
        return None

    def _soups(self) -> set[str]:
        return {thing for dish in self.kitchen.orders for thing in DISHES[dish]}

    def _spare(self) -> str | None:
        """Returns an empty counter, or the agent's own place if nothing better is empty."""
        empty = [s for s, stack in self.kitchen.things.items() if not stack]
        counters = [s for s in empty if kind_of(s) == "counter"]
        return counters[0] if counters else None

    def _target(self) -> tuple[str, str]:
        """Returns the station for the thing in the hand, and the action there."""
        thing = self.kitchen.hand
        if "hand" in self.goals and (found := self._destination("hand")):
            return found
        spare = self._spare()
        if spare is None:
            empty = [s for s, stack in self.kitchen.things.items() if not stack]
            spare = empty[0]
        return spare, f"place {thing}"


def plan(kitchen: Kitchen, limit: int = 300) -> list[str] | None:
    """Returns the expert's actions until all dishes are served, None if that takes too long."""
    kitchen, actions = kitchen.copy(), []
    while kitchen.orders or kitchen.later:
        if len(actions) == limit:
            return None
        action = Planner(kitchen).action()
        kitchen.act(action, kitchen.actions()[action])
        actions.append(action)
    return actions
