"""Words for the values of proposals: products, options, reasons, streets, cities and names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache

from agentgym.envs.service.people import CITIES, FIRST, LAST


class Vocabulary:
    r"""The values of one kind, each with a pattern of the words that name it.

    Args:
        patterns: value -> pattern, which ignores case. It matches from the start of a word, and
            has no class such as "\W".
        cues: texts, one of which each match holds. None are needed, but they save time.
    """

    def __init__(self, patterns: Mapping[str, str], cues: Iterable[str] = ()):
        self.values, self._cues = list(patterns), tuple({cue.lower() for cue in cues})
        self._patterns = tuple(patterns.values())

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """The pattern of all values. Without groups, most words fail at their first letter."""
        patterns = (pattern.lower().removeprefix(r"\b") for pattern in self._patterns)
        return re.compile(rf"\b(?:{'|'.join(patterns)})")

    @cached_property
    def _each(self) -> list[tuple[str, re.Pattern[str]]]:
        """The values with their patterns."""
        return [
            (v, re.compile(p.lower())) for v, p in zip(self.values, self._patterns, strict=True)
        ]

    def find(self, text: str) -> Iterator[tuple[str, int, int]]:
        """Yields the values in a text, with start and stop."""
        lower = text.lower()  # faster than a pattern that ignores case
        lower = lower if len(lower) == len(text) else text
        if self._cues and not any(cue in lower for cue in self._cues):
            return
        for match in self._pattern.finditer(lower):
            start = match.start()
            yield next(v for v, form in self._each if form.match(lower, start)), *match.span()


class Names(Vocabulary):
    """First or last names of persons.

    Args:
        names: the names.
    """

    def __init__(self, names: Iterable[str]):
        self._by_word = {name.lower(): name for name in names}
        super().__init__(dict(zip(self._by_word.values(), self._by_word, strict=True)))

    def find(self, text: str) -> Iterator[tuple[str, int, int]]:
        """Yields the names in a text, with start and stop. "New York" is a city."""
        for match in _WORD.finditer(text):
            name = self._by_word.get(match[0].lower())
            if name and text[match.start() - 4 : match.start()].lower() != "new ":
                yield name, *match.span()


_WORD = re.compile(r"\w+")
Words = Mapping[str, Vocabulary]
"""Kind -> its values."""

_UNITS: dict[str, str] = {
    "litre": r"(?:litres?|liters?|l)",
    "litres": r"(?:litres?|liters?|l)",
    "feet": r"(?:feet|foot|ft|')",
    "megapixels": r"(?:mega ?pixels?|mp)",
    "mm": r"(?:mm|millimet(?:er|re)s?)",
}
_STREETS: dict[str, str] = {
    "Street": r"(?:Street|St\b\.?)",
    "Road": r"(?:Road|Rd\b\.?)",
    "Lane": r"(?:Lane|Ln\b\.?)",
    "Avenue": r"(?:Avenue|Ave?\b\.?)",
    "Drive": r"(?:Drive|Dr\b\.?)",
    "Court": r"(?:Court|Ct\b\.?)",
}
_OTHER_USES = (
    r"(?! (?:refund|price|amount|details|name|address|list|cost|payment|order|difference))"
)
"""Words behind "full" and the like that make it something else than an option."""

REASONS = Vocabulary(
    {
        "no longer needed": r"\bunneeded\b|\bno (?:longer|more) (?:needed|wanted|required)\b",
        "ordered by mistake": r"\b(?:by mistake|mistaken(?:ly)?|accident(?:al(?:ly)?)?)\b",
    },
    ("unneeded", "no longer", "no more", "mistake", "accident"),
)
"""Reasons of a cancellation, after `proposals` has read "no longer needed"."""
CABINS = Vocabulary(
    {
        "basic_economy": r"\bbasic[ _-]?economy\b",
        "economy": r"(?<!basic[ _-])(?<!basic)\beconomy\b",
        "business": r"\bbusiness\b(?! days?\b)",
        "first": r"\bfirst[ -]class\b",
    },
    ("economy", "business", "first"),
)
INSURANCE = Vocabulary({"no": r"\buninsured\b", "yes": r"\binsur(?:ance|ed)\b"}, ("insur",))
"""Choices about insurance, after `proposals` has read "without insurance"."""


def option_pattern(value: str) -> str:
    """Returns the pattern of the value of an option, such as "2 litres", "in-ear" or "1000"."""
    number, _, unit = value.partition(" ")
    if found := re.fullmatch(r"(\d+)(x?)", number):
        digits = f"{int(found[1]):,}".replace(",", ",?")
        end = _UNITS.get(unit, re.escape(unit) if unit else re.escape(found[2]))
        after = rf"[ -]?{end}(?!\w)" if unit else f"{end}(?![\\w.,]*\\d)"
        return rf"(?<![\w.,$#-]){digits}{after}"
    words = r"[ -]?".join(map(re.escape, re.split(r"[ -]", value)))
    return rf"\b{words}\b{_OTHER_USES}"


def option_words(options: Mapping[str, Iterable[str]]) -> Words:
    """Returns the words of the options of a product.

    Args:
        options: option -> its values.
    """
    return {
        name: Vocabulary({value: option_pattern(value) for value in values})
        for name, values in options.items()
    }


def product_words(names: Iterable[str]) -> Vocabulary:
    """Returns the names of products, also in the singular and the plural."""
    patterns = {name: rf"\b{name.replace(' ', ' ?').rstrip('s')}s?\b" for name in names}
    return Vocabulary(patterns, (name.partition(" ")[0].rstrip("s") for name in patterns))


class Street(Vocabulary):
    """A street with its number, such as "12 Oak Street".

    Args:
        street: the street.
    """

    def __init__(self, street: str):
        *words, kind = street.split()
        super().__init__({street: ""})
        self._begin = f"{' '.join(words)} ".lower()
        self._end = _street_end(kind)

    def find(self, text: str) -> Iterator[tuple[str, int, int]]:
        """Yields the street where it occurs in a text, with start and stop."""
        lower = text.lower()
        lower = lower if len(lower) == len(text) else text
        at = lower.find(self._begin)
        while at >= 0:
            end = self._end.match(lower, at + len(self._begin))
            following = at + 1
            if end and not _INSIDE.match(lower, at):
                following = end.end()
                yield self.values[0], at, following
            at = lower.find(self._begin, following)


_INSIDE = re.compile(r"\B")


@lru_cache(maxsize=64)
def _street_end(kind: str) -> re.Pattern[str]:
    return re.compile(_STREETS.get(kind, re.escape(kind)).lower())


def street_words(street: str) -> Vocabulary:
    """Returns a street with its number, such as "12 Oak Street"."""
    return Street(street)


CITY_WORDS = Vocabulary(
    {city: rf"\b{city}\b" for city, _, _ in CITIES}, (city for city, _, _ in CITIES)
)
NAME_WORDS = Names((*FIRST, *LAST))
