"""The picture of a kitchen."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from agentgym.envs.overcooked.kitchen import CHOPS, Square
from agentgym.rendering import Cell, Scene
from agentgym.rendering.scene import BLUE, BROWN, GOLD, GREEN, GREY, PALE, PURPLE, RED, Shape

ITEMS: dict[str, tuple[Shape, str]] = {
    "tomato": ("disc", RED),
    "lettuce": ("disc", GREEN),
    "onion": ("disc", PURPLE),
    "bowl": ("ring", BLUE),
    "bowl 1": ("ring", BLUE),
    "bowl 2": ("ring", BLUE),
}
"""Figure and colour of each item. A chopped food is a star."""
COUNTER, BOARD, DELIVERY, HIDDEN = "#d8c3a5", "#f2e9dc", GOLD, GREY


def picture(
    floor: Collection[Square],
    boards: Collection[Square],
    delivery: Square,
    items: Mapping[str, Square],
    chops: Mapping[str, int],
    cooks: Sequence[tuple[Square, str]],
    caption: str,
    seen: Collection[Square] | None = None,
) -> Scene:
    """Returns the picture of a kitchen.

    Args:
        floor: squares that can be walked on.
        boards: squares of the cutting boards.
        delivery: square of the delivery counter.
        items: square of each item that is neither held nor in a bowl.
        chops: chops of each food so far.
        cooks: square and held item ("" for none) of each cook.
        caption: text below.
        seen: squares that are shown with what is on them. None: all.
    """
    size = 1 + max(max(square) for square in (*floor, *boards, delivery, *items.values()))
    size = max(size, 2 + max(max(square) for square in floor))
    on = {square: name for name, square in items.items()}
    at = {square: (str(number), held) for number, (square, held) in enumerate(cooks)}

    def cell(square: Square) -> Cell:
        ground = PALE if square in floor else COUNTER
        ground = BOARD if square in boards else DELIVERY if square == delivery else ground
        label = "+" if square in boards else "out" if square == delivery else ""
        if seen is not None and square not in seen:
            return Cell(HIDDEN if square in floor else ground, label="?")
        if square in at:
            number, held = at[square]
            return Cell(ground, "box", BROWN, f"{number}{held[:1]}")
        if square not in on:
            return Cell(ground, label=label)
        shape, color = ITEMS[on[square]]
        done = chops.get(on[square], 0) >= CHOPS
        return Cell(ground, "star" if done else shape, color)

    rows = [[cell((row, column)) for column in range(size)] for row in range(size)]
    return Scene(rows, caption)
