"""Quotations in text."""

from __future__ import annotations

import re
from bisect import bisect_right


def find_quotations(text: str) -> list[tuple[int, int]]:
    """Returns where the quotations of a text start and stop, with their marks.

    An apostrophe ("don't", "players'") is no mark, nor is the sign of inches behind a digit. A
    quotation without an end reaches to the end of its line.

    Args:
        text: a text in the form of `normalized`.
    """
    found, opened, mark = [], -1, ""
    for match in _QUOTE.finditer(text):
        at, sign = match.start(), match[0]
        before, after = text[at - 1 : at] or " ", text[at + 1 : at + 2] or " "
        if sign == "\n":
            if mark == '"':
                found.append((opened, at))
            mark = ""
        elif mark:
            if sign == mark and (sign == '"' or not (after.isalnum() or before.isspace())):
                found.append((opened, at + 1))
                mark = ""
        elif sign == '"' and not before.isdigit():
            opened, mark = at, sign
        elif sign == "'" and not before.isalnum() and before not in "_.)" and not after.isspace():
            if _closing(text, at):
                opened, mark = at, sign
    return found + ([(opened, len(text))] if mark == '"' else [])


_QUOTE = re.compile(r"[\"'\n]")
_SINGLE_END = re.compile(r"[^'\n]{0,300}(?:'\w[^'\n]{0,300}){0,9}(?<!\s)'(?!\w)")


def _closing(text: str, at: int) -> bool:
    """Whether a single quote at an index has a closing one."""
    return _SINGLE_END.match(text, at + 1) is not None


def inside(at: int, spans: list[tuple[int, int]]) -> bool:
    """Whether an index is within one of some sorted spans, and not at its edges."""
    index = bisect_right(spans, (at, 1 << 60)) - 1
    return index >= 0 and spans[index][0] < at < spans[index][1]
