"""The role of a value in a message about a change: old or new."""

from __future__ import annotations

import re
from functools import lru_cache

from agentgym.reading.typography import folds_plainly

_OLD = re.compile(
    r"\b(current(?:ly)?|original(?:ly)?|existing|previous(?:ly)?|old|was|were|formerly|paid|from)"
    r"(?: (?:set|shipped|going|booked|paid|charged|flying))?(?: (?:to|at|with|for|on|in|by|"
    r"using))?\b",
    re.IGNORECASE,
)
_CHANGES = re.compile(
    r"\b(?:replac\w+|exchang\w+|swap\w*|chang\w+|mov(?:e|ing)|switch\w*|substitut\w+|updat\w+)\b",
    re.IGNORECASE,
)
_NEW = re.compile(r"\b(?:to|into|for|new|now)\b|[-=]>|\u2192", re.IGNORECASE)
_NEW_TOO = re.compile(r"\b(?:with|by)\b|:", re.IGNORECASE)
_CUES = (
    "current", "original", "existing", "previous", "old", "was", "were", "formerly", "paid",
    "from", "replac", "exchang", "swap", "chang", "mov", "switch", "substitut", "updat",
)  # fmt: skip
"""Texts, one of which each match of `_OLD` and `_CHANGES` holds."""
_SCOPE = re.compile(r"[.?!;](?=\s|$)|[\n()]")


def is_old(text: str, at: int) -> bool:
    """Returns whether the value at an index is the one that a change replaces."""
    return any(start <= at < stop for start, stop in _old_parts(text))


@lru_cache(maxsize=256)
def _old_parts(text: str) -> tuple[tuple[int, int], ...]:
    """Returns start and stop of the parts of a text whose values a change replaces."""
    if not _may_replace(text):
        return ()
    found = []
    for start, stop in _scopes(text):
        for old in _OLD.finditer(text, start, stop):
            new = _NEW.search(text, old.end(), stop)
            found.append((old.end(1), new.end() if new else stop))
        for change in _CHANGES.finditer(text, start, stop):
            end = change.end()
            if turn := _NEW.search(text, end, stop) or _NEW_TOO.search(text, end, stop):
                found.append((end, turn.start()))
    return tuple(found)


def _may_replace(text: str) -> bool:
    """Whether a text can name a value that a change replaces."""
    lower = text.lower()
    return any(cue in lower for cue in _CUES) or not folds_plainly(text)


def _scopes(text: str) -> list[tuple[int, int]]:
    """Returns start and stop of the parts of a text between ends of sentences and brackets."""
    ends = [match.span() for match in _SCOPE.finditer(text)]
    return list(zip([0, *(b for _, b in ends)], [*(a for a, _ in ends), len(text)], strict=True))
