"""Dates and times of day in text, by value."""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from agentgym.reading.typography import normalized

_MONTHS = {name.lower(): i for i, name in enumerate(calendar.month_name) if name}
_MONTHS |= {name[:3]: month for name, month in _MONTHS.items()} | {"sept": 9}
_DAYS = {name.lower(): i for i, name in enumerate(calendar.day_name)}
_DAYS |= {name[:3]: day for name, day in _DAYS.items()}
_DAYS |= {"tues": 1, "weds": 2, "thur": 3, "thurs": 3}
_MONTH = rf"(?P<month>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})\b\.?"
_DAY = r"(?P<day>0?[1-9]|[12][0-9]|3[01])(?P<ordinal>st|nd|rd|th)?"
_YEAR = r"(?P<year>[12][0-9]{3})"
_TO = r"(?:[ ]?-[ ]?|[ ](?:to|and|or|through|until|till)[ ]|[ ]?&[ ]?)"
_WEEKDAY = re.compile(
    rf"\b({'|'.join(sorted(_DAYS, key=len, reverse=True))})\b[.,]?[ ](?:the[ ])?$", re.IGNORECASE
)
_THEN = rf"(?:(?:,[ ]?|[ ]){_YEAR}(?![\w-]))?"
_THEN_YEAR = rf"(?:(?:,[ ]?|[ -]){_YEAR}(?!\w))?"
_EDGE = r"(?<![\w/])(?<!\d[.-])"
_FORMS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_EDGE}{_YEAR}(?P<mark>[-/.])(?P<month>1[0-2]|0?[1-9])(?P=mark){_DAY}(?=T[0-9]|(?![\w/])(?![-.]\d))",
        rf"{_EDGE}(?P<first>[0-9]{{1,2}})(?P<mark>[-/.])(?P<second>[0-9]{{1,2}})(?P=mark)"
        r"(?P<short>[12][0-9]{3}|[0-9]{2})(?![\w/])(?![-.]\d)",
        rf"\b{_MONTH}[ ](?:the[ ])?{_DAY}(?![\w:])(?![.]\d){_THEN}",
        rf"(?<![\w/])(?<!\d[.]){_DAY}[.]?[ -](?:of[ ])?{_MONTH}(?!\w){_THEN_YEAR}",
    )
)
_RANGE_AFTER = re.compile(rf"{_TO}{_DAY}(?![\w/:])(?![.]\d)(?:,[ ]?{_YEAR}(?!\w))?", re.IGNORECASE)
_RANGE_BEFORE = re.compile(rf"(?<![\w./-]){_DAY}{_TO}$", re.IGNORECASE)
# What the first two forms, the others, and times of day need: much faster to find.
_DIGITS = re.compile(r"[0-9]([-/.])[0-9]{1,2}\1[0-9]")
_ANY = re.compile("[0-9]")
_NAMES = re.compile(r"\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)")
_CLOCK = re.compile(r"[0-9](?::[0-5]|[ ]?[apAP]\.?[mM])")
_WORDS = ("may", "march", "mar")
_AT = re.compile(r"\b(?:on|for|by|from|to|until|till|of|is|since|before|after|and|or|[(,])\s?$")
_TIME = re.compile(
    r"(?<![\w:.])(?P<hour>[01]?[0-9]|2[0-4])(?::(?P<minute>[0-5][0-9])(?::(?P<second>[0-5][0-9]))?)?"
    r"(?:[ ]?(?P<half>[ap])(?:m|\.m\.?)(?![\w]))?(?![\w])(?![:]\d)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Date:
    """A date in a text.

    Attributes:
        year: the year, or None if the text leaves it open.
        month: the month, 1 to 12.
        day: the day of the month.
        start: index of the first character in `normalized(text)`.
        stop: index after the last one.
        weekday: the named day of the week, 0 (Monday) to 6, or None.
    """

    year: int | None
    month: int
    day: int
    start: int = 0
    stop: int = 0
    weekday: int | None = None

    def matches(self, other: Date) -> bool:
        """Whether both can be the same day. A year that is left open matches any year.

        A day of the week that contradicts the date matches nothing.
        """
        years = {self.year, other.year} - {None}
        if (self.month, self.day) != (other.month, other.day) or len(years) > 1:
            return False
        weekdays = {self.weekday, other.weekday} - {None}
        if years and weekdays:
            (year,) = years
            weekdays.add(calendar.weekday(year or 0, self.month, self.day))
        return len(weekdays) < 2


@dataclass(frozen=True, slots=True)
class Time:
    """A time of day in a text: minutes since midnight, and its place in `normalized(text)`."""

    minutes: int
    start: int
    stop: int


def find_dates(text: str) -> list[Date]:
    """Returns the dates in a text, in order.

    Forms: 2024-05-24, May 24, 2024, 24 May 2024, May 24th, the 24th of May, May 24-26 (two dates),
    24.05.2024 (day first), 5/24/2024 and 5-24-2024 (month first, as in the US; day first if it
    cannot be a month). A year of two digits is in this century.
    """
    text = normalized(text)
    return list(_recent(text) if len(text) < _LONGEST_CACHED else _find(text))


def _find(text: str) -> tuple[Date, ...]:
    if not (possible := _possible(text)):
        return ()
    found: list[Date] = []
    taken = bytearray(len(text))
    for number in possible:
        for match in _FORMS[number].finditer(text):
            for date in () if any(taken[slice(*match.span())]) else _read(text, match, number):
                found.append(date)
                taken[date.start : date.stop] = b"x" * (date.stop - date.start)
    return tuple(sorted(found, key=lambda date: date.start))


_LONGEST_CACHED = 1000
_recent = lru_cache(maxsize=256)(_find)
"""The dates of short texts, which are read for several purposes."""


def _possible(text: str) -> list[int]:
    """Returns the forms of dates that a text can have."""
    if not _ANY.search(text):
        return []
    named = not text.isascii() or _NAMES.search(text.lower())
    return [*((0, 1) if _DIGITS.search(text) else ()), *((2, 3) if named else ())]


def _read(text: str, match: re.Match[str], form: int) -> Iterator[Date]:
    """Yields the dates of a match of one of the forms: several in a range of days."""
    fields = match.groupdict()
    if form == 1:
        first, second, short = int(fields["first"]), int(fields["second"]), fields["short"]
        day_first = fields["mark"] == "." or first > 12
        month, day = (second, first) if day_first else (first, second)
        year = int(short) + (2000 if len(short) == 2 else 0)
    else:
        if form >= 2 and not _is_month(text, match):
            return
        named = fields["month"].lower()
        month, day = _MONTHS.get(named) or int(named), int(fields["day"])
        year = int(fields["year"]) if fields["year"] else None
    start, stop = match.span()
    weekday = _WEEKDAY.search(text[max(0, start - 16) : start])
    if weekday:
        start -= len(weekday[0])
    named_day = _DAYS[weekday[1].lower()] if weekday else None
    if form == 2 and (further := _RANGE_AFTER.match(text, stop)) and fields["year"] is None:
        year = int(further["year"]) if further["year"] else None
        second_day = int(further["day"])
        if _exists(year, month, second_day) and _exists(year, month, day):
            yield Date(year, month, day, start, stop, named_day)
            yield Date(year, month, second_day, further.start("day"), further.end())
            return
    if form == 3 and (before := _RANGE_BEFORE.search(text[max(0, start - 16) : start])):
        begin = max(0, start - 16) + before.start()
        if _exists(year, month, int(before["day"])):
            yield Date(
                year, month, int(before["day"]), begin, begin + before.end("day") - before.start()
            )
    if _exists(year, month, day):
        yield Date(year, month, day, start, stop, named_day)


def _is_month(text: str, match: re.Match[str]) -> bool:
    """Whether a word such as "may" is the month and no verb."""
    word = match["month"]
    if word.lower() not in _WORDS or not word.islower():
        return True
    if match["ordinal"] or match["year"]:
        return True
    follows = text[match.end() : match.end() + 2].strip()
    before = text[max(0, match.start() - 10) : match.start()]
    return bool(_AT.search(before)) or not follows[:1].isalpha()


def _exists(year: int | None, month: int, day: int) -> bool:
    """Whether there is such a day. Without a year, February has 29 days."""
    return 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year or 2000, month)[1]


def same_date(left: str, right: str) -> bool:
    """Whether two texts have one date each, and it is the same: see `Date.matches`."""
    first, second = find_dates(left), find_dates(right)
    return len(first) == len(second) == 1 and first[0].matches(second[0])


def find_times(text: str) -> list[Time]:
    """Returns the times of day in a text, in order: 15:05, 3:05 pm, 3 p.m."""
    text, found = normalized(text), []
    for match in _TIME.finditer(text) if _CLOCK.search(text) else ():
        hour, half = int(match["hour"]), (match["half"] or "").lower()
        if not (match["minute"] or half) or (half and not 1 <= hour <= 12):
            continue
        hour = hour % 12 + 12 * (half == "p") if half else hour
        found.append(Time(hour * 60 + int(match["minute"] or 0), match.start(), match.end()))
    return found
