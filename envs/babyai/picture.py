"""The picture of a level of BabyAI."""

from __future__ import annotations

from agentgym.envs.babyai.view import COLOURS, EMPTY, KINDS, MARGIN, NAMES, Map
from agentgym.rendering import Cell, Scene
from agentgym.rendering.scene import BLUE, DARK, GOLD, GREEN, GREY, PURPLE, RED, Shape

PAINT = dict(zip(COLOURS, (RED, GREEN, BLUE, PURPLE, GOLD, GREY), strict=True))
SHAPES: dict[str, Shape] = {
    "key": "star",
    "ball": "disc",
    "box": "box",
    "goal": "ring",
    "lava": "cross",
}
FACING: tuple[Shape, ...] = ("right", "down", "left", "up")


def picture(level: Map) -> Scene:
    """Returns the whole level, with the agent as a triangle that points in its direction."""
    height = len(level.cells) // level.width
    rows = []
    for y in range(height - 2 * MARGIN):
        first = level.index(0, y)
        codes = level.cells[first : first + level.width - 2 * MARGIN]
        rows.append([_cell(code) for code in codes])
    y, x = divmod(level.position, level.width)
    rows[y - MARGIN][x - MARGIN] = Cell(shape=FACING[level.direction], color=RED)
    carried = "" if level.carrying == EMPTY else f"carries the {NAMES[level.carrying]}"
    return Scene(rows, carried or "carries nothing")


def _cell(code: int) -> Cell:
    """Returns the cell of a code of `view.code`."""
    kind, color, state = KINDS[code // 18], PAINT[COLOURS[code // 3 % 6]], code % 3
    if kind == "wall":
        return Cell(DARK)
    if kind == "door":  # open, closed, locked
        label = ("", "", "L")[state]
        return Cell(shape="ring" if state == 0 else "box", color=color, label=label, width=0.9)
    return Cell(shape=SHAPES[kind], color=color) if kind in SHAPES else Cell()
