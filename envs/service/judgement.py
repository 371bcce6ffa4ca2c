"""Judges a proposal: the scripted user compares its values, not its words.

A proposal is agreed to if it names the change and all its values, and no other value. A value
that is replaced ("from May 20 to May 24"), and one that is denied or quoted, does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from agentgym.envs.service.mentions import Mention, read_mentions
from agentgym.envs.service.messages import plain, without_polite
from agentgym.envs.service.proposals import Proposal, Value
from agentgym.envs.service.roles import is_old
from agentgym.reading.clauses import Clause, find_clauses
from agentgym.reading.numbers import exact

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
    for mention in read_mentions(text, proposal):
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


_WORD = re.compile(r"\w+")


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
