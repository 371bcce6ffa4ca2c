"""Sheet: questions about a table, and changes of it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from agentgym.envs.office.assignment import Assignment, AssignmentEnv
from agentgym.tasks import task_rng
from agentgym.tools import Call, ToolError, tool

PRODUCTS = (
    *("apple", "bean", "carrot", "date", "egg", "fig", "grape", "honey", "leek", "melon"),
    *("nut", "onion", "pea", "quince", "rice", "salt", "tea", "walnut"),
)
HEADER = ["Product", "Store", "Price", "Quantity"]
STORES = ("North", "South", "West")
LARGEST = 30
"""Maximum number of rows and of columns."""
Cell = str | int
_DIGITS = re.compile(r"-?[0-9]{1,15}")


@lru_cache(maxsize=4096)
def draw_assignment(task: str) -> Assignment:
    """Returns the assignment of a task."""
    rng = task_rng(task, "sheet")
    names = [PRODUCTS[i] for i in rng.permutation(len(PRODUCTS))[: int(rng.integers(5, 9))]]
    amounts = rng.permutation(60).tolist()
    rows: list[list[Cell]] = [
        [name, STORES[int(rng.integers(3))], int(rng.integers(1, 40)), amounts[i]]
        for i, name in enumerate(names)
    ]
    rows[int(rng.integers(len(rows)))][3] = 0
    write = (_ask_value, _ask_store, _sell, _clear, _reprice, _append)
    request, calls, answer = write[int(rng.integers(len(write)))](rng, rows)
    world = {"rows": [list(HEADER), *rows]}
    return Assignment(request, world, (Call("read_sheet", {}), *calls), answer)


Written = tuple[str, tuple[Call, ...], str | None]
Rows = list[list[Any]]


def _ask_value(rng: np.random.Generator, rows: Rows) -> Written:
    row = rows[int(rng.integers(len(rows)))]
    return (
        f"What are all pieces of {row[0]} worth (price times quantity)?",
        (),
        str(row[2] * row[3]),
    )


def _ask_store(rng: np.random.Generator, rows: Rows) -> Written:
    store = rows[int(rng.integers(len(rows)))][1]
    total = sum(row[3] for row in rows if row[1] == store)
    return f"What is the total quantity in the store {store}?", (), str(total)


def _sell(rng: np.random.Generator, rows: Rows) -> Written:
    chosen = [i for i in rng.permutation(len(rows)).tolist() if rows[i][3] > 0][:2]
    sold = {i: int(rng.integers(1, rows[i][3] + 1)) for i in chosen}
    words = " and ".join(f"{count} {rows[i][0]}" for i, count in sold.items())
    calls = [
        Call("set_cell", {"cell": f"D{i + 2}", "value": rows[i][3] - count})
        for i, count in sold.items()
    ]
    calls.append(Call("sort_by", {"column": "Quantity", "order": "descending"}))
    request = f"Today {words} were sold. Update the quantities, then sort by quantity, descending."
    return request, tuple(calls), None


def _clear(rng: np.random.Generator, rows: Rows) -> Written:
    gone = [i for i, row in enumerate(rows) if row[3] == 0]
    calls = tuple(Call("delete_row", {"row": i + 2}) for i in reversed(gone))
    return "Delete the rows of products with the quantity 0.", calls, None


def _reprice(rng: np.random.Generator, rows: Rows) -> Written:
    store, rise = rows[int(rng.integers(len(rows)))][1], int(rng.integers(1, 6))
    calls = tuple(
        Call("set_cell", {"cell": f"C{i + 2}", "value": row[2] + rise})
        for i, row in enumerate(rows)
        if row[1] == store
    )
    return f"Raise all prices in the store {store} by {rise}.", calls, None


def _append(rng: np.random.Generator, rows: Rows) -> Written:
    held = {row[0] for row in rows}
    name = next(product for product in PRODUCTS if product not in held)
    row = [name, STORES[int(rng.integers(3))], int(rng.integers(1, 40)), int(rng.integers(1, 60))]
    calls = (
        Call("append_row", {"values": row}),
        Call("sort_by", {"column": "Product", "order": "ascending"}),
    )
    request = (
        f"Add the product {name} in the store {row[1]} with the price {row[2]} and the quantity "
        f"{row[3]}, then sort by product, ascending."
    )
    return request, calls, None


class Sheet(AssignmentEnv):
    """Answer questions about a table, or change the table.

    ## Description
    A table lists products with store, price and quantity. An assignment is a question (a product or
    a sum) or a change: update cells, delete, add or sort rows.

    ## Action Space
    Text: a tool call, such as `{"name": "set_cell", "arguments": {"cell": "D2", "value": 7}}`, in
    any of the formats of `agentgym.tools.CallFormat`. `finish` ends the episode.

    ## Observation Space
    Text: first the assignment, then the result of the last call.

    ## Rewards
    1 (term `task`) at `finish` if the table is exactly as requested and the answer, if a question
    was asked, is right. Else 0. An invalid action costs `invalid_penalty`.

    ## Starting State
    Table and assignment are sampled from the task name.

    ## Episode End
    Termination: `finish`. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `progress` is the fraction of the solution's calls that were made. `admissible`
    is empty. `state_key` identifies the state, and the calls and results whatever their order.

    ## Arguments
    - `call_format` (str, default "json"): format of calls in the instructions and in the expert's
      actions: "json", "tool_call" (Qwen, Hermes), "llama_call" or "python".
    - `max_turns` (int or None, default 20): turn limit.

    ## References
    The sheet tasks of the AgentGym framework of Xi et al. (arXiv 2406.04151), which come from
    AgentBoard (arXiv 2401.13178) and use a web service. There, the reward is the fraction of equal
    cells. Tables and assignments are generated.

    ## Version History
    v0: first version.
    """

    rules = (
        "You work on a table. Rows are numbered from 1 (the header), columns are A, B, C, D. Do "
        "the assignment with the tools, then call finish. For a question, give the answer to "
        "finish. The reward is 1 if the answer is right and the table is exactly as requested, "
        "else 0."
    )

    def assignment(self, task: str) -> Assignment:
        """Returns a task."""
        return draw_assignment(task)

    @property
    def rows(self) -> list[list[Cell]]:
        """The rows of the table, with the header."""
        return self.state.world["rows"]

    @tool
    def read_sheet(self) -> str:
        """Shows the table, one row per line."""
        lines = (" | ".join(map(str, row)) for row in self.rows)
        return "\n".join(f"{i + 1}: {line}" for i, line in enumerate(lines))

    @tool
    def set_cell(self, cell: str, value: int | str) -> None:
        """Writes a value into a cell.

        Args:
            cell: column and row, such as "D2".
            value: the value, a text of at most 100 characters or a number.
        """
        column, row = "ABCD".find(cell[:1].upper()), cell[1:]
        if not cell or column < 0 or not (row.isascii() and row.isdigit() and len(row) < 4):
            raise ToolError("A cell is written like D2.")
        self._row(int(row))[column] = _checked(value)

    @tool
    def delete_row(self, row: int) -> None:
        """Deletes a row.

        Args:
            row: number of the row, at least 2.
        """
        self._row(row)
        del self.rows[row - 1]

    @tool
    def append_row(self, values: list[int | str]) -> None:
        """Adds a row at the end.

        Args:
            values: the four values of the row.
        """
        if len(values) != len(HEADER) or len(self.rows) >= LARGEST:
            raise ToolError(f"A row has 4 values, and a table at most {LARGEST} rows.")
        self.rows.append([_checked(value) for value in values])

    @tool
    def sort_by(self, column: str, order: Literal["ascending", "descending"]) -> None:
        """Sorts the rows below the header, rows with an equal value by their other columns.

        Numbers precede texts.

        Args:
            column: name in the header.
            order: the order.
        """
        if column not in HEADER:
            raise ToolError(f"There is no column {column[:40]!r}. The columns are {HEADER}.")
        place = HEADER.index(column)

        def key(row: list[Cell]) -> list[tuple[bool, Cell]]:
            return [(isinstance(cell, str), cell) for cell in (row[place], *row)]

        self.rows[1:] = sorted(self.rows[1:], key=key, reverse=order == "descending")

    def _row(self, row: int) -> list[Cell]:
        if not 2 <= row <= len(self.rows):
            raise ToolError(f"Rows that can be changed are 2 to {len(self.rows)}.")
        return self.rows[row - 1]


def _checked(value: Cell) -> Cell:
    """Returns the value of a cell. The table shows the text "7" like the number 7."""
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        return int(value)
    if isinstance(value, str) and len(value) > 100:
        raise ToolError("A text has at most 100 characters.")
    return value
