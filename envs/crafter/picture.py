"""The picture of Crafter: what the player sees, its vital values and its items."""

from __future__ import annotations

from agentgym.envs.crafter.state import ITEMS, VITALS, State
from agentgym.envs.crafter.world import Spot
from agentgym.rendering import Cell, Scene
from agentgym.rendering.scene import (
    BROWN,
    DARK,
    GREEN,
    GREY,
    INK,
    PALE,
    RED,
    WATER,
    Shape,
)

GRASS, SAND, PATH, LEAVES, LAVA, RUST = (
    *("#8fbc6f", "#eadfae", "#c8b08a", "#2d6a4f", "#e76f51", "#d9a48f"),
)
GROUND = {
    ".": Cell(GRASS),
    "t": Cell(GRASS, "up", LEAVES),
    "w": Cell(WATER),
    "s": Cell(GREY),
    "p": Cell(PATH),
    "a": Cell(SAND),
    "c": Cell(GREY, "disc", INK),
    "i": Cell(GREY, "disc", RUST),
    "d": Cell(GREY, "star", "#ffffff"),
    "l": Cell(LAVA),
    "T": Cell(GRASS, "box", BROWN),
    "F": Cell(GRASS, "box", DARK),
    "": Cell(INK),
}
"""The cell of each material. Outside of the world it is dark."""
CREATURES: dict[str, tuple[Shape, str]] = {
    "cow": ("box", BROWN),
    "zombie": ("box", GREEN),
    "skeleton": ("box", PALE),
    "arrow": ("cross", BROWN),
    "plant": ("star", GREEN),
}
"""Figure and colour of each kind of creature."""
FACING: dict[Spot, Shape] = {(1, 0): "right", (0, 1): "down", (-1, 0): "left", (0, -1): "up"}


def picture(state: State, across: int, down: int) -> Scene:
    """Returns the squares up to `across` to the sides of the player and `down` above and below."""
    rows = [
        [_square(state, (x, y)) for x in range(state.x - across, state.x + across + 1)]
        for y in range(state.y - down, state.y + down + 1)
    ]
    values = ", ".join(f"{name} {state.items[name]}" for name in VITALS)
    held = ", ".join(f"{name} {state.items[name]}" for name in ITEMS if name in state.items)
    return Scene(rows, f"{values}\n{held or 'no items'}", lines=False)


def _square(state: State, spot: Spot) -> Cell:
    ground = GROUND[state.material(spot)]
    if spot == (state.x, state.y):
        return Cell(ground.ground, FACING[state.dx, state.dy], RED)
    creature = state.creature(spot)
    if creature is None:
        return ground
    shape, color = CREATURES[creature.kind]
    return Cell(ground.ground, shape, color, creature.kind[0])
