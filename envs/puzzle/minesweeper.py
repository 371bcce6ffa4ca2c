"""Minesweeper: open all cells without a mine."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agentgym.core import TextEnv, TurnLimit
from agentgym.envs.puzzle.mines import (
    cells,
    constraints,
    deduce,
    neighbours,
    opened_with,
    risks,
    solvable,
)
from agentgym.rendering import Cell, Scene, from_map
from agentgym.rendering.scene import BLUE, DARK, GREEN, GREY, INK, PALE, PURPLE, RED
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import plain
from agentgym.utils.marks import undressed

_VERB = r"\s*(?:(?:open|reveal|uncover|click)\s*)?(?:(?:the )?(?:cell|square)\s*)?(?:at\s*)?"
_ROW = r"(?:row|r)\s*[=:]?\s*([0-9]{1,2})"
_COLUMN = r"(?:column|col|c)\s*[=:]?\s*([0-9]{1,2})"
_AND = r"\s*(?:,|;|\band\b|,\s*and\b)?\s*"
OPEN = tuple(
    re.compile(rf"{_VERB}\(?\s*{cell}\s*\)?\s*", re.IGNORECASE)
    for cell in (r"([0-9]{1,2})\s*[,\s]\s*([0-9]{1,2})", _ROW + _AND + _COLUMN)
)
"""Row and column, without names or with both of them."""
OPEN_COLUMN = re.compile(rf"{_VERB}\(?\s*{_COLUMN}{_AND}{_ROW}\s*\)?\s*", re.IGNORECASE)
"""The column before the row."""
SIZES = range(4, 31)
LARGEST = 480
"""Cells of the largest field (the classic expert field). Larger ones are too slow to analyse."""
SOLVABLE = (16, 0.2)
"""Largest side and share of mines for which solvable fields are found quickly."""


@dataclass
class State:
    """Mines (none before the first cell is opened) and open cells, as bit sets."""

    mines: int = 0
    opened: int = 0

    @property
    def safe(self) -> int:
        """The open cells without a mine."""
        return self.opened & ~self.mines

    @property
    def struck(self) -> int:
        """The opened mine of a lost game, or 0."""
        return self.opened & self.mines


def lay_mines(task: str, first: int, shape: tuple[int, int], mines: int, must_solve: bool) -> int:
    """Returns the mines of a task. The first opened cell and its neighbours have none.

    Args:
        task: name of the task.
        first: the cell opened first.
        shape: rows and columns.
        mines: number of mines.
        must_solve: whether deduction must suffice to open all safe cells.
    """
    near = neighbours(*shape)
    rng = task_rng(task, f"minesweeper {first}")
    allowed = [cell for cell in range(len(near)) if cell != first and not near[first] >> cell & 1]
    while True:
        laid = sum(1 << allowed[i] for i in rng.permutation(len(allowed))[:mines].tolist())
        if not must_solve or solvable(first, near, laid):
            return laid


def cell_of(action: str) -> tuple[int, int]:
    """Returns the row and column, from 0, of the cell that an action opens, else (-1, -1).

    Rows and columns have their names ("open row 3, column 2"), or stand in this order.
    """
    text = plain(undressed(action[:100]))
    if swapped := OPEN_COLUMN.fullmatch(text):
        return int(swapped[2]) - 1, int(swapped[1]) - 1
    found = next(filter(None, (form.fullmatch(text) for form in OPEN)), None)
    return (int(found[1]) - 1, int(found[2]) - 1) if found else (-1, -1)


COUNTS = (BLUE, GREEN, RED, PURPLE, DARK, DARK, DARK, INK)
"""The colours of the numbers 1 to 8."""
LEGEND = {
    "#": Cell(GREY),
    "*": Cell(RED, "disc", INK),
    ".": Cell(PALE),
    **{str(n): Cell(PALE, color=color, label=str(n)) for n, color in enumerate(COUNTS, 1)},
}
"""The cells of the picture."""


class Minesweeper(TextEnv):
    """Open all cells without a mine, guided by the numbers of adjacent mines.

    ## Description
    Minesweeper without flags, so known mines must be remembered or derived again. The first opened
    cell and its neighbours hold no mines. With `solvable`, no guess is needed. Every such field can
    be opened by using one number at a time, or two numbers of which one's cells contain the
    other's. The total number of mines counts as a number.

    ## Action Space
    Text: `open 3 5`, for row 3, column 5.

    ## Observation Space
    Text: the field. `#` is a closed cell, a number is the count of mines in the 8 cells around, and
    `.` stands for 0. `*` is the opened mine of a lost game, or a mine of a won one.

    ## Rewards
    1 (term `task`) when all safe cells are open, else 0.

    ## Starting State
    All cells are closed. The task and the first opened cell determine the mines.

    ## Episode End
    Termination: all safe cells are open, or a mine is opened. Truncation: after `max_turns`.

    ## Information
    The common keys. `progress`: the share of safe cells that are open.

    ## Arguments
    - `rows` (int, default 6): rows, from 4 to 30.
    - `columns` (int, default 6): columns, from 4 to 30. At most 480 cells in total.
    - `mines` (int, default 6): mines, at most the number of cells minus 9.
    - `solvable` (bool, default True): only fields that need no guess, with sides of at most 16 and
      mines in at most a fifth of the cells.
    - `max_turns` (int, default the number of cells): turns before truncation.

    ## References
    Microsoft's Minesweeper. Deciding whether a cell is safe is co-NP-complete (Scott, Stege and van
    Rooij, 2011). The expert opens a safe cell, or else the cell with the lowest mine probability.

    ## Version History
    v0: first version.
    """

    State = State

    def __init__(
        self,
        *,
        rows: int = 6,
        columns: int = 6,
        mines: int = 6,
        solvable: bool = True,
        max_turns: TurnLimit = "auto",
        **kwargs,
    ):
        for name, side in (("rows", rows), ("columns", columns)):
            if side not in SIZES:
                raise ValueError(f"{name} must be in [4, 30], got {side}.")
        if rows * columns > LARGEST:
            raise ValueError(f"rows * columns must be at most {LARGEST}, got {rows * columns}.")
        if not 1 <= mines <= rows * columns - 9:
            raise ValueError(f"mines must be in [1, rows * columns - 9], got {mines}.")
        if solvable and (max(rows, columns) > SOLVABLE[0] or mines > SOLVABLE[1] * rows * columns):
            raise ValueError(
                f"Solvable fields have at most {SOLVABLE[0]} rows and columns, and at most a fifth "
                f"of mines, got {rows} x {columns} with {mines}. Use solvable=False."
            )
        super().__init__(max_turns=rows * columns if max_turns == "auto" else max_turns, **kwargs)
        self.shape, self.mines, self.solvable = (rows, columns), mines, solvable
        self.tasks = Tasks.generated()
        self.safe = rows * columns - mines
        self._names = [f"open {r + 1} {c + 1}" for r in range(rows) for c in range(columns)]
        self.instructions = (
            f"You are playing Minesweeper on a field of {rows} rows and {columns} columns with "
            f"{mines} mines. Open all cells without a mine.\n"
            "\n"
            "Rules:\n"
            "- # is a closed cell.\n"
            "- A number is an open cell. It counts the mines in the 8 cells around it.\n"
            "- A dot is an open cell without mines around it. The cells around it open, too.\n"
            "- The first cell you open and the cells around it are safe.\n"
            + "- You never have to guess.\n"
            * solvable
            + "- If you open a mine, you lose.\n"
            "\n"
            "Action: open ROW COLUMN, for example: open 3 2"
        )

    def _start(self, task: str) -> TimeStep:
        self.state = State()
        return self._look()

    def _advance(self, action: str) -> TimeStep:
        rows, columns = self.shape
        row, column = cell_of(action)
        if not (0 <= row < rows and 0 <= column < columns):
            return self._invalid(
                f"Give a row from 1 to {rows} and a column from 1 to {columns}, such as: open 3 2"
            )
        cell, state = row * columns + column, self.state
        if state.opened >> cell & 1:
            return self._invalid("That cell is open already.")
        if not state.mines:
            state.mines = lay_mines(self.task, cell, self.shape, self.mines, self.solvable)
        if state.mines >> cell & 1:
            state.opened |= 1 << cell
            return self._look()
        near = neighbours(*self.shape)
        state.opened = opened_with(cell, near, state.mines, state.opened)
        return self._look()

    def _look(self) -> TimeStep:
        """Returns the field."""
        count, struck = self.state.safe.bit_count(), self.state.struck
        won = count == self.safe
        over = won or bool(struck)
        closed = ((1 << len(self._names)) - 1) & ~self.state.opened
        said = f"{self.mines} mines, {self.safe - count} safe cells to open."
        said = "All safe cells are open." if won else "That was a mine." if struck else said
        return TimeStep(
            text=f"{self._field()}\n{said}",
            rewards={"task": float(won)},
            terminated=over,
            success=won,
            progress=count / self.safe,
            admissible=() if over else tuple([self._names[cell] for cell in cells(closed)]),
        )

    def _field(self) -> str:
        columns = self.shape[1]
        wide = len(str(columns))
        lines = ["   " + " ".join(f"{c + 1:>{wide}}" for c in range(columns))]
        for row, line in enumerate(self._rows(self._shown()), 1):
            lines.append(f"{row:<2} " + " ".join(f"{sign:>{wide}}" for sign in line))
        return "\n".join(lines)

    def _shown(self) -> int:
        """Returns the mines that the field shows, one bit per cell.

        A lost game shows the opened mine alone: another attempt could use the others.
        """
        won = self.state.safe.bit_count() == self.safe
        return self.state.mines if won else self.state.struck

    def _rows(self, shown: int) -> list[str]:
        """Returns the rows of the field, with the shown mines (one bit per cell)."""
        rows, columns = self.shape
        near, mines = neighbours(rows, columns), self.state.mines
        signs = ["#"] * len(near)
        for cell in cells(self.state.safe):
            signs[cell] = str((near[cell] & mines).bit_count() or ".")
        for cell in cells(shown):
            signs[cell] = "*"
        return ["".join(signs[row * columns :][:columns]) for row in range(rows)]

    def privileged_text(self) -> str:
        """Returns the number of safe cells to open, and the field with its mines (*)."""
        left = self.safe - self.state.safe.bit_count()
        return f"Safe cells to open: {left}. Field: {' '.join(self._rows(self.state.mines))}"

    def _frame(self) -> Scene:
        return from_map(self._rows(self._shown()), LEGEND)

    def expert(self) -> str | None:
        """Returns a provably safe cell, or else the cell with the lowest mine probability."""
        state, near = self.state, neighbours(*self.shape)
        if not state.opened:
            rows, columns = self.shape
            return self._names[rows // 2 * columns + columns // 2]
        known = constraints(near, state.mines, state.safe)
        safe, _ = deduce(known)
        if safe:
            return self._names[next(cells(safe))]
        by_risk = risks(known)
        return self._names[min(by_risk, key=by_risk.__getitem__)]
