"""The tables of facts of this folder, `*.txt`. Each begins with a description of its format."""

from __future__ import annotations

import re
from pathlib import Path

DATA = Path(__file__).parent


def entries(table: str) -> list[str]:
    """Returns the entries of a table, such as "cities", without comments.

    An indented line continues the line before.
    """
    text = (DATA / f"{table}.txt").read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"\n +", " ", text.strip()).split("\n")


def trait_rows(table: str) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Returns (trait, question or "", phrases) for each entry "trait | question | a; b; c"."""
    found = []
    for line in entries(table):
        trait, question, phrases = (part.strip() for part in line.split("|"))
        found.append((trait, question, tuple(phrase.strip() for phrase in phrases.split(";"))))
    return tuple(found)
