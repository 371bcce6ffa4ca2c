"""Edits of numbered notes, written in words: `remember: TEXT`, `remember 2: TEXT`, `forget 2`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

EDIT = re.compile(
    r"remember(?:[ \t]+(?P<place>\d{1,9}))?[ \t]*(?::[ \t]*(?P<text>.*\S)?)?"
    r"|forget[ \t]+(?P<old>\d{1,9})",
    re.IGNORECASE,
)
"""The form of an edit, which is one line."""


def apply_edit(
    edit: re.Match[str],
    notes: list[str],
    *,
    size: int,
    length: int,
    default: str = "",
    places: Mapping[int, int] | None = None,
) -> str:
    """Applies an edit to notes.

    Args:
        edit: a match of `EDIT`.
        notes: the notes, which are changed in place.
        size: maximum number of notes. If there are more, the oldest is lost.
        length: maximum number of characters of a note, which is cut at its end.
        default: text of an edit without one.
        places: the place in `notes`, from 1, of each number that an edit may have (None: the same).

    Returns:
        The reason if the edit is not possible, else "".
    """
    number, place = edit["place"] or edit["old"], 0
    if number is not None:
        place = int(number) if places is None else places.get(int(number), 0)
        if not 1 <= place <= len(notes):
            return f"There is no note {number}."
    if edit["old"] is not None:
        del notes[place - 1]
        return ""
    text = " ".join((edit["text"] or default).split())[:length]
    if not text:
        return "There is nothing to remember."
    if number is not None:
        notes[place - 1] = text
    else:
        notes.append(text)
        del notes[:-size]
    return ""


def apply_edits(
    reply: str, notes: list[str], numbered: Sequence[str], *, size: int, length: int
) -> None:
    """Applies the lines of a reply that are possible edits, and ignores the others.

    Args:
        reply: the reply. Lines may begin with "- ".
        notes: the notes, which are changed in place.
        numbered: the notes that the reply numbers. Others may have edited the notes since.
        size: maximum number of notes.
        length: maximum number of characters of a note.
    """
    places = {i: notes.index(note) + 1 for i, note in enumerate(numbered, 1) if note in notes}
    lines = (line.strip().removeprefix("- ") for line in reply.splitlines())
    edits = [edit for edit in map(EDIT.fullmatch, lines) if edit]
    # From the last note to the first: numbers are those of the list before all edits.
    edits.sort(key=lambda edit: -int(edit["place"] or edit["old"] or 0))
    for edit in edits:
        apply_edit(edit, notes, size=size, length=length, places=places)
