"""The parser of the guessing games, which understands yes-or-no questions by their phrases.

A question is reduced to terms (the meaning of a phrase, possibly negated) and their connectives:
"Is it a fruit or a vegetable that is not red?" -> (fruit or vegetable) and not red. Words that are
neither phrases nor fillers form a term of unknown truth. A question is therefore answered only if
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

from agentgym.reading import normalized

MOST_CHARACTERS = 1000
ELSEWHERE = "elsewhere"
"""The meaning of an unknown name, which is true of nothing."""
NEGATIONS = frozenset(
    "not no non never without isnt arent doesnt dont cant cannot lack lacks neither nor".split()
)
ARTICLES = frozenset("a an any some the".split())
# "used with a computer" does not ask whether it is a computer; "a kind of computer" does.
PREPOSITIONS = frozenset(
    "with by on in to for like than at from into near under over inside".split()
)
# "Are you thinking of a dog?" asks for the thing itself, too.
KINDS = frozenset(
    "kind type sort pair piece set form variety breed species bunch bottle thinking".split()
)


@dataclass(frozen=True)
class Term:
    """A meaning, possibly negated. `meaning` is "" for unknown words."""

    meaning: str
    negated: bool = False


@dataclass(frozen=True)
class Question:
    """A parsed question: a conjunction of groups, each a disjunction of terms."""

    groups: tuple[tuple[Term, ...], ...]

    def answer(self, truth: Callable[[str], np.ndarray]) -> np.ndarray | None:
        """Returns the answers for many secrets at once, or None for a question without terms.

        Args:
            truth: returns the truth of a meaning for each secret, 1 true or -1 false, with shape
                (secrets,).

        Returns:
            1 yes, -1 no, 0 undecided because of unknown words (three-valued logic).
        """
        answers = [reduce(np.maximum, [_truth(t, truth) for t in group]) for group in self.groups]
        return reduce(np.minimum, answers) if answers else None


def _truth(term: Term, truth: Callable[[str], np.ndarray]) -> np.ndarray:
    if not term.meaning:
        return np.int8(0)  # type: ignore[return-value]
    return -truth(term.meaning) if term.negated else truth(term.meaning)


def words(text: str) -> list[str]:
    """Returns the lower-case words of a text, without apostrophes, hyphens and accents."""
    plain = re.sub(r"['`]", "", normalized(text[:MOST_CHARACTERS]).lower())
    if not plain.isascii():
        plain = "".join(c for c in unicodedata.normalize("NFKD", plain) if c.isascii())
    return re.findall(r"[a-z0-9]+", plain)


class Lexicon:
    """Phrases and their meanings.

    Args:
        phrases: phrases by their meaning. A phrase that starts with "!" has the opposite meaning.
        names: names by the meaning "is this one". They take precedence after an article ("an
            orange").
        fillers: words without a meaning.
        prepositions: words after which a name does not ask for identity: "used with a computer"
            does not, "a kind of computer" does.
        coded: pattern of words that are meanings themselves, such as "sizeover4".
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
        """Returns the parsed question.

        Args:
            text: the question.
            elsewhere: lower-case words that, if unknown, name something other than the secret.
        """
        tokens = words(text)
        stems = self._stem(tokens)
        groups: list[list[Term]] = []
        negated = either = False
        denied = False  # whether the last term was negated: "not red or green" denies both
        at = 0
        while at < len(tokens):
            term, length = self._match(tokens, stems, at)
            word = tokens[at]
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

    def _match(self, tokens: list[str], stems: list[str], at: int) -> tuple[Term | None, int]:
        """Returns the meaning of the longest phrase that starts here, and its length in words."""
        before = tokens[at - 1] if at else ""
        if self.coded.fullmatch(tokens[at]):
            return Term(tokens[at]), 1
        for length in range(min(self.longest, len(tokens) - at), 0, -1):
            key = tuple(stems[at : at + length])
            name, phrase = self.names.get(key), self.phrases.get(key)
            if name is not None and (phrase is None or before in ARTICLES):
                return (name if self._is_named(tokens, at) else Term("")), length
            if phrase is not None:
                return phrase, length
        return None, 1

    def mentions(self, text: str) -> set[str]:
        """Returns the meanings of the names that a text contains, longest matches only."""
        tokens = words(text)
        stems = self._stem(tokens)
        found, at = set(), 0
        while at < len(tokens):
            length = 1
            for tried in range(min(self.longest, len(tokens) - at), 0, -1):
                key = tuple(stems[at : at + tried])
                if key in self.names or key in self.phrases:
                    found |= {self.names[key].meaning} if key in self.names else set()
                    length = tried
                    break
            at += length
        return found

    def _is_named(self, tokens: list[str], at: int) -> bool:
        """Returns whether a name at this place asks for the secret's identity."""
        before = [word for word in tokens[:at] if word not in ARTICLES]
        if len(before) >= 2 and before[-1] == "of":
            return before[-2].removesuffix("s") in KINDS
        return not before or before[-1] not in self.prepositions
