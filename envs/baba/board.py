"""The rules of Baba Is AI: blocks form rules, and rules decide how objects act."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from agentgym.envs.grid.moves import Square

NOUNS = ("baba", "wall", "ball", "key", "door")
PROPERTIES = ("you", "win", "stop")
Piece = tuple[str, Square]
"""The word of a block or the name of an object, and its square."""
Rule = tuple[str, str]
"""A noun, and the property or noun that it is."""


@dataclass(frozen=True)
class Board:
    """A position of the game.

    Attributes:
        rows: number of rows.
        columns: number of columns.
        blocks: the blocks with a word. A square has at most one.
        objects: the objects. A square can have several, and a block on top of them.
    """

    rows: int
    columns: int
    blocks: tuple[Piece, ...]
    objects: tuple[Piece, ...]

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The active rules, in reading order."""
        return rules_of(self.blocks)

    def squares(self, word: str) -> list[Square]:
        """Returns the squares of the objects with a property, in the order of the objects."""
        names = {noun for noun, is_ in self.rules if is_ == word}
        return [square for name, square in self.objects if name in names]

    @property
    def won(self) -> bool:
        """Whether an object that is you shares its square with one that is win."""
        return not set(self.squares("you")).isdisjoint(self.squares("win"))

    @property
    def lost(self) -> bool:
        """Whether no object is you."""
        return not self.squares("you")

    def inside(self, square: Square) -> bool:
        """Whether a square is on the map."""
        return 0 <= square[0] < self.rows and 0 <= square[1] < self.columns


@lru_cache(maxsize=8192)
def rules_of(blocks: tuple[Piece, ...]) -> tuple[Rule, ...]:
    """Returns the rules that the blocks form: noun, `is`, property or noun, in a row or column."""
    words = {square: word for word, square in blocks}
    found: dict[Rule, None] = {}
    for row, column in sorted(square for square, word in words.items() if word == "is"):
        for down, right in ((0, 1), (1, 0)):
            noun = words.get((row - down, column - right), "")
            word = words.get((row + down, column + right), "is")
            if noun in NOUNS and word != "is":
                found[noun, word] = None
    return tuple(found)


def move(board: Board, step: Square) -> Board:
    """Returns the board after all objects that are you have moved.

    An object pushes the blocks in front of it. It stays if an edge or an object that is stop is in
    the way of it or of a block. Then the rules between nouns turn objects into others.
    """
    down, right = step
    at = {square: i for i, (_, square) in enumerate(board.blocks)}
    solid = set(board.squares("stop"))
    names = {noun for noun, word in board.rules if word == "you"}
    objects, moved = list(board.objects), False
    movers = [i for i, (name, _) in enumerate(objects) if name in names]
    # The foremost first, so that objects in a row do not push the same block twice.
    movers.sort(key=lambda i: -objects[i][1][0] * down - objects[i][1][1] * right)
    for i in movers:
        name, square = objects[i]
        to = ahead = square[0] + down, square[1] + right
        pushed: list[Square] = []
        while ahead in at and ahead not in solid:
            pushed.append(ahead)
            ahead = ahead[0] + down, ahead[1] + right
        if ahead in solid or not board.inside(ahead):
            continue
        for block in reversed(pushed):
            at[block[0] + down, block[1] + right] = at.pop(block)
        moved = moved or bool(pushed)
        objects[i] = name, to
    blocks = board.blocks
    if moved:
        places = {i: square for square, i in at.items()}
        blocks = tuple((word, places[i]) for i, (word, _) in enumerate(blocks))
    return Board(board.rows, board.columns, blocks, _turned(objects, rules_of(blocks)))


def _turned(objects: Iterable[Piece], rules: tuple[Rule, ...]) -> tuple[Piece, ...]:
    """Returns the objects after the rules between nouns. A noun that is itself does not change."""
    turns: dict[str, str] = {}
    for noun, word in rules:
        if word in NOUNS and (noun, noun) not in rules:
            turns.setdefault(noun, word)
    return tuple((turns.get(name, name), square) for name, square in objects)
