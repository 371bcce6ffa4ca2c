"""Numbers in words: "twenty-five", "a hundred and five", "half a million"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from agentgym.reading.typography import folds_plainly

SMALL: dict[str, int] = {
    word: value
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen".split()
    )
}
"""The words of 0 to 19."""
TENS: dict[str, int] = {
    word: 10 * value
    for value, word in enumerate(
        "twenty thirty forty fifty sixty seventy eighty ninety".split(), start=2
    )
}
"""The words of whole tens."""
SCALES: dict[str, int] = {
    "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12,
}  # fmt: skip
"""The words of larger scales."""
_PARTS: dict[str, int] = {
    "half": 2, "halves": 2, "third": 3, "thirds": 3, "quarter": 4, "quarters": 4, "fourths": 4,
    "fifth": 5, "fifths": 5, "eighths": 8, "tenths": 10,
}  # fmt: skip
_ALL = {*SMALL, *TENS, *SCALES, *_PARTS, "hundred", "dozen"}
_WORD = re.compile(
    rf"(?<![\w'/])(?:{'|'.join(sorted(_ALL, key=len, reverse=True))})(?![\w'])", re.IGNORECASE
)
_TOKEN = re.compile(r"\w+")
_PRONOUN = re.compile(
    r"\b(?:this|that|which|another|other|each|every|no|any|some|the|last|next|first|second|third|"
    r"only|right|wrong|same|new|good|better|best|big|small|blue|red|green|black|white) $",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"\b(?:an? )$", re.IGNORECASE)
_JOINS = (" ", "-", " and ", " and a ", " a ", ", ")


class _Word(NamedTuple):
    text: str
    start: int
    stop: int
    gap: str
    """The text between the previous number word and this one, if it joins two words."""


def _words(text: str) -> list[_Word]:
    if folds_plainly(text) and _ALL.isdisjoint(_TOKEN.findall(text.lower())):
        return []
    found: list[_Word] = []
    end = -100
    for match in _WORD.finditer(text):
        start, stop = match.span()
        gap = text[end:start].lower() if 0 < start - end < 8 else "?"
        found.append(_Word(match[0].lower(), start, stop, gap if gap in _JOINS else "?"))
        end = stop
    return found


class _Reader:
    """Reads one number from a list of words, by the grammar of English number names."""

    def __init__(self, words: list[_Word], at: int):
        self.words, self.at = words, at

    def _next(self, names: dict[str, int], *gaps: str) -> int | None:
        """Takes the next word if it is one of these and is joined in one of these ways."""
        if self.at >= len(self.words):
            return None
        word = self.words[self.at]
        if word.text not in names or (gaps and word.gap not in gaps):
            return None
        self.at += 1
        return names[word.text]

    def _below_hundred(self, *gaps: str) -> int | None:
        tens = self._next(TENS, *gaps)
        if tens is not None:
            return tens + (self._next(_DIGITS, " ", "-") or 0)
        return self._next(SMALL, *gaps)

    def _below_thousand(self, *gaps: str) -> int | None:
        value = self._below_hundred(*gaps)
        joined = (" ", "-") if value is not None else gaps
        hundreds = self._next({"hundred": 100}, *joined) if value != 0 else None
        if hundreds is None:
            return value
        value = hundreds * (1 if value is None else value)
        return value + (self._below_hundred(" ", "-", " and ") or 0)

    def number(self) -> Fraction | None:
        """Takes the longest number."""
        total, least, gaps = Fraction(0), 10**15, ()
        taken = False
        while True:
            mark = self.at
            value = self._below_thousand(*gaps)
            scales = {name: scale for name, scale in SCALES.items() if scale < least}
            scale = self._next(scales, *((" ", "-") if value is not None else gaps))
            if value is None and scale is None:
                break
            if scale is None and gaps and value == 0:
                self.at = mark
                break
            taken = True
            total += (1 if value is None else value) * (scale or 1)
            if scale is None:
                break
            least, gaps = scale, (" ", " and ", ", ")
        return self._with_parts(total) if taken else self._part()

    def _part(self) -> Fraction | None:
        """Takes "half", "half a dozen", "half a million" or "a dozen"."""
        if self._next({"dozen": 12}):
            return Fraction(12)
        if not self._next({"half": 2}):
            return None
        many = self._next({**SCALES, "dozen": 12, "hundred": 100}, " a ", " ")
        return Fraction(many or 1, 2)

    def _with_parts(self, total: Fraction) -> Fraction:
        """Takes "and a half", "dozen" or the denominator of a fraction behind a number."""
        if self._next({"half": 2}, " and a "):
            return (total + Fraction(1, 2)) * (self._next(SCALES, " ") or 1)
        if dozen := self._next({"dozen": 12}, " ", "-"):
            return total * dozen
        part = self._next(_PARTS, " ", "-") if 0 < total < 20 else None
        return total / part if part else total


_DIGITS = {word: value for word, value in SMALL.items() if 0 < value < 10}


def find_word_numbers(text: str) -> Iterator[tuple[Fraction, int, int]]:
    """Yields value, start and stop of each number in words.

    "one" as a pronoun ("this one") is no number. "third" alone is an ordinal.

    Args:
        text: a text in the form of `normalized`.
    """
    words, at = _words(text), 0
    while at < len(words):
        first = words[at]
        reader = _Reader(words, at)
        before = text[max(0, first.start - 10) : first.start]
        value = reader.number()
        pronoun = first.text == "one" and reader.at == at + 1 and _PRONOUN.search(before)
        if value is None or pronoun:
            at = max(at + 1, reader.at)
            continue
        at = reader.at
        start, stop = first.start, words[at - 1].stop
        if first.text in ("hundred", "dozen", "half", *SCALES) and (a := _ARTICLE.search(before)):
            start -= len(a[0])
        yield value, start, stop
