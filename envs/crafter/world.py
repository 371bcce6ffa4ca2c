"""The generated world of Crafter: its materials, its creatures, and where they are at the start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.tasks import task_rng

SIZE = 64
MATERIALS = {
    ".": "grass",
    "t": "tree",
    "w": "water",
    "s": "stone",
    "p": "path",
    "a": "sand",
    "c": "coal",
    "i": "iron",
    "d": "diamond",
    "l": "lava",
    "T": "table",
    "F": "furnace",
}
WALKABLE = ".pa"
HEALTH = {"cow": 3, "zombie": 5, "skeleton": 3, "arrow": 1, "plant": 1}
"""Health of each kind of creature at the start. Arrows and plants count as creatures."""
START = SIZE // 2, SIZE // 2
_DEVIATION = 0.325
"""Standard deviation of the noise, that of OpenSimplex noise."""

_OWN_DEVIATION = 0.224
"""Standard deviation of gradient noise with gradients of length 1."""

Spot = tuple[int, int]
Floats = NDArray[np.floating[Any]]


@dataclass
class Creature:
    """A creature, an arrow or a plant.

    Attributes:
        kind: one of `HEALTH`.
        x: column, from the west.
        y: row, from the north.
        health: remaining health.
        timer: turns until the next attack of a zombie or a skeleton, or the age of a plant.
        dx: direction of an arrow.
        dy: direction of an arrow.
    """

    kind: str
    x: int
    y: int
    health: int
    timer: int = 0
    dx: int = 0
    dy: int = 0


def noise(rng: np.random.Generator, across: float, down: float) -> Floats:
    """Returns smooth noise for every square, of shape (SIZE, SIZE): rows, columns.

    It is gradient noise ("An Image Synthesizer", Perlin 1985) with the deviation of OpenSimplex
    noise.

    Args:
        rng: source of the gradients.
        across: squares between two gradients in a row.
        down: squares between two gradients in a column.
    """
    columns, rows = np.arange(SIZE) / across, np.arange(SIZE) / down
    shift = rng.random(2)
    columns, rows = columns + shift[0], rows + shift[1]
    left, top = columns.astype(int), rows.astype(int)
    angles = rng.uniform(0, 2 * np.pi, (int(rows[-1]) + 2, int(columns[-1]) + 2))
    right, below = (columns - left)[None, :], (rows - top)[:, None]

    def corner(i: int, k: int) -> Floats:
        angle = angles[np.ix_(top + k, left + i)]
        return np.cos(angle) * (right - i) + np.sin(angle) * (below - k)

    ease_x, ease_y = (v * v * v * (v * (6 * v - 15) + 10) for v in (right, below))
    upper = corner(0, 0) + ease_x * (corner(1, 0) - corner(0, 0))
    lower = corner(0, 1) + ease_x * (corner(1, 1) - corner(0, 1))
    return (upper + ease_y * (lower - upper)) * (_DEVIATION / _OWN_DEVIATION)


def generate(task: str) -> tuple[list[str], list[Creature]]:
    """Returns the rows of a task's world, a character of `MATERIALS` per square, and its creatures.

    Layers, thresholds and densities are those of Crafter.
    """
    rng = task_rng(task, "crafter")
    squares, tunnels = _materials(rng)
    rows = ["".join(row) for row in squares.tolist()]
    return rows, _creatures(rng, squares, tunnels)


def _materials(rng: np.random.Generator) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
    """Returns the material of each square, and the squares that are tunnels."""

    def layer(across: float, down: float | None = None) -> Floats:
        return noise(rng, across, down or across)

    away = _distance()
    start = 1 / (1 + np.exp(-(4 - away + 2 * layer(3))))
    water = layer(15) + 0.15 * layer(5) + 0.1 - 2 * start
    mountain = (layer(15) + 0.3 * layer(5)) / 1.3 - 4 * start - 0.3 * water
    caves = layer(7)
    across, down = layer(1.5, 15), layer(15, 1.5)
    coal, iron, lava, beach, trees = layer(8), layer(6), layer(5), layer(9), layer(7)
    luck = rng.random((4, SIZE, SIZE))
    tunnels = (across > 0.4) | (down > 0.4)
    in_mountain = mountain > 0.15
    cave = (caves > 0.15) & (mountain > 0.3)
    forest = (trees > 0) & (luck[3] > 0.8)
    # The first condition that holds decides.
    squares = np.select(
        [
            start > 0.5,
            in_mountain & (cave | tunnels),
            in_mountain & (coal > 0) & (luck[0] > 0.85),
            in_mountain & (iron > 0.4) & (luck[1] > 0.75),
            (mountain > 0.18) & (luck[2] > 0.994),
            (mountain > 0.3) & (lava > 0.35),
            in_mountain,
            (water > 0.25) & (water <= 0.35) & (beach > -0.2),
            water > 0.3,
            forest,
        ],
        [".", "p", "c", "i", "d", "l", "s", "a", "w", "t"],
        ".",
    )
    return squares, in_mountain & tunnels & ~cave & (start <= 0.5)


def _distance() -> Floats:
    """Returns the distance of each square from the start."""
    steps = np.arange(SIZE)
    return np.hypot(steps[None, :] - START[0], steps[:, None] - START[1])


def _creatures(
    rng: np.random.Generator, squares: NDArray[np.str_], tunnels: NDArray[np.bool_]
) -> list[Creature]:
    """Returns the cows, zombies and skeletons of a new world."""
    away, luck = _distance(), rng.random((3, SIZE, SIZE))
    walkable = np.isin(squares, list(WALKABLE))
    cow = (away > 3) & (squares == ".") & (luck[0] > 0.985)
    zombie = walkable & (away > 10) & (luck[1] > 0.993) & ~cow
    skeleton = tunnels & (squares == "p") & (luck[2] > 0.95) & ~cow & ~zombie
    return [
        Creature(kind, int(x), int(y), HEALTH[kind])
        for kind, mask in (("cow", cow), ("zombie", zombie), ("skeleton", skeleton))
        for y, x in np.argwhere(mask)
    ]
