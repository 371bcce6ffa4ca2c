"""Proposals of service agents: the scripted user compares their values, not their words.

A proposal is agreed to if it names the change and all its values, and no other value. A value
that is replaced ("from May 20 to May 24"), and one that is denied or quoted, does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

from agentgym.envs.service.database import plain_key
from agentgym.envs.service.messages import plain, without_polite
from agentgym.envs.service.roles import is_old
from agentgym.envs.service.vocabulary import Words
from agentgym.reading.clauses import Clause, find_clauses
from agentgym.reading.dates import Date, find_dates
from agentgym.reading.numbers import Number, exact, find_numbers
from agentgym.reading.typography import folds_plainly

CANCEL = r"\bcancel\w*"
"""Topic of cancellations."""
Value = tuple[str, str]
"""Kind and value: "order" (or reservation), "flight", "date", "amount", "bags", "method" (id of a
payment method), "name", "number", "place" (origin, then destination), or another kind of
`Proposal.words`."""


@dataclass(frozen=True)
class Proposal:
    """The values of a change, by which the user judges a proposal.

    Attributes:
        topic: pattern of the words that name the change.
        needed: the values that the agent must name.
        known: further values that the agent may name. Of a kind of `words`, only needed and known
            values may be named.
        base: amounts of the records concerned. Their sums, differences and multiples are known.
        methods: the user's payment methods by id.
        original: id of the original payment method of the order, if it matters.
        words: kind -> the words of its values, such as the colors of a product.
    """

    topic: str = ""
    needed: tuple[Value, ...] = ()
    known: tuple[Value, ...] = ()
    base: tuple[float, ...] = ()
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    original: str = ""
    words: Words = field(default_factory=dict)

    @cached_property
    def allowed(self) -> dict[str, frozenset[str]]:
        """Kind -> its needed and known values."""
        found: dict[str, set[str]] = {}
        for kind, value in (*self.needed, *self.known):
            found.setdefault(kind, set()).add(value)
        return {kind: frozenset(values) for kind, values in found.items()}


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


# Phrases with a "no" that denies nothing of the proposal.
_UNNEEDED = re.compile(r"\b(?:no longer|not|isn't|don't|do not) (?:need(?:ed)?|wanted)\b", re.I)
_FREE = re.compile(
    r"\b(?:at|with|for|is|there is|has) no (?:\w+ )?(?:cost|charge|fee|difference)s?\b|\bno "
    r"(?:\w+ )?"
    r"(?:cost|charge|fee|difference)s?\b|\bwithout (?:any |\w+ )?(?:fee|cost|charge)s?\b",
    re.IGNORECASE,
)
_UNINSURED = re.compile(
    r"\b(?:without|no|not|don't|declin\w+)(?: \w+){0,3} insurance\b|"
    r"\binsurance(?: is)?[: ]{1,2}(?:no\b|none\b|not \w+|declined)",
    re.IGNORECASE,
)
_NO_BAGS = re.compile(r"\b(?:without|no)(?: any)?(?: checked)? (?:bags?|baggage|luggage)\b", re.I)
_NO_STOPS = re.compile(r"\b(?:non-?stop|no stops?|without stops?)\b", re.IGNORECASE)


def _prepared(message: str) -> str:
    """Returns a message as it is read, without phrases that only seem to deny."""
    text = without_polite(plain(message))
    lower = text.lower()
    for pattern, cues, words in (
        (_UNNEEDED, ("need", "wanted"), "unneeded"),
        (_FREE, ("cost", "charge", "fee", "difference"), "free"),
        (_UNINSURED, ("insurance",), "uninsured"),
        (_NO_BAGS, ("bag", "luggage"), "0 bags"),
        (_NO_STOPS, ("stop",), "direct"),
    ):
        if any(cue in lower for cue in cues) or not text.isascii():
            text = pattern.sub(words, text)
    return text


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
_METHOD_CUES = (
    "visa", "card", "amex", "express", "discover", "pay", "transfer", "cash", "cheque", "venmo",
    "credit", "gift", "certificate", "original",
)  # fmt: skip
"""Texts, one of which each match of `_METHOD` holds."""
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


class _Reader:
    """Reads the values in a message, each once."""

    def __init__(self, text: str, proposal: Proposal):
        self.text, self.proposal = text, proposal
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
        for pattern in (_ORDER, _CODE) if _MARKED.search(self.text) else (_CODE,):
            for match in pattern.finditer(self.text):
                key = plain_key(match[0])
                if key in known or pattern is _ORDER or _is_code(match[0]):
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
        lower = self.text.lower()
        named = any(cue in lower for cue in _METHOD_CUES) or not folds_plainly(self.text)
        for match in _METHOD.finditer(self.text) if named else ():
            kind = str(match.lastgroup)
            if kind == "original":
                if self.proposal.original:
                    self._add("method", [self.proposal.original], *match.span())
                continue
            held = [key for key, m in methods.items() if kind in (m["source"], m.get("brand"))]
            self._add("method", held, *match.span())

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


# The judgement.


@dataclass(frozen=True, slots=True)
class Objection:
    """The reason why a user does not agree to a proposal.

    Attributes:
        kind: "missing" if the change or a value is not named, else the kind of the wrong value.
        shown: the words of the wrong value.
    """

    kind: str
    shown: str = ""


def judge(proposal: Proposal, message: str) -> Objection | None:
    """Returns None if a message names a change, all its values and no other value."""
    text = _prepared(message)
    clauses = [clause for clause in find_clauses(text) if _counts(clause)]
    topic = re.compile(proposal.topic, re.IGNORECASE)
    named: list[Mention] = []
    for mention in _Reader(text, proposal).mentions():
        if not any(clause.start <= mention.start < clause.stop for clause in clauses):
            continue
        if mention.kind not in ("order", "reason", "insurance") and is_old(text, mention.start):
            continue
        if not _fits(proposal, mention):
            return Objection(mention.kind, mention.shown)
        named.append(mention)
    if wrong := _misrouted(proposal, named, text):
        return Objection("place", wrong)
    proposed = any(topic.search(clause.text) for clause in clauses)
    if proposed and all(_named(value, named, text, clauses) for value in proposal.needed):
        return None
    return Objection("missing")


def _counts(clause: Clause) -> bool:
    """Whether the values of a clause are proposed. A proposal can be a question."""
    if clause.negated or clause.conditional or clause.quoted or clause.replaced:
        return False
    return not clause.past or _FIRST.match(clause.text) is not None


_FIRST = re.compile(r"(?:before|after|once|when|as soon as) (?:i|we|you)\b", re.IGNORECASE)
"""The beginning of a clause about an act of the proposal itself."""


def _fits(proposal: Proposal, mention: Mention) -> bool:
    """Whether a mention is a needed or known value."""
    if mention.kind == "all bags":
        return any(("bags", value) in proposal.needed for value in mention.values)
    if mention.kind in ("amount", "number"):
        return _is_known(proposal, mention)
    allowed = proposal.allowed.get(mention.kind, frozenset())
    return bool(allowed & mention.values) or (mention.kind == "date" and not allowed)


def _is_known(proposal: Proposal, mention: Mention) -> bool:
    """Whether a number follows from the values and the amounts of a proposal."""
    (text,) = mention.values
    allowed: frozenset[str] = frozenset()
    if mention.kind == "number":
        allowed = proposal.allowed.get("number", allowed) | proposal.allowed.get("bags", allowed)
    if text in allowed or (mention.kind == "number" and text == "1"):
        return True
    amounts = tuple(sorted(proposal.allowed.get("amount", ())))
    known, value = _amounts(proposal.base, amounts), Fraction(text)
    # One of the amounts, or the sum or the difference of two.
    return value in known or any(value - n in known or value + n in known for n in known)


@lru_cache(maxsize=1024)
def _amounts(base: tuple[float, ...], amounts: tuple[str, ...]) -> frozenset[Fraction]:
    """Returns the absolute values of amounts, and 0."""
    found = (exact(n) for n in (*base, *amounts))
    return frozenset((Fraction(0), *(abs(n) for n in found if n is not None)))


def _named(value: Value, named: list[Mention], text: str, clauses: list[Clause]) -> bool:
    """Whether the proposed part of a message names a value."""
    kind, wanted = value
    if kind == "name":
        return all(_spelled(part, text, clauses) for part in wanted.split())
    if kind == "amount":
        values = (m for m in named if m.kind in ("amount", "number"))
        return any(exact(wanted) == Fraction(v) for m in values for v in m.values)
    kinds = ("bags", "all bags") if kind == "bags" else (kind,)
    return any(m.kind in kinds and wanted in m.values for m in named)


def _spelled(word: str, text: str, clauses: list[Clause]) -> bool:
    """Whether a part of a name is written as a new value."""
    return any(
        clause.start <= start < clause.stop and not is_old(text, start)
        for start in _places(word, text)
        for clause in clauses
    )


def _places(word: str, text: str) -> Iterator[int]:
    """Yields where a word occurs in a text, whatever its capitals."""
    if not (text.isascii() and word.isascii() and word.isalnum()):
        pattern = rf"\b{re.escape(word)}\b"
        yield from (match.start() for match in re.finditer(pattern, text, re.IGNORECASE))
        return
    wanted, size = word.lower(), len(word)
    for match in _WORD.finditer(text):  # needs no pattern of its own
        if match.end() - match.start() == size and match[0].lower() == wanted:
            yield match.start()


def _misrouted(proposal: Proposal, mentions: list[Mention], text: str) -> str:
    """Returns the place that is named as the wrong end of a trip, or ""."""
    ends = [value for kind, value in proposal.known if kind == "place"]
    places = [m for m in mentions if m.kind == "place"] if len(ends) == 2 else []
    for at, place in enumerate(places):
        before = text[max(0, place.start - 12) : place.start].lower()
        wrong = ends[0] if re.search(r"\bto \W*$", before) else ""
        wrong = ends[1] if re.search(r"\bfrom \W*$", before) else wrong
        last = places[at - 1] if at else None
        if last and re.fullmatch(r"\W{1,5}|\W*to\W*", text[last.stop : place.start]):
            wrong = wrong or (ends[0] if last.values != place.values else "")
        if wrong in place.values:
            return place.shown
    return ""
