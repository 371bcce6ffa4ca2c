"""The state of Crafter: the world, the player and the recipes."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import cos, pi

from agentgym.envs.crafter.world import SIZE, START, Creature, Spot

DIRECTIONS: dict[str, Spot] = {"west": (-1, 0), "east": (1, 0), "north": (0, -1), "south": (0, 1)}
"""(x, y) steps."""
WAYS = tuple(DIRECTIONS.values())
VITALS = ("health", "food", "drink", "energy")
MOST = 9
"""Largest amount of an item and of a vital value."""
COLLECT = {
    "t": ("wood", "", "."),
    "s": ("stone", "wood pickaxe", "p"),
    "c": ("coal", "wood pickaxe", "p"),
    "i": ("iron", "stone pickaxe", "p"),
    "d": ("diamond", "iron pickaxe", "p"),
    "w": ("drink", "", "w"),
    ".": ("sapling", "", "."),
}
"""Material -> the item that it gives, the tool that it needs, and the material that it leaves."""
SAPLING_CHANCE = 0.1
PLACE = {
    "stone": ({"stone": 1}, ".apwl", "s"),
    "table": ({"wood": 2}, ".ap", "T"),
    "furnace": ({"stone": 4}, ".ap", "F"),
    "plant": ({"sapling": 1}, ".", ""),
}
"""Thing -> the items that it uses, the materials that it replaces, and its own material."""
MAKE = {
    "wood pickaxe": ({"wood": 1}, "T"),
    "stone pickaxe": ({"wood": 1, "stone": 1}, "T"),
    "iron pickaxe": ({"wood": 1, "coal": 1, "iron": 1}, "TF"),
    "wood sword": ({"wood": 1}, "T"),
    "stone sword": ({"wood": 1, "stone": 1}, "T"),
    "iron sword": ({"wood": 1, "coal": 1, "iron": 1}, "TF"),
}
"""Tool -> the items that it uses, and the materials that must be around the player."""
ITEMS = ("sapling", "wood", "stone", "coal", "iron", "diamond", *MAKE)
ACTIONS = (
    "noop",
    *(f"move {name}" for name in DIRECTIONS),
    "do",
    "sleep",
    *(f"place {name}" for name in PLACE),
    *(f"make {name}" for name in MAKE),
)
ACHIEVEMENTS = (
    *(f"collect {item}" for item in ("coal", "diamond", "drink", "iron", "sapling", "stone")),
    "collect wood",
    "defeat skeleton",
    "defeat zombie",
    "eat cow",
    "eat plant",
    *(f"make {name}" for name in MAKE),
    *(f"place {name}" for name in PLACE),
    "wake up",
)
RIPE = 300
"""Age of a plant after which it can be eaten."""


@dataclass
class State:
    """The world and the player.

    Attributes:
        rows: the materials, a character of `MATERIALS` per square.
        creatures: creatures, arrows and plants.
        x: column of the player, from the west.
        y: row of the player, from the north.
        dx: direction in which the player faces.
        dy: direction in which the player faces.
        items: the amounts of vital values and of items that are not 0.
        achieved: the achievements, in order.
        sleeping: whether the player sleeps.
        clock: number of turns played.
        hunger: turns since food fell. Sleep counts half, here and for thirst.
        thirst: turns since drink fell.
        fatigue: turns since energy fell, negative in sleep.
        recover: turns towards more health, negative towards less.
        before: health after the player's last turn.
    """

    rows: list[str]
    creatures: list[Creature]
    x: int = START[0]
    y: int = START[1]
    dx: int = 0
    dy: int = 1
    items: dict[str, int] = field(default_factory=lambda: dict.fromkeys(VITALS, MOST))
    achieved: list[str] = field(default_factory=list)
    sleeping: bool = False
    clock: int = 0
    hunger: float = 0.0
    thirst: float = 0.0
    fatigue: int = 0
    recover: float = 0.0
    before: int = MOST

    @property
    def daylight(self) -> float:
        """The brightness of the day, from 0 to 1. A day has 300 turns."""
        return 1 - abs(cos(pi * (self.clock / 300 % 1 + 0.3))) ** 3

    @property
    def front(self) -> Spot:
        """The square that the player faces."""
        return self.x + self.dx, self.y + self.dy

    def material(self, spot: Spot) -> str:
        """Returns the material of a square, or "" outside of the world."""
        x, y = spot
        return self.rows[y][x] if 0 <= x < SIZE and 0 <= y < SIZE else ""

    def put(self, spot: Spot, material: str) -> None:
        """Changes the material of a square."""
        x, y = spot
        row = self.rows[y]
        self.rows[y] = row[:x] + material + row[x + 1 :]

    def creature(self, spot: Spot) -> Creature | None:
        """Returns the creature on a square, or None."""
        x, y = spot
        return next((c for c in self.creatures if c.x == x and c.y == y), None)

    def has(self, needs: dict[str, int]) -> bool:
        """Whether the player has these items."""
        return all(self.items.get(name, 0) >= count for name, count in needs.items())

    def gain(self, name: str, count: int) -> None:
        """Adds to an amount, which stays between 0 and `MOST`. Items of amount 0 are removed."""
        amount = min(max(self.items.get(name, 0) + count, 0), MOST)
        if amount or name in VITALS:
            self.items[name] = amount
        else:
            self.items.pop(name, None)

    def achieve(self, name: str) -> None:
        """Notes an achievement."""
        if name not in self.achieved:
            self.achieved.append(name)

    def near(self) -> str:
        """Returns the materials of the nine squares around the player."""
        x = max(self.x - 1, 0)
        return "".join(row[x : self.x + 2] for row in self.rows[max(self.y - 1, 0) : self.y + 2])
