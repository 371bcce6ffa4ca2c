"""BM25 over a few hundred texts, in memory.

It is the formula of the shop's engine (`agentgym.envs.webshop.search`) with the same constants,
without its files on disk.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence

K1, B = 0.9, 0.4
_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """Returns the words of a text in lower case, with duplicates."""
    return _WORD.findall(text.lower())


class TextIndex:
    """An inverted index of texts.

    Args:
        texts: the texts. A text is identified by its position.
        terms: returns the terms of a text or query, with duplicates.
    """

    def __init__(self, texts: Sequence[str], terms: Callable[[str], list[str]] = words):
        self._terms = terms
        counts = [Counter(terms(text)) for text in texts]
        lengths = [sum(count.values()) for count in counts]
        mean = sum(lengths) / max(1, len(lengths)) or 1.0
        self._total = sum(map(bool, lengths))
        self._postings: dict[str, list[tuple[int, float]]] = {}
        for text, (count, length) in enumerate(zip(counts, lengths, strict=True)):
            norm = K1 * (1 - B + B * length / mean)
            for term, times in count.items():
                self._postings.setdefault(term, []).append((text, times / (times + norm)))

    def search(self, query: str, k: int) -> list[int]:
        """Returns the positions of the best k texts with a term of the query, best first."""
        scores: dict[int, float] = {}
        for term, times in Counter(self._terms(query)).items():
            found = self._postings.get(term, ())
            weight = times * math.log(1 + (self._total - len(found) + 0.5) / (len(found) + 0.5))
            for text, saturation in found:
                scores[text] = scores.get(text, 0.0) + weight * saturation
        return sorted(scores, key=lambda text: (-scores[text], text))[:k]
