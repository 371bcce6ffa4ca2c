"""The houses of TextNav: the published house and generated ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from agentgym.tasks import task_rng

GOAL = "stale food"
SOURCE, TARGET = "living room/table", "kitchen/fridge"
HELD, EATEN = "you", "eaten"
FOODS = (GOAL, "fresh food", "fruit")
CONTAINERS = ("chest", "fridge")
STEPS: dict[str, tuple[int, int]] = {"north": (0, 1), "south": (0, -1), "east": (1, 0)} | {
    "west": (-1, 0)
}
OPPOSITE = {"north": "south", "south": "north", "east": "west", "west": "east"}


@dataclass(frozen=True)
class World:
    """The constant parts of an episode.

    Attributes:
        exits: direction -> room, by room.
        fixtures: the table, chest or fridge of a room, by room.
        start: the agent's first room.
        items: the place of each item at the start. A place is a room (its floor), "room/fixture",
            `HELD` or `EATEN`.
    """

    exits: Mapping[str, Mapping[str, str]]
    fixtures: Mapping[str, str]
    start: str
    items: Mapping[str, str]


ORIGINAL = World(
    exits={
        "bedroom": {"south": "bathroom", "west": "living room"},
        "living room": {"east": "bedroom", "south": "office", "west": "dining room"},
        "bathroom": {"north": "bedroom", "west": "office"},
        "office": {"east": "bathroom", "north": "living room"},
        "dining room": {"east": "living room", "west": "kitchen"},
        "kitchen": {"east": "dining room", "north": "garden", "west": "backyard"},
        "garden": {"south": "kitchen"},
        "backyard": {"east": "kitchen"},
    },
    fixtures={
        "bedroom": "table",
        "living room": "table",
        "dining room": "table",
        "office": "chest",
        "kitchen": "fridge",
    },
    start="bedroom",
    items={
        GOAL: SOURCE,
        "fresh food": SOURCE,
        "bowl": "bedroom/table",
        "coffee cup": "dining room/table",
        "plate": "dining room/table",
        "utensils": "office/chest",
        "fruit": TARGET,
    },
)
"""The published game. Its tasks start in any room."""
ROOMS = (
    *("living room", "kitchen", "bedroom", "bathroom", "office", "dining room", "garden"),
    *("backyard", "cellar", "attic", "garage", "pantry", "hallway", "laundry room", "study"),
    "balcony",
)


@lru_cache(maxsize=512)
def generated_world(task: str, rooms: int) -> World:
    """Returns a house with connections, contents and start sampled from the task's name."""
    rng = task_rng(task, f"text_nav/{rooms}")
    names = [str(name) for name in rng.permutation(np.array(ROOMS[:rooms]))]
    where = {(0, 0): names[0]}
    exits: dict[str, dict[str, str]] = {name: {} for name in names}

    def connect(cell: tuple[int, int], direction: str) -> None:
        there = (cell[0] + STEPS[direction][0], cell[1] + STEPS[direction][1])
        exits[where[cell]][direction] = where[there]
        exits[where[there]][OPPOSITE[direction]] = where[cell]

    for name in names[1:]:
        free = [
            (cell, direction, (cell[0] + dx, cell[1] + dy))
            for cell in where
            for direction, (dx, dy) in STEPS.items()
            if (cell[0] + dx, cell[1] + dy) not in where
        ]
        cell, direction, there = free[int(rng.integers(len(free)))]
        where[there] = name
        connect(cell, direction)
    for cell in where:
        for direction in ("north", "east"):
            dx, dy = STEPS[direction]
            if (cell[0] + dx, cell[1] + dy) in where and rng.random() < 0.3:
                connect(cell, direction)
    fixtures = {"living room": "table", "kitchen": "fridge"}
    for name in names:
        if name not in fixtures and rng.random() < 0.5:
            fixtures[name] = ("table", "table", "chest")[int(rng.integers(3))]
    places = [f"{room}/{fixture}" for room, fixture in fixtures.items()]
    items = {item: places[int(rng.integers(len(places)))] for item in ORIGINAL.items}
    exits = {room: dict(sorted(ways.items())) for room, ways in exits.items()}
    start = names[int(rng.integers(rooms))]
    return World(exits, fixtures, start, {**items, GOAL: SOURCE})


class Distances:
    """Numbers of steps between rooms, and first steps of shortest paths."""

    def __init__(self, world: World):
        self.first: dict[str, dict[str, str]] = {room: {} for room in world.exits}
        self.steps: dict[str, dict[str, int]] = {}
        for goal in world.exits:
            found, queue = {goal: 0}, deque([goal])
            while queue:
                here = queue.popleft()
                for direction, there in world.exits[here].items():
                    if there not in found:
                        found[there] = found[here] + 1
                        self.first[there][goal] = OPPOSITE[direction]
                        queue.append(there)
            self.steps[goal] = found
