"""The search of the site, which runs in the browser: lunr.js as Material for MkDocs uses it.

A query is split into words, each of which matches the words of the index that begin with it. Of a
word with hyphens, only the last part does: the other parts match themselves. An entry's score in a
field is the sum of the BM25 weights of the matched words over the norm of the query. The length of
the field does not count (`b` = 0). Entries then gain by the share of the words of the query that
they have, and the first entry of a page by 1.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

K1 = 1.2
STOP_WORDS = frozenset(
    "a able about across after all almost also am among an and any are as at be because been "
    "but by can cannot could dear did do does either else ever every for from get got had has "
    "have he her hers him his how however i if in into is it its just least let like likely may "
    "me might most must my neither no nor not of off often on only or other our own rather said "
    "say says she should since so some than that the their them then there these they this tis "
    "to too twas us wants was we were what when where which while who whom why will with would "
    "yet you your".split()
)
"""Those of lunr.js."""


class SiteSearch:
    """An index of the site.

    Args:
        index: the content of search_index.json.
    """

    def __init__(self, index: dict[str, Any]) -> None:
        assert index["config"]["pipeline"] == ["stopWordFilter"], "the words are used as they are"
        self.separator = re.compile(index["config"]["separator"])
        self.entries: list[dict[str, Any]] = index["docs"]
        fields: dict[str, Any] = index["config"]["fields"]
        self.boosts = {name: field["boost"] for name, field in fields.items()}
        self.counts: dict[str, dict[tuple[int, str], int]] = defaultdict(dict)
        """Word -> number of its occurrences by entry and field."""
        for i, entry in enumerate(self.entries):
            for field in self.boosts.keys() & entry.keys():
                for word, count in Counter(self._indexed(entry[field])).items():
                    self.counts[word][i, field] = count

    def __call__(self, query: str) -> list[str]:
        """Returns the locations of all matching entries, best first."""
        scores = self.scores(query)
        return sorted(scores, key=lambda place: -scores[place])

    def scores(self, query: str) -> dict[str, float]:
        """Returns the score of each matching entry by its location."""
        clauses = list(self._clauses(query))
        words = [word for word, _ in clauses]
        matched = Counter(known for clause in clauses for known in self._matched(*clause))
        scores: dict[int, float] = defaultdict(float)
        found: dict[int, set[str]] = defaultdict(set)
        norm = math.sqrt(sum(times**2 for times in matched.values()))
        for known, times in matched.items():
            for (i, _), weight in self._weights(known).items():
                scores[i] += times * weight / norm
                found[i].add(known)
        return {
            self.entries[i]["location"]: score * (1 + self._gain(i, words, found[i]) ** 2)
            for i, score in scores.items()
        }

    def _gain(self, entry: int, words: list[str], found: set[str]) -> float:
        has = {word: any(known.startswith(word) for known in found) for word in words}
        counted = [hit for word, hit in has.items() if hit or word not in STOP_WORDS]
        return ("#" not in self.entries[entry]["location"]) + sum(counted) / len(counted)

    def _weights(self, word: str) -> dict[tuple[int, str], float]:
        """Returns the BM25 weight of a word of the index by entry and field."""
        counts = self.counts[word]
        rare = math.log(1 + abs((len(self.entries) - len(counts) + 0.5) / (len(counts) + 0.5)))
        return {
            (i, field): self.boosts[field]
            * self.entries[i].get("boost", 1)
            * (rare * (K1 + 1) * count / (K1 + count))
            for (i, field), count in counts.items()
        }

    def _clauses(self, query: str) -> Iterator[tuple[str, bool]]:
        """Yields the words of a query, and whether each stands for all that begin with it."""
        for part in query.split():
            pieces = [piece.lower() for piece in part.split("-") if piece]
            if len(pieces) == 1:
                yield from ((word, True) for word in self._words(part))
            else:  # the whole is repeated for each piece
                yield from [*((piece, False) for piece in pieces[:-1]), (pieces[-1], True)] * len(
                    pieces
                )

    def _matched(self, word: str, as_prefix: bool) -> list[str]:
        """Returns the words of the index that a word of a query stands for."""
        if as_prefix:
            return [known for known in self.counts if known.startswith(word)]
        return [word] if word in self.counts else []

    def _indexed(self, value: str | list[str]) -> Iterator[str]:
        """Yields the words of a field. Markup and stop words are not indexed."""
        for text in [value] if isinstance(value, str) else value:
            for part in re.split(r"<[^>]*>", text):
                yield from (word for word in self._words(part) if word not in STOP_WORDS)

    def _words(self, text: str) -> Iterator[str]:
        return (word.lower() for word in self.separator.split(text) if word)
