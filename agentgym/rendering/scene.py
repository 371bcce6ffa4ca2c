"""`Scene`: a grid of cells with colours, shapes and short labels, and a caption."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Shape = Literal[
    "", "disc", "ring", "cross", "box", "star", "up", "right", "down", "left", "bar", "card"
]
"""A figure in a cell: "up" to "left" are triangles that point there, "bar" spans the width."""

MOST_LINES = 12
"""Maximum number of lines of a caption."""
_COLOR = re.compile("#[0-9a-fA-F]{6}")

INK, PAPER = "#1f2430", "#f4f1ea"
BLUE, RED, GREEN, GOLD = "#2f6fb5", "#c8423b", "#3f9a56", "#e2a93b"
GREY, DARK, PALE, BROWN = "#9aa0a6", "#4b5260", "#dfe3e8", "#9b6b43"
ICE, WATER, PURPLE, PINK = "#d7ecf7", "#3a7ca5", "#7b5ea7", "#d98ca6"


@dataclass(frozen=True)
class Cell:
    """A cell of a scene.

    Attributes:
        ground: colour of the background, as "#rrggbb".
        shape: the figure on it.
        color: colour of the figure, or of the label if there is no figure.
        label: short text in the middle.
        width: width of a "bar" or "box", as a fraction of the cell.
    """

    ground: str = PAPER
    shape: Shape = ""
    color: str = INK
    label: str = ""
    width: float = 0.7

    def __post_init__(self) -> None:
        for color in (self.ground, self.color):
            if not _COLOR.fullmatch(color):
                raise ValueError(f"A colour is written as '#rrggbb', got {color!r}.")
        if "\n" in self.label:
            raise ValueError(f"A label is one line, got {self.label!r}.")


@dataclass(frozen=True)
class Scene:
    """A picture as data.

    Attributes:
        rows: the cells, from top to bottom. Short rows end early.
        caption: lines of text below.
        lines: whether cells have borders.
        ground: colour around the cells.
        columns: the least number of columns, so that cells keep their size in an episode.
    """

    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    lines: bool = True
    ground: str = PAPER
    columns: int = 1

    def __post_init__(self) -> None:
        if self.caption.count("\n") >= MOST_LINES:
            raise ValueError(f"A caption has at most {MOST_LINES} lines, got {self.caption!r:.80}.")

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        widest = max((len(row) for row in self.rows), default=0)
        return max(len(self.rows), 1), max(widest, self.columns)


def from_map(rows: Iterable[Iterable[str]], legend: Mapping[str, Cell], caption: str = "") -> Scene:
    """Returns the scene of a map of characters. One that the legend lacks is shown as a label."""
    cells = [[legend.get(mark) or Cell(label=mark) for mark in row] for row in rows]
    return Scene(cells, caption)
