"""Generated levels of the kinds of Baba Is AI."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from agentgym.envs.baba.board import Board, Piece, Rule
from agentgym.envs.baba.solver import Goal, solution
from agentgym.envs.grid.moves import Square
from agentgym.tasks import draw_level, task_rng

KINDS = (
    "goto_win",
    "make_win",
    "two_room-goto_win",
    "two_room-make_win",
    "two_room-break_stop-goto_win",
    "two_room-break_stop-make_win",
    "two_room-make_you",
    "two_room-make_you-make_win",
    "two_room-make_wall_win",
)
GROUPS = {"mixed": KINDS[:5], "hard": KINDS[5:]}
"""Kinds that are sampled together."""


@dataclass(frozen=True)
class Level:
    """A board at the start and the plan that wins.

    Attributes:
        board: the board.
        plan: the rules to be made and broken, in order. The last step, to reach the object that is
            win, is not listed.
    """

    board: Board
    plan: tuple[Goal, ...]


@lru_cache(maxsize=256)
def level_of(task: str, kind: str) -> Level:
    """Returns the level of a task, of a kind or of a group of kinds."""
    rng = task_rng(task, "baba")
    kinds = GROUPS.get(kind, (kind,))
    name = kinds[int(rng.integers(len(kinds)))]
    while True:
        level = draw_level(task, lambda: _Draft(rng, name).level())
        if not level.board.won and solution(level.board, level.plan) is not None:
            return level


def area(rows: tuple[int, int], columns: tuple[int, int]) -> list[Square]:
    """Returns the squares of a rectangle, given by its first and last row and column."""
    return [(r, c) for r in range(rows[0], rows[1] + 1) for c in range(columns[0], columns[1] + 1)]


class _Draft:
    """A level in the making.

    Args:
        rng: samples everything.
        kind: one of `KINDS`.
    """

    def __init__(self, rng: np.random.Generator, kind: str):
        self.rng, self.kind = rng, kind
        self.blocks: dict[Square, str] = {}
        self.objects: list[Piece] = []
        order = rng.permutation(3).tolist()
        self.goal, self.other, self.absent = (("ball", "key", "door")[i] for i in order)
        self.plan: list[Goal] = []

    def level(self) -> Level:
        """Returns a level, which may be unsolvable."""
        two = self.kind.startswith("two_room")
        rows, columns = (7, 11) if two else (6, 6)
        if not two:
            self._one_room()
        elif "make_you" in self.kind:
            self._make_you()
        else:
            self._two_rooms()
        blocks = tuple((word, square) for square, word in sorted(self.blocks.items()))
        return Level(Board(rows, columns, blocks, tuple(sorted(self.objects))), tuple(self.plan))

    def _one_room(self) -> None:
        self._rule("baba", "you", (5, 0))
        self._win((0, 0), area((1, 4), (1, 4)))
        if self.rng.random() < 0.5:
            edge = [*area((0, 0), (3, 5)), *area((5, 5), (3, 5)), *area((1, 4), (5, 5))]
            self._block(self._distractor(), edge)
        everywhere = area((1, 5), (0, 5))
        self._objects(everywhere, everywhere)

    def _two_rooms(self) -> None:
        """Two rooms with a wall between them, which the rule "wall is stop" closes."""
        left, right = area((2, 4), (1, 4)), area((2, 4), (6, 9))
        corner = [*area((1, 5), (10, 10)), *area((6, 6), (7, 10))]
        wall = self.kind == "two_room-make_wall_win"
        self._walls()
        self._rule("baba", "you", (6, 0))
        self._rule("wall", "stop", (1, int(wall)))
        if wall:
            self._win((0, 8), corner, ("wall", "win"))
        else:
            self._win((0, 8), right)
        if self.rng.random() < 0.5:
            self._block(self._distractor(), corner if not wall else right)
        closed = wall or "break_stop" in self.kind
        if not closed:
            self._displace((1, 1 + int(self.rng.integers(2))), left)
        elif not wall:
            self.plan.insert(0, ("break", ("wall", "stop")))
        self._objects(left, area((1, 6), (6, 9)) if closed else area((0, 6), (0, 3)))

    def _make_you(self) -> None:
        """Two rooms, and an object behind the wall that must become you."""
        self._walls()
        self._rule("baba", "you", (5, 0))
        self._rule("wall", "stop", (0, 0))
        self._block(self.other, area((2, 4), (1, 3)))
        self._win((0, 8), area((2, 4), (7, 9)))
        self.plan.insert(0, ("make", (self.other, "you")))
        self._objects(area((2, 4), (1, 3)), area((1, 6), (6, 9)), other=True)

    def _walls(self) -> None:
        self.objects += [("wall", square) for square in area((0, 6), (5, 5))]

    def _rule(self, noun: str, word: str, start: Square) -> None:
        """Puts the blocks of a rule into a row."""
        row, column = start
        for i, text in enumerate((noun, "is", word)):
            self.blocks[row, column + i] = text

    def _win(self, start: Square, squares: Iterable[Square], rule: Rule | None = None) -> None:
        """Puts the rule of the goal, whose noun is elsewhere if the rule has to be made."""
        self._rule(self.goal, "win", start)
        if self.kind.endswith("goto_win") or self.kind == "two_room-make_you":
            return
        self._displace(start, squares)
        self.plan.append(("make", rule or (self.goal, "win")))

    def _distractor(self) -> str:
        return (self.other, self.absent)[int(self.rng.integers(2))]

    def _objects(
        self, near: Iterable[Square], far: Iterable[Square], *, other: bool = False
    ) -> None:
        """Puts Baba on a near square and the goal, with or without another object, on far ones."""
        self.objects.append(("baba", self._free(near)))
        self.objects.append((self.goal, self._free(far)))
        if other or self.rng.random() < 0.5:
            self.objects.append((self.other, self._free(far)))

    def _block(self, word: str, squares: Iterable[Square]) -> None:
        self.blocks[self._free(squares)] = word

    def _displace(self, square: Square, squares: Iterable[Square]) -> None:
        """Moves a block to one of the squares."""
        self.blocks[self._free(squares)] = self.blocks.pop(square)

    def _free(self, squares: Iterable[Square]) -> Square:
        """Samples a square without a block and an object."""
        taken = {*self.blocks, *(square for _, square in self.objects)}
        free = [square for square in squares if square not in taken]
        return free[int(self.rng.integers(len(free)))]
