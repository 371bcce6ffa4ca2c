"""Formats of printf."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from agentgym.envs.shell.arguments import bounded
from agentgym.envs.shell.tree import Failed, Unknown

T = TypeVar("T")
_DIRECTIVE = re.compile(r"%([-+ 0#]*)([0-9]*)(?:\.([0-9]*))?(.?)", re.DOTALL)
_WIDEST = 1000
_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "0": "\0"}


def unescaped(text: str) -> str:
    r"""Returns a text in which `\n` and `\t` have their meaning."""

    def meant(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            raise Unknown(f"{match[0]} is not supported: use \\n, \\t or \\\\")
        return _ESCAPES[match[1]]

    return _ESCAPE.sub(meant, text)


def count(template: str) -> int:
    """Returns the number of values that a format needs."""
    return sum(match[4] != "%" for match in _DIRECTIVE.finditer(template))


def formatted(
    template: str, values: list[T], number: Callable[[T], float], text: Callable[[T], str]
) -> str:
    """Returns a format with its values, of which missing ones are empty.

    Args:
        template: the format.
        values: the values.
        number: returns a value as a number.
        text: returns a value as a text.

    Raises:
        Unknown: for a directive that is not supported.
        Failed: for a field that is too wide.
    """
    left = list(values)

    def one(match: re.Match[str]) -> str:
        flags, width, places, letter = match.groups()
        if letter == "%":
            return "%"
        if letter not in tuple("sdifgecuxXo"):
            raise Unknown(f"{match[0][:20]!r} is not supported in a format: use %s, %d or %.2f")
        if max(int(width or 0), int(places or 0)) > _WIDEST:
            raise Failed("a field of the format is too wide")
        value = left.pop(0) if left else None
        shape = f"%{flags}{width}" + ("" if places is None else f".{places}")
        if letter == "c" and isinstance(value, float):
            raise Unknown("%c of a number is not supported")
        if letter == "s" or letter == "c":
            shown = "" if value is None else text(value)
            return f"{shape}s" % (shown[:1] if letter == "c" else shown)
        amount = 0.0 if value is None else number(value)
        if letter in "feg":
            return f"{shape}{letter}" % amount
        return f"{shape}{'d' if letter in 'diu' else letter}" % int(amount)

    return bounded(_DIRECTIVE.sub(one, template))
