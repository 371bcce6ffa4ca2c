"""The role of a value in a message about a change: old or new."""

from __future__ import annotations

import re
from functools import lru_cache

from agentgym.reading.typography import folds_plainly

_OLD = re.compile(
    r"\b(?:current(?:ly)?|original(?:ly)?|existing|previous(?:ly)?|old|was|were|formerly|paid|from)"
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


@lru_cache(maxsize=256)
def _may_replace(text: str) -> bool:
    """Whether a text can name a value that a change replaces."""
    lower = text.lower()
    return any(cue in lower for cue in _CUES) or not folds_plainly(text)


def is_old(text: str, at: int) -> bool:
    """Returns whether the value at an index is the one that a change replaces."""
    if not _may_replace(text):
        return False
    start = max((match.end() for match in _SCOPE.finditer(text, 0, at)), default=0)
    after = _SCOPE.search(text, at)
    stop = after.start() if after else len(text)
    old = [match.end() for match in _OLD.finditer(text, start, at)]
    if old and not _NEW.search(text, old[-1], at):
        return True
    for change in _CHANGES.finditer(text, start, at):
        turn = _NEW.search(text, change.end(), stop) or _NEW_TOO.search(text, change.end(), stop)
        if turn and change.end() <= at < turn.start():
            return True
    return False
