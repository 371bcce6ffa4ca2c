"""SQL functions whose cost SQLite does not count, with a price in instructions.

The progress handler of a connection is not called inside a function. The functions whose work can
be far more than the length of their arguments are replaced: each call is charged for first, and
then computed by the original function on an empty connection, so that results stay the same.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice

Value = str | bytes | int | float | None

MAX_WIDTH = 1_000
"""Largest width or precision in a format, which SQLite counts up to even without room for it."""
_SPEC = re.compile(r"%([-+ #!0,]*)(\*|\d*)(?:\.(\*|\d*))?(l*.?)", re.DOTALL)
_LEADING = re.compile(r"\s*([+-]?\d+)")
_COMPARED = {"like": (2, 3), "glob": (2,), "trim": (1, 2), "ltrim": (1, 2), "rtrim": (1, 2)}
"""Functions that compare each character of a text with a pattern, and their argument counts."""
_PER_INSTRUCTION = 16
"""Pairs of characters that are compared in about the time of an instruction."""


class BudgetError(Exception):
    """Raised inside a function. SQLite hides it: `Budget.failure` holds its message."""


class Budget:
    """The instructions that a statement may still take.

    Attributes:
        left: number of instructions.
        failure: message of the error that a function raised, or "".
    """

    def __init__(self) -> None:
        self.left, self.failure = 0, ""

    def start(self, instructions: int) -> None:
        """Starts a statement."""
        self.left, self.failure = instructions, ""

    def spend(self, instructions: int) -> bool:
        """Subtracts instructions, and returns whether there were too few."""
        self.left -= instructions
        return self.left < 0


class _Functions:
    """The originals, on a connection of their own."""

    def __init__(self, budget: Budget, limits: Mapping[int, int]):
        self.budget, self._limits = budget, limits

    @cached_property
    def _plain(self) -> sqlite3.Connection:
        """The connection, which most statements do not need."""
        plain = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        for limit, value in self._limits.items():
            plain.setlimit(limit, value)
        return plain

    def _call(self, name: str, values: Sequence[Value]) -> Value:
        marks = ",".join("?" * len(values))
        try:
            return self._plain.execute(f"SELECT {name}({marks})", values).fetchone()[0]
        except sqlite3.Error as error:
            self._fail(str(error))

    def _charge(self, instructions: int) -> None:
        if self.budget.spend(1 + instructions):
            self._fail("interrupted")

    def _fail(self, message: str) -> None:
        self.budget.failure = message
        raise BudgetError(message)

    def compare(self, name: str, *values: Value) -> Value:
        first, second = (*map(_size, values[:2]), 1)[:2]
        self._charge(first * second // _PER_INSTRUCTION)
        return self._call(name, values)

    def format(self, *values: Value) -> Value:
        if not values or values[0] is None:
            return None
        shape, rest, widths = without_stars(_text(values[0]), values[1:])
        if max(widths, default=0) > MAX_WIDTH:
            self._fail(f"a width or precision in a format is at most {MAX_WIDTH}")
        self._charge(sum(widths) + sum(map(_size, (shape, *rest))) // _PER_INSTRUCTION)
        return self._call("printf", (shape, *rest))


def install(connection: sqlite3.Connection, budget: Budget, limits: Mapping[int, int]) -> None:
    """Replaces the functions of a connection.

    Args:
        connection: the connection.
        budget: pays for each call.
        limits: SQLite's limits of lengths for their arguments and results.
    """
    functions = _Functions(budget, limits)
    for name, counts in _COMPARED.items():
        for count in counts:
            function = partial(functions.compare, name)
            connection.create_function(name, count, function, deterministic=True)
    for name in ("printf", "format"):
        connection.create_function(name, -1, functions.format, deterministic=True)


def without_stars(shape: str, values: Sequence[Value]) -> tuple[str, list[Value], list[int]]:
    """Returns a format with the arguments of each `*` written out, and the other arguments.

    Returns:
        The format, the arguments that are left, and all widths and precisions.
    """
    left: Iterator[Value] = iter(values)
    kept: list[Value] = []
    widths: list[int] = []

    def written(match: re.Match[str]) -> str:
        flags, width, point, rest = match.groups()
        if width == "*":
            number = _whole(next(left, None))
            flags, width = flags + "-" * (number < 0), str(abs(number))
        if point == "*":
            point = str(abs(_whole(next(left, None))))
        widths.extend(int(number) for number in (width, point) if number)
        if rest[-1:] not in ("%", "n", ""):
            kept.extend(islice(left, 1))
        return f"%{flags}{width}{'' if point is None else '.' + point}{rest}"

    shape = _SPEC.sub(written, shape)
    return shape, [*kept, *left], widths


def _size(value: Value) -> int:
    return len(value) if isinstance(value, str | bytes) else 20


def _text(value: Value) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _whole(value: Value) -> int:
    """Returns an argument as the integer that SQLite makes of it."""
    if isinstance(value, str | bytes):
        found = _LEADING.match(_text(value))
        return int(found[1]) if found else 0
    return int(min(max(value or 0, -(2**63)), 2**63 - 1))
