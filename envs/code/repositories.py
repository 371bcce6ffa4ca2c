"""Small programs of a few files, in which bugs are planted.

The source of a program is a `.txt` file of this folder. Below a line `== name.py` it has the lines
of this file, below `== calls` the calls of its functions. <<2-9>> stands for a number.

The programs have neither `while` nor recursion and multiply no lists, so that a mutated program
ends. They have no formatted strings, whose places differ between versions of Python.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

DATA = Path(__file__).parent
NAMES = ("shop", "calendar", "grades", "texts", "grids", "trains")
"""The programs. Their order is part of the tasks."""


@dataclass(frozen=True)
class Repository:
    """A program.

    Attributes:
        name: its name.
        files: the source of each file.
        calls: calls of its functions, as expressions.
    """

    name: str
    files: dict[str, str]
    calls: tuple[str, ...]


@cache
def repositories() -> tuple[Repository, ...]:
    """Returns all programs."""
    return tuple(map(_read, NAMES))


def _read(name: str) -> Repository:
    text = (DATA / f"{name}.txt").read_text(encoding="utf-8")
    _, *parts = re.split(r"^== (.+)\n", text, flags=re.MULTILINE)
    files = dict(zip(parts[::2], parts[1::2], strict=True))
    calls = files.pop("calls")
    return Repository(name, files, tuple(calls.splitlines()))
