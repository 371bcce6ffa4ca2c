"""Understands yes-or-no questions by the phrases in them: the parser of the guessing games.

A question is reduced to terms (a phrase's meaning, perhaps negated) and to what connects them:
"Is it a fruit or a vegetable that is not red?" -> (fruit or vegetable) and not red. Words that are
neither phrases nor fillers make a term of unknown truth, so that a question is answered only where
the known terms decide it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
import Stemmer

MOST_CHARACTERS = 1000
ELSEWHERE = "elsewhere"
"""The meaning of a name that is not known: true of nothing."""
NEGATIONS = frozenset(
    "not no non never without isnt arent doesnt dont cant cannot lack lacks neither nor".split()
)
ARTICLES = frozenset("a an any some the".split())
# "used with a computer" does not ask whether it is a computer; "a kind of computer" does.
PREPOSITIONS = frozenset(
    "with by on in to for like than at from into near under over inside".split()
)
KINDS = frozenset("kind type sort pair piece set form variety breed species bunch bottle".split())


def read_rows(table: str) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Returns (trait, question or "", phrases) for every line "trait | question | a; b; c".

    A line that begins with blanks goes on with the one before.
    """
    found = []
    for line in re.sub(r"\n +", " ", table.strip()).split("\n"):
        trait, question, phrases = (part.strip() for part in line.split("|"))
        found.append((trait, question, tuple(phrase.strip() for phrase in phrases.split(";"))))
    return tuple(found)


@dataclass(frozen=True)
class Term:
    """A meaning that holds or not; `meaning` is "" where the words are unknown."""

    meaning: str
    negated: bool = False


@dataclass(frozen=True)
class Question:
    """A question understood: all of the groups must hold, of each group one term."""

    groups: tuple[tuple[Term, ...], ...]

    def answer(self, truth: Callable[[str], np.ndarray]) -> np.ndarray | None:
        """Returns the answers for many secrets at once; None if nothing was asked.

        Args:
            truth: the truth of a meaning for each secret: 1 true, -1 false; shape (secrets,).

        Returns:
            1 yes, -1 no, 0 where unknown words leave it open (three-valued logic).
        """
        answers = [reduce(np.maximum, [_truth(t, truth) for t in group]) for group in self.groups]
        return reduce(np.minimum, answers) if answers else None


def _truth(term: Term, truth: Callable[[str], np.ndarray]) -> np.ndarray:
    if not term.meaning:
        return np.int8(0)  # type: ignore[return-value]
    return -truth(term.meaning) if term.negated else truth(term.meaning)


def words(text: str) -> list[str]:
    """Returns the lower-case words of a text; apostrophes, hyphens and accents are left out."""
    plain = re.sub(r"['’`]", "", text[:MOST_CHARACTERS].lower())
    if not plain.isascii():
        plain = "".join(c for c in unicodedata.normalize("NFKD", plain) if c.isascii())
    return re.findall(r"[a-z0-9]+", plain)


class Lexicon:
    """Phrases and their meanings.

    Args:
        phrases: phrases by their meaning; a phrase that starts with "!" means the opposite.
        names: names by the meaning "is this one"; preferred after an article ("an orange").
        fillers: words that add nothing.
        prepositions: words after which a name does not ask whether it is this one: "used with a
            computer", though "a kind of computer" does.
        coded: words that are a meaning by themselves, such as "sizeover4".
    """

    def __init__(
        self,
        phrases: Mapping[str, Iterable[str]],
        names: Mapping[str, Iterable[str]],
        fillers: Iterable[str],
        prepositions: Iterable[str],
        coded: str,
    ):
        self.prepositions = frozenset(prepositions)
        self.coded = re.compile(coded)
        self._stem = Stemmer.Stemmer("english").stemWords
        self.fillers = frozenset(fillers)
        self.phrases = self._table(phrases)
        self.names = self._table(names)
        self.longest = max(map(len, (*self.phrases, *self.names)))

    def _table(self, listed: Mapping[str, Iterable[str]]) -> dict[tuple[str, ...], Term]:
        table: dict[tuple[str, ...], Term] = {}
        for meaning, phrases in listed.items():
            for phrase in phrases:
                key = tuple(self._stem(words(phrase)))
                term = Term(meaning, phrase.startswith("!"))
                if table.setdefault(key, term) != term:
                    raise ValueError(f"{phrase!r} means {meaning!r} and {table[key].meaning!r}.")
        return table

    def parse(self, text: str, elsewhere: Iterable[str] = ()) -> Question:
        """Returns what a question asks.

        Args:
            text: the question.
            elsewhere: lower-case words that, if unknown, name something that is not meant.
        """
        said = words(text)
        stems = self._stem(said)
        groups: list[list[Term]] = []
        negated = either = False
        denied = False  # whether the last term was negated: "not red or green" denies both
        at = 0
        while at < len(said):
            term, length = self._match(said, stems, at)
            word = said[at]
            if term is None:
                negated = (negated or word in NEGATIONS) and word not in ("and", "but")
                if word == "or":
                    negated, either = negated or denied, not denied
                known = word in self.fillers or word in NEGATIONS or word == "or"
                term = None if known else Term(ELSEWHERE if word in elsewhere else "")
            if term is not None:
                term = Term(term.meaning, term.negated != negated)
                if either and groups:
                    groups[-1].append(term)
                else:
                    groups.append([term])
                denied, negated, either = negated, False, False
            at += length
        return Question(tuple(map(tuple, groups)))

    def _match(self, said: list[str], stems: list[str], at: int) -> tuple[Term | None, int]:
        """Returns the meaning of the longest phrase that starts here, and its length in words."""
        before = said[at - 1] if at else ""
        if self.coded.fullmatch(said[at]):
            return Term(said[at]), 1
        for length in range(min(self.longest, len(said) - at), 0, -1):
            key = tuple(stems[at : at + length])
            name, phrase = self.names.get(key), self.phrases.get(key)
            if name is not None and (phrase is None or before in ARTICLES):
                return (name if self._is_named(said, at) else Term("")), length
            if phrase is not None:
                return phrase, length
        return None, 1

    def mentions(self, text: str) -> set[str]:
        """Returns the meanings of the names that a text contains, longest matches only."""
        said = words(text)
        stems = self._stem(said)
        found, at = set(), 0
        while at < len(said):
            length = 1
            for tried in range(min(self.longest, len(said) - at), 0, -1):
                key = tuple(stems[at : at + tried])
                if key in self.names or key in self.phrases:
                    found |= {self.names[key].meaning} if key in self.names else set()
                    length = tried
                    break
            at += length
        return found

    def _is_named(self, said: list[str], at: int) -> bool:
        """Returns whether a name stands where the thing itself is named."""
        before = [word for word in said[:at] if word not in ARTICLES]
        if len(before) >= 2 and before[-1] == "of":
            return before[-2].removesuffix("s") in KINDS
        return not before or before[-1] not in self.prepositions
