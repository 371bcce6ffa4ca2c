"""Reads the values that a message of a service agent mentions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from agentgym.envs.service.database import plain_key
from agentgym.envs.service.proposals import Proposal
from agentgym.reading.dates import Date, find_dates
from agentgym.reading.numbers import Number, exact, find_numbers
from agentgym.reading.typography import folds_plainly


@dataclass(frozen=True, slots=True)
class Mention:
    """A value in a message.

    Attributes:
        kind: see `Value`.
        values: the values that it can be. None of them: it is unknown to the user.
        start: index of its first character.
        stop: index after the last one.
        shown: the words of the message.
    """

    kind: str
    values: frozenset[str]
    start: int
    stop: int
    shown: str


_ORDER = re.compile(r"(?<![\w-])(?:#\s?w|w(?=\d{4}))\s?\d{1,9}\b", re.IGNORECASE)
_MARKED = re.compile(r"#\s?[wW]|[wW]\s?\d")
"""A part of every match of `_ORDER`."""
_CODE = re.compile(r"(?<![\w#-])[A-Za-z0-9]{6}(?![\w-])")
_NAMED_CODE = re.compile(
    r"\b(?:reservation|booking)(?: (?:number|id|code|no\.?))?[: #]{1,3}([A-Z0-9]{6})\b"
)
_FLIGHT = re.compile(
    r"\b(?!USD|EUR|GBP)([A-Z]{2,3}|ag)[ -]?\d{3,4}\b|\b[Ff]light (?:number |no\.? |#)?"
    r"(?P<bare>\d{3,4})\b"
)
_CARD = re.compile(
    r"(?:\bend(?:s|ing)?(?: in| with| on)?|\blast (?:four|4)(?: digits)?(?: are| is)?|"
    r"[*x\u2022]{2,})"
    r"[ :-]{0,2}[*x\u2022]{0,12}(\d{4})\b",
    re.IGNORECASE,
)
_FOUR_DIGITS = re.compile(r"\d{4}\b")
_METHOD_ID = re.compile(r"\b(?:credit_card|debit_card|gift_card|paypal|certificate)_\d+\b", re.I)
_METHOD = re.compile(
    r"\b(?:(?P<visa>visa)|(?P<mastercard>master ?card)|(?P<other>amex|american express|discover|"
    r"debit card|apple pay|google pay|bank transfer|cash|cheque|venmo|store credit)|"
    r"(?P<paypal>pay ?pal)|(?P<gift_card>gift[ -]?(?:card|certificate))|"
    r"(?P<certificate>certificate)|(?P<credit_card>credit[ -]?card)|"
    r"(?P<original>original (?:payment )?(?:method|form of payment|card|payment)))\b",
    re.IGNORECASE,
)
_METHOD_WORDS = frozenset(
    "visa master mastercard amex american discover debit apple google bank cash cheque venmo store "
    "pay paypal gift giftcard giftcertificate certificate credit creditcard original".split()
)
"""Words, with one of which each match of `_METHOD` starts."""
_BAGS = re.compile(
    r"(?<![\w.$#-])(?P<count>\d{1,3}|one|two|three|four|five|six)(?: \w{2,12}){0,2} "
    r"(?:bags?|suitcases?|pieces of (?:luggage|baggage))\b",
    re.IGNORECASE,
)
_BAGS_SET = re.compile(
    r"\b(?:bags?|baggages?|luggage|suitcases?)\b[^.?!\n\d]{0,40}?(?: to|:| =| is| are) "
    r"(?P<count>\d{1,3}|one|two|three|four|five|six)\b(?! (?:of|free|paid))",
    re.IGNORECASE,
)
_TIMED = re.compile(
    r"\s?-?(?:(?:to|-|or) ?\d{1,3} )?(?:business |working )?(?:hours?|days?|weeks?|minutes?|"
    r"months?|"
    r"am\b|pm\b)|%",
    re.IGNORECASE,
)
_RANGE = re.compile(r"\s?(?:-|to|or)\s?$")
_MARKER = re.compile(r"(?:^|\n)[ \t]*\(?$|\b(?:step|option|part|point)\s$", re.IGNORECASE)


_WORD = re.compile(r"\w+")


def read_mentions(text: str, proposal: Proposal) -> list[Mention]:
    """Returns the values that a message mentions, in order.

    Args:
        text: the message.
        proposal: the values that its words can mean.
    """
    return _Reader(text, proposal).mentions()


class _Reader:
    """Reads the values in a message, each once."""

    def __init__(self, text: str, proposal: Proposal):
        self.text, self.proposal = text, proposal
        self.words = [*_WORD.finditer(text)]
        self.found: list[Mention] = []

    def _add(self, kind: str, values: Iterable[str], start: int, stop: int) -> None:
        if all(stop <= m.start or m.stop <= start for m in self.found):
            shown = self.text[start:stop]
            self.found.append(Mention(kind, frozenset(values), start, stop, shown))

    def mentions(self) -> list[Mention]:
        """Returns all mentions, in order."""
        self._keys()
        for date in find_dates(self.text):
            self._add("date", self._dates(date), date.start, date.stop)
        self._methods()
        for kind, values in self.proposal.words.items():
            for value, start, stop in values.find(self.text):
                self._add(kind, [value], start, stop)
        self._bags()
        self._numbers()
        return sorted(self.found, key=lambda mention: mention.start)

    def _keys(self) -> None:
        """Adds orders, reservations and flights."""
        known = {plain_key(value): value for value in self.proposal.allowed.get("order", ())}
        for match in _ORDER.finditer(self.text) if _MARKED.search(self.text) else ():
            self._add("order", [known.get(plain_key(match[0]), match[0])], *match.span())
        for word in self.words:
            if word.end() - word.start() == 6 and (match := _CODE.match(self.text, word.start())):
                key = plain_key(match[0])
                if key in known or _is_code(match[0]):
                    self._add("order", [known.get(key, match[0])], *match.span())
        named = "reservation" in self.text or "booking" in self.text
        for match in _NAMED_CODE.finditer(self.text) if named else ():
            self._add("order", [known.get(plain_key(match[1]), match[1])], *match.span(1))
        self._flights()

    def _flights(self) -> None:
        flights = {plain_key(value): value for value in self.proposal.allowed.get("flight", ())}
        for match in _FLIGHT.finditer(self.text) if flights else ():
            named = match["bare"] or plain_key(match[0])
            found = [v for key, v in flights.items() if key == named or key[2:] == match["bare"]]
            self._add("flight", found or [named], *match.span())

    def _dates(self, date: Date) -> list[str]:
        known = [
            value for value in self.proposal.allowed.get("date", ()) if date.matches(_date(value))
        ]
        return known or [self.text[date.start : date.stop]]

    def _methods(self) -> None:
        """Adds payment methods by id, last digits, brand or kind."""
        methods = self.proposal.methods
        if not methods:
            return
        for match in _METHOD_ID.finditer(self.text) if "_" in self.text else ():
            self._add("method", {match[0].lower()} & methods.keys(), *match.span())
        for match in _CARD.finditer(self.text) if _FOUR_DIGITS.search(self.text) else ():
            held = [key for key, m in methods.items() if m.get("last_four") == match[1]]
            self._add("method", held, *match.span())
        for match in self._method_names():
            kind = str(match.lastgroup)
            if kind == "original":
                if self.proposal.original:
                    self._add("method", [self.proposal.original], *match.span())
                continue
            held = [key for key, m in methods.items() if kind in (m["source"], m.get("brand"))]
            self._add("method", held, *match.span())

    def _method_names(self) -> Iterator[re.Match[str]]:
        """Yields the matches of `_METHOD`, which is tried only at its words: fast."""
        if not folds_plainly(self.text):
            yield from _METHOD.finditer(self.text)
            return
        at = 0
        for word in self.words:
            if word.start() < at or word[0].lower() not in _METHOD_WORDS:
                continue
            if match := _METHOD.match(self.text, word.start()):
                at = match.end()
                yield match

    def _bags(self) -> None:
        if "bags" not in self.proposal.allowed:
            return
        text = self.text
        for known in self.found:  # the digits of other values are no counts
            text = f"{text[: known.start]}{'~' * (known.stop - known.start)}{text[known.stop :]}"
        for pattern in (_BAGS_SET, _BAGS):
            for match in pattern.finditer(text):
                count = exact(match["count"])
                total = pattern is _BAGS_SET or "total" in match[0].lower()
                kind = "all bags" if total else "bags"
                self._add(kind, [str(count)], match.start("count"), match.end("count"))

    def _numbers(self) -> None:
        for number in find_numbers(self.text):
            kind = "amount" if number.unit == "$" else "number"
            if kind == "amount" or not _ignored(self.text, number):
                self._add(kind, [str(abs(number.value))], number.start, number.stop)


@lru_cache(maxsize=1024)
def _date(value: str) -> Date:
    return find_dates(value)[0]


def _is_code(word: str) -> bool:
    """Whether a word of six characters looks like the number of a reservation."""
    return word.isupper() and any(c.isdigit() for c in word) and any(c.isalpha() for c in word)


def _ignored(text: str, number: Number) -> bool:
    """Whether a number is a duration, a share or the mark of a list item."""
    if number.unit and number.unit not in "$€£¥₹":
        return True
    shown = text[number.start : number.stop].lstrip()
    before, after = text[: number.stop - len(shown)], text[number.stop :]
    marked = after[:1] in (".", ")") and not after[1:2].isdigit()
    if marked and _MARKER.search(before[-12:]):
        return True
    return bool(_TIMED.match(after) or (_RANGE.match(after[:4]) and _TIMED.search(after[:20])))
