"""Edits of numbered notes, written in words: `remember: TEXT`, `remember 2: TEXT`, `forget 2`."""

from __future__ import annotations

import re

EDIT = re.compile(
    r"remember(?:[ \t]+(?P<place>\d{1,9}))?[ \t]*(?::[ \t]*(?P<text>.*\S)?)?"
    r"|forget[ \t]+(?P<old>\d{1,9})",
    re.IGNORECASE,
)
"""The form of an edit, which is one line."""


def apply_edit(
    edit: re.Match[str], notes: list[str], *, size: int, length: int, default: str = ""
) -> str:
    """Applies an edit to notes.

    Args:
        edit: a match of `EDIT`.
        notes: the notes, which are changed in place.
        size: maximum number of notes. If there are more, the oldest is lost.
        length: maximum number of characters of a note, which is cut at its end.
        default: text of an edit without one.

    Returns:
        The reason if the edit is not possible, else "".
    """
    number = edit["place"] or edit["old"]
    if number is not None and not 1 <= int(number) <= len(notes):
        return f"There is no note {number}."
    if edit["old"] is not None:
        del notes[int(edit["old"]) - 1]
        return ""
    text = " ".join((edit["text"] or default).split())[:length]
    if not text:
        return "There is nothing to remember."
    if number is not None:
        notes[int(number) - 1] = text
    else:
        notes.append(text)
        del notes[:-size]
    return ""
