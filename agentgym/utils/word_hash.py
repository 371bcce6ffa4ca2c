"""`WordHash`: the words of a text as a vector."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

WORD = re.compile(r"\w+|[^\w\s]")
"""A word or a punctuation mark."""
_CACHED_WORDS = 200_000
_LONGEST_WORD = 100
"""Characters of the longest word and bigram whose place is cached."""


class WordHash:
    """Signed feature hashing of words by CRC-32. The result is the same in every process.

    Args:
        size: dimension of the vectors.
    """

    def __init__(self, size: int):
        self.size = size
        self._places: dict[str, int] = {}

    def vector(self, words: Iterable[str]) -> np.ndarray:
        """Returns the sum of the words' signed unit vectors, scaled to length 1: float32 (size,).

        A text without words has the zero vector.
        """
        known = self._places
        if len(known) > _CACHED_WORDS:
            known.clear()
        # The sign is an offset: indices 0 to size - 1 are positive, the rest are negative.
        places = [known[word] if word in known else self._place(word) for word in words]
        counts = np.bincount(places, minlength=2 * self.size) if places else np.zeros(2 * self.size)
        vector = (counts[: self.size] - counts[self.size :]).astype(np.float32)
        length = math.sqrt(float(vector @ vector))
        return vector / np.float32(length) if length else vector

    def phrases(self, words: Sequence[str]) -> np.ndarray:
        """Returns the vector of words and bigrams: float32 (size,)."""
        return self.vector([*words, *(f"{one} {two}" for one, two in pairwise(words))])

    def text(self, text: str) -> np.ndarray:
        """Returns the vector of a text's words and bigrams: float32 (size,)."""
        return self.phrases(WORD.findall(text.lower()))

    def _place(self, word: str) -> int:
        code = zlib.crc32(word.encode("utf-8", "surrogatepass"))
        place = (code >> 1) % self.size + (code & 1) * self.size
        if len(word) <= _LONGEST_WORD:
            self._places[word] = place
        return place
