"""Fuzzy text similarity: the token-set ratio of thefuzz 0.19 over the standard difflib.

The original counts two texts as equal if the ratio exceeds 85. Newer versions of the library and
other back ends give other ratios for some pairs, but not across that threshold.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from difflib import SequenceMatcher

MATCH_THRESHOLD = 85
Text = str | tuple[str, str]
"""A pair stands for the Python notation of a tuple, which the original compares."""

_LATIN_1 = {code: None for code in range(128, 256)}
_NO_WORD = re.compile(r"\W")


@functools.lru_cache(maxsize=1 << 14)
def _tokens(text: Text) -> frozenset[str]:
    plain = str(text).translate(_LATIN_1)  # "café" becomes "caf", other scripts stay
    return frozenset(_NO_WORD.sub(" ", plain).lower().split())


def token_set_ratio(a: Text, b: Text) -> int:
    """Returns the ratio 0..100 of two texts, which ignores the order and number of their words."""
    tokens_a, tokens_b = _tokens(a), _tokens(b)
    if not tokens_a or not tokens_b:
        return 0
    shared, with_a, with_b = _joined(tokens_a, tokens_b)
    return max(_ratio(shared, with_a), _ratio(shared, with_b), _ratio(with_a, with_b))


@functools.lru_cache(maxsize=1 << 15)
def is_match(a: Text, b: Text) -> bool:
    """Returns whether `token_set_ratio(a, b) > 85`, mostly without computing it."""
    tokens_a, tokens_b = _tokens(a), _tokens(b)
    if not tokens_a or not tokens_b:
        return False
    if tokens_a <= tokens_b or tokens_b <= tokens_a:
        return True
    shared, with_a, with_b = _joined(tokens_a, tokens_b)
    return any(
        _could_match(first, second) and _ratio(first, second) > MATCH_THRESHOLD
        for first, second in ((shared, with_a), (shared, with_b), (with_a, with_b))
    )


def _joined(tokens_a: frozenset[str], tokens_b: frozenset[str]) -> tuple[str, str, str]:
    """Returns the shared words, and the same followed by the other words of each text."""
    shared = " ".join(sorted(tokens_a & tokens_b))
    alone_a = " ".join(sorted(tokens_a - tokens_b))
    alone_b = " ".join(sorted(tokens_b - tokens_a))
    return shared, f"{shared} {alone_a}".strip(), f"{shared} {alone_b}".strip()


def _could_match(a: str, b: str) -> bool:
    """Bounds the ratio from above by the lengths, then by the common characters."""
    needed = 0.855 * (len(a) + len(b)) / 2
    if min(len(a), len(b)) < needed:
        return False
    return (Counter(a) & Counter(b)).total() >= needed


def _ratio(a: str, b: str) -> int:
    return 100 if a == b else round(100 * SequenceMatcher(None, a, b).ratio())
