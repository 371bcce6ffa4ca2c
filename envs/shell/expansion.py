"""What becomes of the value of a variable, and calculations."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping

from agentgym.envs.shell.arguments import bounded
from agentgym.envs.shell.patterns import Work, file_pattern
from agentgym.envs.shell.syntax import BLANKS, Values, Word
from agentgym.envs.shell.tree import Failed, Unknown

LARGEST = 2**63
"""Calculations stay below."""


def changed(value: str, change: str, rest: list[Word], values: Values, work: Work) -> str:
    """Returns the value of a variable as in `${name%.txt}`.

    Args:
        value: the value of the variable.
        change: the operator.
        rest: the words behind the operator.
        values: the values of their expansions.
        work: the work of the patterns of the line.
    """
    if change == "":
        return value
    if change == "length":
        return str(len(value))
    if change == ":-":
        return value or rest[0].value(values)
    pattern = file_pattern(rest[0].pattern(values), work)
    if change[0] == "/":
        new = rest[1].value(values) if len(rest) > 1 else ""
        done, begin = "", 0
        while begin < len(value) and (match := pattern.search(value, begin)) is not None:
            start, end = match
            if end == start:
                break
            done, begin = bounded(done + value[begin:start] + new), end
            if change == "/":
                break
        return done + value[begin:]
    places = range(len(value) + 1)
    if change in ("##", "%"):  # the longest start, the shortest end
        places = places[::-1]
    for place in places:
        if pattern.fullmatch(value[:place] if change[0] == "#" else value[place:]):
            return value[place:] if change[0] == "#" else value[:place]
    return value


def parted(text: str, blanks: str, count: int) -> list[str]:
    """Returns a line in at most so many parts, as read does.

    Raises:
        Unknown: for several characters that are no blanks.
    """
    if set(blanks) <= set(BLANKS):
        text = text.strip(blanks)
    elif len(blanks) > 1:
        raise Unknown("IFS has one character, or blanks, for read")
    split = re.escape(blanks) if blanks.strip() else f"[{blanks}]+"
    return re.split(split, text, maxsplit=count - 1) if blanks and count > 1 else [text]


def _quotient(first: int, second: int) -> int:
    if second == 0:
        raise Failed("division by 0")
    return abs(first) // abs(second) * (1 if (first < 0) == (second < 0) else -1)


_OPERATIONS: dict[type, Callable[[int, int], int | bool]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _quotient,
    ast.Mod: lambda first, second: first - second * _quotient(first, second),
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def calculated(text: str, values: Mapping[str, str]) -> int:
    """Returns the value of a calculation such as `2 * (n + 1)`.

    Raises:
        Failed: for another text.
    """

    def valued(match: re.Match[str]) -> str:
        value = values.get(match[0], "").strip() or "0"
        if not re.fullmatch(r"-?(0|[1-9][0-9]{0,17})", value):
            raise Failed(f"{match[0]} is no number")
        return f"({value})"

    plain = re.sub(r"[A-Za-z_]\w*", valued, text.strip())
    if not re.fullmatch(r"[0-9 +*/%()<>=!-]*", plain) or "//" in plain or "**" in plain:
        raise Failed(f"$(({text[:40]})) is not supported")
    try:
        return _calculated(ast.parse(plain or "0", mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError):
        raise Failed(f"$(({text[:40]})) is not supported") from None


def _calculated(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=int(number)):
            result = number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            result = -_calculated(operand)
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _OPERATIONS:
            result = _OPERATIONS[type(operation)](_calculated(left), _calculated(right))
        case ast.Compare(left=left, ops=[operation], comparators=[right]):
            result = _OPERATIONS[type(operation)](_calculated(left), _calculated(right))
        case _:
            raise Failed("use + - * / % and a comparison in $(( ))")
    if abs(result) >= LARGEST:
        raise Failed("the number is too large")
    return int(result)
