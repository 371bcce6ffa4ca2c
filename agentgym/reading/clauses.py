"""Clauses of a message, and whether the speaker asserts them.

The rules cover English as it is written in chats: negation, questions, conditions, quotations and
reported speech, comparison and replacement, and subordinate clauses of time.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from agentgym.reading.clause_patterns import (
    ABBREVIATION,
    ASKING,
    BREAK,
    BREAK_START,
    BREAK_WORDS,
    CONDITIONS,
    FRESH,
    HELD,
    LETTER,
    NEGATION,
    NEGATION_WORDS,
    NO,
    NO_START,
    NOT_NEGATION,
    OWN,
    PAST,
    PAST_WORDS,
    POLITE,
    REPLACED,
    REPORT,
    REPORT_WORDS,
    REQUEST,
    SENTENCE_END,
    SPEAKER,
    TAG,
    TIMES,
    TURN,
    WHOLE,
    WORD,
    WORDY,
    YES,
)
from agentgym.reading.quotations import find_quotations, inside
from agentgym.reading.typography import folds_plainly, normalized


# Frozen for type checkers only: at run time, a frozen one takes four times as long to make.
@dataclass(frozen=TYPE_CHECKING, slots=True)
class Clause:
    """A part of a message.

    Attributes:
        text: its words.
        start: index of its first character in `normalized(message)`.
        stop: index after the last one.
        marker: the word that introduces it, such as "if", "instead of" or "but", else "".
        negated: under "not", "never", "no", "without", "refuse", ...
        question: in a question.
        conditional: in a sentence with "if", "unless", "in case", ...
        quoted: in a quotation, or reported: "you said that ...".
        replaced: behind "instead of", "rather than", "unlike", "other than", "except", ...
        past: about the past or another time: "before ...", "have already ...", "yesterday".
        answer: "yes" or "no" if the clause is such an answer and nothing else, else "".
    """

    text: str
    start: int
    stop: int
    marker: str = ""
    negated: bool = False
    question: bool = False
    conditional: bool = False
    quoted: bool = False
    replaced: bool = False
    past: bool = False
    answer: str = ""

    @property
    def asserted(self) -> bool:
        """Whether the speaker claims it, or asks for it, now."""
        return not (
            self.negated or self.question or self.conditional or self.quoted or self.replaced
            or self.past or self.answer
        )  # fmt: skip


def find_clauses(text: str) -> list[Clause]:
    """Returns the clauses of a message, in order, with the facts about each.

    They hold all words of the message, but not the marks between clauses.
    """
    text = normalized(text)
    return list(_recent(text) if len(text) < _LONGEST_CACHED else _find(text))


def _find(text: str) -> tuple[Clause, ...]:
    quotes = [] if WHOLE.fullmatch(text) else find_quotations(text)
    found: list[Clause] = []
    for start, stop, mark in _sentences(text, quotes):
        cues = _Cues.of(text[start:stop])
        found += _sentence(text, start, stop, mark, quotes, cues)
    return tuple(found)


_LONGEST_CACHED = 1000
_recent = lru_cache(maxsize=1024)(_find)
"""The clauses of short texts, which agents repeat and which are read for several purposes."""


def asserted(text: str) -> list[str]:
    """Returns the parts of a message that the speaker claims, or asks for, now."""
    return [clause.text for clause in find_clauses(text) if clause.asserted]


@dataclass(frozen=TYPE_CHECKING, slots=True)
class _Cues:
    """Which patterns the words of a sentence can match, so that the others are not tried.

    Attributes:
        plain: whether its words are those that the patterns find: see `folds_plainly`.
        negated: whether it can have a negation.
        reported: whether it can have a report.
        past: whether it can be about the past.
    """

    plain: bool
    negated: bool
    reported: bool
    past: bool

    @staticmethod
    def of(text: str) -> _Cues:
        """Returns the cues of a text."""
        if not folds_plainly(text):  # words such as "\u017fo" match patterns that ignore case
            return _Cues(False, True, True, True)
        words = frozenset(WORD.findall(text.lower()))
        return _Cues(
            True,
            not words.isdisjoint(NEGATION_WORDS),
            not words.isdisjoint(REPORT_WORDS),
            not words.isdisjoint(PAST_WORDS),
        )


def _sentences(text: str, quotes: list[tuple[int, int]]) -> list[tuple[int, int, str]]:
    """Returns start, stop and end mark of the sentences. Quotations are not cut."""
    found, start = [], 0
    for match in SENTENCE_END.finditer(text):
        at = match.start()
        if inside(at, quotes) and match[0] != "\n":
            if not (match.end() <= len(text) and not inside(match.end(), quotes)):
                continue
            if text[match.end() : match.end() + 2].strip()[:1].islower():
                continue
        if match[0] == "." and _abbreviates(text, at):
            continue
        found.append((start, match.end(), match[0]))
        start = match.end()
    found.append((start, len(text), ""))
    return [(a, b, mark) for a, b, mark in found if LETTER.search(text, a, b)]


def _abbreviates(text: str, at: int) -> bool:
    """Whether the full stop at an index belongs to an abbreviation. "No." is one before digits."""
    found = ABBREVIATION.search(text[max(0, at - 8) : at])
    if found and found[0].lower() == "no":
        return text[at + 1 : at + 3].strip().isdigit()
    return found is not None


@dataclass(frozen=TYPE_CHECKING, slots=True)
class _Piece:
    """A part of a sentence between two breaks: span, the break before it, and its marker."""

    start: int
    stop: int
    joint: str
    """What separates it from the previous piece: "mark", "word", "and", "quote", "report", ""."""
    marker: str = ""
    quoted: bool = False


def _pieces(
    text: str, start: int, stop: int, quotes: list[tuple[int, int]], cues: _Cues
) -> list[_Piece]:
    """Returns the parts of a sentence, cut at breaks, quotations and reports."""
    found: list[_Piece] = []
    begin, joint, marker = start, "", ""

    def cut(end: int, following: int, how: str, word: str = "", quoted: bool = False) -> None:
        nonlocal begin, joint, marker
        if LETTER.search(text, begin, end):
            found.append(_Piece(begin, end, joint, marker, quoted))
            joint, marker = how, word
        else:  # nothing between two breaks: the stronger one counts
            joint, marker = (how if how != "mark" or not joint else joint), word or marker
        begin = following

    if no := NO_START.match(text, start, stop):
        cut(no.end(), no.end(), "word")
    for at, match in _breaks(text, start, stop, quotes, cues):
        if at < begin:
            continue
        if isinstance(match, int):
            cut(at, at, "quote")
            cut(match, match, "quote", quoted=True)
        elif match.re is REPORT:
            cut(match.end(), match.end(), "report")
        elif match["mark"]:
            cut(at, match.end(), "mark")
        elif match["and"]:
            cut(at, match.end(), "and")
        elif match["word"]:
            word = " ".join(match["word"].lower().split())
            joined = TIMES | REPLACED | CONDITIONS | {"without"}
            cut(at, match.end() if word not in joined else at, "word", word)
        else:
            cut(at, at, "word", "not")
    cut(stop, stop, "")
    return found


def _break_matches(text: str, start: int, stop: int, cues: _Cues) -> Iterator[re.Match[str]]:
    """Yields the matches of `BREAK`, which is tried only at marks and words of breaks: fast."""
    if not cues.plain:
        yield from BREAK.finditer(text, start, stop)
        return
    at = start
    for possible in BREAK_START.finditer(text, start, stop):
        begin = possible.start()
        if begin < at or (possible.lastindex and possible[1].lower() not in BREAK_WORDS):
            continue
        if match := BREAK.match(text, begin, stop):
            at = match.end()
            yield match


def _breaks(
    text: str, start: int, stop: int, quotes: list[tuple[int, int]], cues: _Cues
) -> list[tuple[int, re.Match[str] | int]]:
    """Returns the breaks of a sentence in order: index, and match or end of a quotation."""
    first = bisect_right(quotes, (start - 1, 1 << 60))
    inner = quotes[first : bisect_right(quotes, (stop, -1))]
    found: list[tuple[int, re.Match[str] | int]] = []
    for match in _break_matches(text, start, stop, cues):
        if not inside(match.start(), quotes):
            found.append((match.start(), match))
    for match in REPORT.finditer(text, start, stop) if cues.reported else ():
        who = (match["who"] or match["source"]).lower()
        if who not in SPEAKER and not inside(match.start(), quotes):
            found.append((match.end(), match))
    reports = {at for at, match in found if match.re is REPORT}  # type: ignore[union-attr]
    for opened, closed in inner:
        introduced = any(at in reports for at in range(max(0, opened - 3), opened + 1))
        if introduced or WORDY.search(text, opened + 1, closed):
            found.append((opened, min(closed, stop)))
    return sorted(found, key=lambda entry: entry[0])


def _asking(text: str, pieces: list[_Piece], marked: bool) -> list[bool]:
    """Returns for each piece of a sentence whether it is part of a question."""
    tagged = marked and len(pieces) > 1 and _is_tag(text, pieces[-1])
    if tagged or not marked:
        starts = [bool(ASKING.match(text, p.start, p.stop)) for p in pieces]
        return [*starts[:-1], True] if tagged else starts
    first = next((at for at, piece in enumerate(pieces) if _opens(text, piece)), 0)
    return [at >= first for at in range(len(pieces))]


def _is_tag(text: str, piece: _Piece) -> bool:
    """Whether a piece is a question such as "ok?" behind a statement."""
    return TAG.fullmatch(text[piece.start : piece.stop].strip(" ?!.")) is not None


def _opens(text: str, piece: _Piece) -> bool:
    return bool(ASKING.match(text, piece.start, piece.stop) or
                REQUEST.match(text, piece.start, piece.stop))  # fmt: skip


def _conditional(text: str, pieces: list[_Piece]) -> list[bool]:
    """Returns for each piece whether it depends on a condition. A turn ("but") ends its reach.

    A polite condition ("if that is fine with you") touches nothing but itself.
    """
    if not any(piece.marker in CONDITIONS for piece in pieces):
        return [False] * len(pieces)
    groups = [0] * len(pieces)
    for at, piece in enumerate(pieces):
        groups[at] = (groups[at - 1] if at else 0) + (piece.marker in TURN)
    found, held = [False] * len(pieces), set()
    for at, piece in enumerate(pieces):
        if piece.marker not in CONDITIONS:
            continue
        found[at] = True
        words = text[piece.start : piece.stop].strip()
        if piece.marker == "if" and POLITE.match(words[2:].strip(" .!?")):
            continue
        held.add(groups[at])
    return [one or group in held for one, group in zip(found, groups, strict=True)]


def _sentence(
    text: str, start: int, stop: int, mark: str, quotes: list[tuple[int, int]], cues: _Cues
) -> list[Clause]:
    """Returns the clauses of a sentence."""
    pieces = _pieces(text, start, stop, quotes, cues)
    asking = _asking(text, pieces, "?" in mark)
    conditional = _conditional(text, pieces)
    found: list[Clause] = []
    under = _Reach()
    for at, piece in enumerate(pieces):
        words = text[piece.start : piece.stop].strip()
        denial = NOT_NEGATION.sub("", words) if cues.negated else ""
        held = bool(denial) and HELD.search(denial) is not None
        under = under.at(piece, words, at, held)
        clause = Clause(
            words, piece.start, piece.stop, piece.marker,
            negated=under.negated or (bool(denial) and NEGATION.search(denial) is not None)
            or piece.marker == "without",
            question=asking[at], conditional=conditional[at],
            quoted=piece.quoted or under.reported, replaced=under.replaced,
            past=under.timed or (cues.past and bool(PAST.search(words))),
            answer="" if at else _answer(words),
        )  # fmt: skip
        if clause.answer:
            clause = replace(clause, negated=False)
        found.append(clause)
    return found


def _answer(words: str) -> str:
    """Returns "yes" or "no" if words are such an answer and nothing else, else ""."""
    bare = words.strip(" .!?\"'")
    return "no" if NO.fullmatch(bare) else "yes" if YES.fullmatch(bare) else ""


@dataclass(frozen=TYPE_CHECKING, slots=True)
class _Reach:
    """The facts that reach from one piece of a sentence into the following ones.

    A list goes on under a negation ("I do not want the book, the hat"), until words such as "I"
    or "just" begin a clause of their own.
    """

    negated: bool = False
    replaced: bool = False
    timed: bool = False
    reported: bool = False

    def at(self, piece: _Piece, words: str, index: int, held: bool) -> _Reach:
        """Returns the facts for a piece and those behind it.

        Args:
            piece: the piece.
            words: its words.
            index: its index in the sentence.
            held: whether it has a negation that reaches on.
        """
        fresh = bool(FRESH.match(words)) or piece.marker in TURN
        listed = piece.joint == "mark" and not fresh and not piece.marker
        reported = piece.joint == "report" or (
            self.reported and not (piece.marker in TURN or OWN.match(words))
        )
        joined = piece.joint == "and" or listed
        return _Reach(
            negated=held or (self.negated and listed),
            replaced=piece.marker in REPLACED or (self.replaced and listed and index > 1),
            timed=piece.marker in TIMES or (self.timed and joined and index > 1),
            reported=reported,
        )
