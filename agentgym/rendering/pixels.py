"""`draw`: a scene as pixels, by Pillow and its built-in font."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from agentgym.errors import MissingExtraError
from agentgym.rendering.scene import INK, Cell, Scene

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

SIZE = 256
"""Height and width of all pictures, in pixels."""
FINER = 2
"""Pictures are drawn this many times as large, and reduced."""
LINE = 14
"""Height of a line of the caption, in pixels."""
BORDER = "#c9c4b8"

Box = tuple[float, float, float, float]
"""Left, top, right and bottom."""


@functools.cache
def _pillow() -> Any:
    """Returns the modules of Pillow.

    Raises:
        MissingExtraError: if it is not installed.
    """
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as error:
        raise MissingExtraError("render_mode='rgb_array'", "render", "PIL") from error
    return Image, ImageDraw, ImageFont


@functools.cache
def _font(size: int) -> Any:
    return _pillow()[2].load_default(size)


def draw(scene: Scene) -> np.ndarray:
    """Returns the picture of a scene, uint8 (SIZE, SIZE, 3). Equal scenes have equal pictures.

    Raises:
        MissingExtraError: if Pillow is not installed.
    """
    image_module, draw_module, _ = _pillow()
    whole = SIZE * FINER
    image = image_module.new("RGB", (whole, whole), scene.ground)
    pen = draw_module.Draw(image)
    lines = scene.caption.split("\n") if scene.caption else []
    free = whole - FINER * LINE * len(lines)
    rows, columns = scene.shape
    side = min(free / rows, whole / columns)
    left, top = (whole - side * columns) / 2, (free - side * rows) / 2
    for r, row in enumerate(scene.rows):
        for c, cell in enumerate(row):
            x, y = left + c * side, top + r * side
            _draw_cell(pen, cell, (x, y, x + side, y + side), scene.lines)
    for number, line in enumerate(lines):
        middle = (whole / 2, free + FINER * LINE * (number + 0.5))
        _write(pen, line, middle, whole, FINER * (LINE - 3), _ink_on(scene.ground))
    small = image.resize((SIZE, SIZE), image_module.Resampling.BOX)
    return np.asarray(small, dtype=np.uint8).copy()


def _draw_cell(pen: ImageDraw, cell: Cell, box: Box, lines: bool) -> None:
    pen.rectangle(box, fill=cell.ground, outline=BORDER if lines else None)
    left, top, right, bottom = box
    side = right - left
    middle = (left + right) / 2, (top + bottom) / 2
    _draw_shape(pen, cell, middle, side)
    ink = cell.color
    if cell.shape not in ("", "ring", "card"):  # written on the figure
        ink = _ink_on(cell.color)
    size = side * (0.5 if cell.shape in ("", "card") else 0.36)
    _write(pen, cell.label, middle, side * (0.9 if not cell.shape else 0.6), size, ink)


def _draw_shape(pen: ImageDraw, cell: Cell, middle: tuple[float, float], side: float) -> None:
    """Draws the figure of a cell around its middle."""
    x, y = middle
    r, color = 0.36 * side, cell.color
    if cell.shape == "disc":
        pen.ellipse((x - r, y - r, x + r, y + r), fill=color)
    elif cell.shape == "ring":
        pen.ellipse((x - r, y - r, x + r, y + r), outline=color, width=max(2, round(side / 9)))
    elif cell.shape == "cross":
        width = max(2, round(side / 9))
        pen.line((x - r, y - r, x + r, y + r), fill=color, width=width)
        pen.line((x - r, y + r, x + r, y - r), fill=color, width=width)
    elif cell.shape == "box":
        half = cell.width * side / 2
        pen.rectangle((x - half, y - half, x + half, y + half), fill=color)
    elif cell.shape == "bar":
        half = cell.width * side / 2
        pen.rectangle((x - half, y - 0.42 * side, x + half, y + 0.42 * side), fill=color)
    elif cell.shape == "card":
        face = (x - 0.32 * side, y - 0.42 * side, x + 0.32 * side, y + 0.42 * side)
        fill = "#ffffff" if cell.label else color
        pen.rounded_rectangle(
            face, side / 12, fill=fill, outline="#ffffff", width=max(1, round(side / 30))
        )
    elif cell.shape == "star":
        turns = np.pi * (np.arange(10) / 5 - 0.5)
        reach = np.where(np.arange(10) % 2, 0.4 * r, 1.1 * r)
        points = zip(x + reach * np.cos(turns), y + reach * np.sin(turns), strict=True)
        pen.polygon([(float(a), float(b)) for a, b in points], fill=color)
    elif cell.shape:
        pen.polygon(_triangle(cell.shape, x, y, r), fill=color)


def _triangle(towards: str, x: float, y: float, r: float) -> list[tuple[float, float]]:
    turn = {"right": 0.0, "down": 0.5, "left": 1.0, "up": 1.5}[towards] * np.pi
    corners = turn + np.array([0.0, 0.75 * np.pi, 1.25 * np.pi])
    return [(float(x + r * np.cos(a)), float(y + r * np.sin(a))) for a in corners]


def _write(
    pen: ImageDraw, text: str, middle: tuple[float, float], room: float, size: float, ink: str
) -> None:
    """Writes a text around a point, smaller if it is wider than the room."""
    if not text:
        return
    size = max(6, round(size))
    width = pen.textlength(text, font=_font(size))
    if width > room:
        size = max(6, int(size * room / width))
    pen.text(middle, text, font=_font(size), fill=ink, anchor="mm")


def _ink_on(color: str) -> str:
    """Returns the colour of a text that can be read on a colour."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return "#ffffff" if 0.3 * red + 0.6 * green + 0.1 * blue < 150 else INK
