"""Playing cards as cells of a scene."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentgym.rendering.scene import BLUE, INK, Cell, Scene

TABLE = "#2d6a4f"
"""The colour of the cloth under the cards."""


def card(label: str | None, color: str = INK) -> Cell:
    """Returns a card with its face up, or face down if `label` is None."""
    return Cell(TABLE, "card", BLUE if label is None else color, label or "")


def table(rows: Sequence[Sequence[Cell]], caption: str = "", columns: int = 1) -> Scene:
    """Returns a scene of cards.

    Args:
        rows: rows of `hand` or of other cells.
        caption: lines of text below.
        columns: the most cells of a row in an episode, so that cards keep their size.
    """
    return Scene(rows, caption, lines=False, ground=TABLE, columns=columns)


def hand(name: str, cards: Iterable[str | None]) -> list[Cell]:
    """Returns a row: the name of a player or pile, and its cards, None for one face down."""
    return [Cell(TABLE, color="#ffffff", label=name), *map(card, cards)]
