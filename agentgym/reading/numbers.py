"""Numbers and amounts in text, by value."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from agentgym.reading.dates import find_dates, find_times
from agentgym.reading.number_words import find_word_numbers
from agentgym.reading.typography import normalized

_SCALES: dict[str, int] = {
    "hundred": 100, "k": 10**3, "thousand": 10**3, "grand": 10**3, "m": 10**6, "mn": 10**6,
    "mio": 10**6, "million": 10**6, "b": 10**9, "bn": 10**9, "billion": 10**9,
    "trillion": 10**12, "dozen": 12,
}  # fmt: skip
_CURRENCIES: dict[str, str] = {
    "us$": "$", "usd": "$", "dollar": "$", "buck": "$", "eur": "€", "euro": "€", "gbp": "£",
    "pound": "£", "jpy": "¥", "yen": "¥", "inr": "₹", "rupee": "₹", "cent": "¢", "percent": "%",
    "per cent": "%", "percentage point": "%",
}  # fmt: skip
_UNITS = (
    "km|mi|mph|mpg|hp|kwh|kw|gb|mb|tb|kb|kg|g|lbs?|oz|cm|mm|ft|in|cc|ms|s|h|hrs?|mins?|px|l|ml|x"
)
_VULGAR = {"¼": (1, 4), "½": (1, 2), "¾": (3, 4), "⅓": (1, 3), "⅔": (2, 3), "⅛": (1, 8)}
_HALVES = "".join(_VULGAR)
# Each form is bounded and guarded on both sides, so that longer rows of digits are codes.
_CORE = re.compile(
    rf"""
    (?<![\w][.@/\\])(?<!\b[A-Za-z]-)(?<![A-Z]-)(?:(?<![\w{_HALVES}])|(?<=\b[xX]))
    (?:(?P<digits>
        \d{{1,3}}(?:,\d{{2,3}}){{0,12}},\d{{3}}(?:\.\d{{1,20}})?(?!\d|,\d)
      | \d{{1,3}}(?:\.\d{{3}}){{1,12}},\d{{1,2}}(?!\d|,\d)
      | \d{{1,3}}(?:['_]\d{{3}}){{1,12}}(?:\.\d{{1,20}})?(?!\d)
      | (?:\d{{1,40}}(?:\.\d{{1,20}})?|\.\d{{1,20}})(?:[eE][-+]?\d{{1,2}})?(?!\d)
      )
      (?:[ ]?(?P<vulgar>[{_HALVES}])|(?P<over>/\d{{1,9}}(?![\d/]))
        |[ ](?P<mixed>\d{{1,3}}/\d{{1,3}}(?![\w/])))?
    |(?P<half>[{_HALVES}]))
    """,
    re.VERBOSE,
)
_LEFT = re.compile(
    r"""
    (?:(?P<sign>(?<![\w.)%\]])[-+])|(?P<word>\b(?:minus|negative)[ ]))?
    (?:(?P<currency>\bus\$|[$€£¥₹]|\b(?:usd|eur|gbp|jpy|inr)\b)[ ]?(?P<inner>[-+])?)?
    (?P<x>(?<!\w)x)?$
    """,
    re.IGNORECASE | re.VERBOSE,
)
_SCALE = re.compile(
    r"[ ]?(?:k|bn|mio)(?!\w)|(?:m|mn|b)(?!\w)"
    r"|[ -]?(?:hundred|thousand|grand|million|billion|trillion|dozen)s?(?!\w)",
    re.IGNORECASE,
)
_RIGHT = re.compile(
    r"[ -]?(?P<name>dollar|usd|buck|euro|eur|pound|gbp|cent|yen|jpy|rupee|inr|percentage[ ]point"
    r"|per[ ]cent|percent)s?(?!\w)|[ ]?(?P<mark>[$€£¥₹%¢])(?![ ]?\d)",
    re.IGNORECASE,
)
_UNIT = re.compile(rf"(?:{_UNITS})(?!\w)", re.IGNORECASE)
_DIGIT = re.compile(rf"[0-9{_HALVES}]")
_FIRST = re.compile(rf"[\d.{_HALVES}]")
_ROW = re.compile(r"\d-\d")
_ROWS = re.compile(r"(?<![\w-])\+?\d{1,9}(?:-\d{1,9}){2,9}(?![\w-])")
_ORDINAL = re.compile(r"(?<![\w.,])(\d{1,9})(?:st|nd|rd|th)(?!\w)", re.IGNORECASE)
_ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()
)
_ORDINAL_WORD = re.compile(rf"(?<!\w)(?:{'|'.join(_ORDINALS)})(?!\w)", re.IGNORECASE)


# Frozen for type checkers only: at run time, a frozen one takes four times as long to make.
@dataclass(frozen=TYPE_CHECKING, slots=True)
class Number:
    """A number in a text.

    Attributes:
        value: the exact value. Percentages are not divided by 100.
        start: index of the first character in `normalized(text)`, with its sign and currency.
        stop: index after the last one, with its unit.
        unit: "$", "€", "£", "¥", "₹", "%", a unit such as "km" that is attached to it, or "".
    """

    value: Fraction
    start: int
    stop: int
    unit: str = ""


def find_numbers(text: str) -> list[Number]:
    """Returns the numbers in a text, in order, each once.

    Digits ("1,880.00", "1.880,00", "-3", "1/2", "2½", "1e5"), amounts ("$28k", "28 grand", "USD
    500", "5 dollars", "50 cents" as 1/2 "$"), percentages and words ("twenty-five", "a hundred and
    five", "two and a half", "a dozen", "half"). Dates, times of day, rows such as telephone
    numbers, ordinals and the digits of codes ("W7232833", "player_0", "F-150", "1.2.3") are not
    numbers. "1.880" is a decimal, and "m" right behind digits a million.
    """
    text = normalized(text)
    return list(_recent(text) if len(text) < _LONGEST_CACHED else _find(text))


def _find(text: str) -> tuple[Number, ...]:
    numbers: list[Number] = []
    if _DIGIT.search(text):
        taken = [(date.start, date.stop) for date in find_dates(text)]
        taken += [(time.start, time.stop) for time in find_times(text)]
        if _ROW.search(text):
            taken += [match.span() for match in _ROWS.finditer(text)]
        spans = _Spans(taken)
        cores = [core for match in _matches(text) for core in _values(match)]
        framed = (_framed(text, *core) for core in cores if spans.free(*core[1:]))
        numbers = [n for n in framed if n and spans.free(n.start, n.stop)]
    words = [n for core in find_word_numbers(text) if (n := _framed(text, *core))]
    if words:
        spans = _Spans([(n.start, n.stop) for n in numbers])
        free = (n for n in words if spans.free(n.start, n.stop))
        numbers = sorted([*numbers, *free], key=lambda n: n.start)
    return tuple(_with_cents(text, numbers))


_LONGEST_CACHED = 1000
_recent = lru_cache(maxsize=256)(_find)
"""The numbers of short texts, which are read for several purposes."""


def _matches(text: str) -> Iterator[re.Match[str]]:
    """Yields the matches of `_CORE`, which is tried only where a number can start: fast."""
    at = 0
    while first := _FIRST.search(text, at):
        match = _CORE.match(text, first.start())
        at = match.end() if match else first.end()
        if match:
            yield match


class _Spans:
    """Sorted spans of a text, in which overlaps are found in logarithmic time."""

    def __init__(self, spans: list[tuple[int, int]]):
        self.spans = sorted(spans)
        self.starts = [start for start, _ in self.spans]

    def free(self, start: int, stop: int) -> bool:
        """Whether no span overlaps with a part of the text."""
        at = bisect_left(self.starts, stop)
        return not any(end > start for _, end in self.spans[max(0, at - 3) : at])


def _values(match: re.Match[str]) -> Iterator[tuple[Fraction, int, int]]:
    """Yields value, start and stop of the numbers of a match: two for "5/0"."""
    start, stop = match.span()
    if match["half"]:
        yield Fraction(*_VULGAR[match["half"]]), start, stop
        return
    value = _exact(match["digits"])
    if match["vulgar"]:
        value += Fraction(*_VULGAR[match["vulgar"]])
    elif match["mixed"]:
        over, under = map(int, match["mixed"].split("/"))
        if not 0 < over < under:
            yield value, start, match.end("digits")
            start = match.start("mixed")
            value = Fraction(0)
        if under == 0:
            yield Fraction(over), start, start + len(str(over))
            yield Fraction(0), stop - 1, stop
            return
        value += Fraction(over, under)
    elif match["over"]:
        under = int(match["over"][1:])
        if not under:
            yield value, start, match.end("digits")
            yield Fraction(0), match.start("over") + 1, stop
            return
        value /= under
    yield value, start, stop


def _exact(digits: str) -> Fraction:
    """Returns the value of digits with separators."""
    if "," in digits and "." in digits and digits.rfind(",") > digits.rfind("."):
        digits = digits.replace(".", "").replace(",", ".")
    if digits.isdecimal():
        return Fraction(int(digits))
    return Fraction(digits.replace(",", "").replace("'", "").replace("_", ""))


_ENDINGS = ("", ".", ",", ";", ":", ")", "?", "!", "'", '"', "\n")
"""Characters behind a number without a scale and a unit."""
_SIGNS = frozenset("-+$€£¥₹xXdDrRpPyY\n")
_FRAMES = ("minus", "negative", "us$", "usd", "eur", "gbp", "jpy", "inr", *"$€£¥₹")


def _may_be_framed(text: str, start: int) -> bool:
    """Whether a number can have a sign or a currency before it, or `_LEFT` must decide."""
    last = text[start - 1 : start]
    if last == " ":
        before = text[max(0, start - 10) : start - 1]
        return before.lower().endswith(_FRAMES) or not before.isascii()
    return last in _SIGNS or not last.isascii()


def _framed(text: str, value: Fraction, start: int, stop: int) -> Number | None:
    """Returns a number with the sign, currency, scale and unit around it. None for a code."""
    window = max(0, start - 16)
    unit = ""
    if _may_be_framed(text, start) and (left := _LEFT.search(text[window:start])):
        sign = left["sign"] or left["inner"] or ("-" if left["word"] else "")
        value = -value if sign.startswith("-") else value
        unit = _CURRENCIES.get((left["currency"] or "").lower(), left["currency"] or "")
        unit = "x" if left["x"] else unit
        start = window + left.start()
    if text[stop : stop + 1] not in _ENDINGS:
        value, unit, stop = _with_unit(text, value, unit, stop)
    behind = text[stop : stop + 2]
    if behind[:1].isalnum() or behind[:1] == "_" or (behind[:1] == "." and behind[1:].isdigit()):
        return None
    return Number(value, start, stop, unit)


def _with_unit(text: str, value: Fraction, unit: str, stop: int) -> tuple[Fraction, str, int]:
    """Returns value, unit and end of a number with the scale and the unit behind it."""
    digit = text[stop - 1].isdigit()
    scale = _SCALE.match(text, stop)
    if scale:
        value *= _SCALES[_singular(scale[0].strip(" -").lower(), _SCALES)]
        stop = scale.end()
    if right := _RIGHT.match(text, stop):
        name = right["mark"] or _CURRENCIES[right["name"].lower()]
        return value, unit or name, right.end()
    if digit and not scale and (attached := _UNIT.match(text, stop)):
        return value, unit or attached[0].lower(), attached.end()
    return value, unit, stop


def _singular(word: str, known: dict[str, int]) -> str:
    return word if word in known else word.removesuffix("s")


def _with_cents(text: str, numbers: list[Number]) -> Iterator[Number]:
    """Yields the numbers with cents as parts of dollars: "2 dollars and 50 cents" is one amount."""
    last: Number | None = None
    for number in numbers:
        if number.unit == "¢":
            number = replace(number, value=number.value / 100, unit="$")
            gap = text[last.stop : number.start] if last else ""
            if last and last.unit == "$" and gap in (" ", " and ", ", "):
                last = Number(last.value + number.value, last.start, number.stop, "$")
                continue
        if last:
            yield last
        last = number
    if last:
        yield last


def find_ordinals(text: str) -> list[Number]:
    """Returns the ordinals in a text, in order: "1st", "third" up to "twelfth"."""
    text = normalized(text)
    found = [Number(Fraction(m[1]), *m.span()) for m in _ORDINAL.finditer(text)]
    for match in _ORDINAL_WORD.finditer(text):
        found.append(Number(Fraction([*_ORDINALS].index(match[0].lower()) + 1), *match.span()))
    return sorted(found, key=lambda number: number.start)


_BOXED = re.compile(r"\\(?:boxed|fbox|text|mathrm|mathbf)\s?\{([^{}]{0,200})\}")
_LATEX = re.compile(r"\\[td]?frac\s?\{(\d{1,9})\}\s?\{(\d{1,9})\}")
_DIGITS = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{1,20})?")
_AROUND = " \t\r\n*_`\"'~"
_PAIRS = {"(": ")", "[": "]", "{": "}", "$": "$", "\\(": "\\)", "\\[": "\\]"}


def undecorated(text: str) -> str:
    r"""Returns a short answer without the marks around it: `**12**`, `\boxed{7}`, `$5$`, "= 5."."""
    text, before = normalized(text).strip(), ""
    if len(text) > 1000:
        return text
    while text != before:
        before = text
        text = text.strip(_AROUND)
        if boxed := _BOXED.fullmatch(text):
            text = boxed[1]
        for opening, closing in _PAIRS.items():
            if len(text) > len(opening) + len(closing) and text.startswith(opening):
                if text.endswith(closing) and closing not in text[len(opening) : -len(closing)]:
                    text = text[len(opening) : -len(closing)]
        text = text.removeprefix("=").strip()
        text = text.rstrip(".!;,") or text
    return text


def parse_amount(text: str) -> Number | None:
    r"""Returns the number of a text that is a number and nothing else, else None.

    Examples are "$1,880.00", "-3", "twenty-five", `\boxed{7}`, "**12**", "= 5" and "20 %".
    """
    if _DIGITS.fullmatch(text):
        return Number(Fraction(text), 0, len(text))
    text = _LATEX.sub(r"\1/\2", undecorated(text)).replace("\\$", "$").replace("\\%", "%")
    if not text or len(text) > 200:
        return None
    found = find_numbers(text)
    whole = len(found) == 1 and (found[0].start, found[0].stop) == (0, len(text))
    return found[0] if whole else None


def parse_number(text: str) -> Fraction | None:
    """Returns the value of a text that is one number, else None: see `parse_amount`.

    Currencies are accepted. Percentages and other units are not: 20 % is not 20.
    """
    found = parse_amount(text)
    return found.value if found and (not found.unit or found.unit in "$€£¥₹") else None


def parse_whole(text: str, most: int, least: int = 0) -> int | None:
    """Returns the whole number from `least` to `most` that a text is, else None."""
    value = parse_number(text)
    if value is None or value.denominator != 1 or not least <= value <= most:
        return None
    return int(value)


def exact(value: Any) -> Fraction | None:
    """Returns the exact value of a number, or of a text that is one. None for anything else.

    A float counts as the decimal that it prints: 0.1 is 1/10.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return parse_number(value)
    if isinstance(value, float):
        return Fraction(repr(value)) if math.isfinite(value) else None
    return Fraction(value) if isinstance(value, int | Fraction) else None


def same_number(left: Any, right: Any) -> bool:
    """Whether two numbers, or texts that are numbers, have the same value."""
    first, second = exact(left), exact(right)
    return first is not None and first == second
