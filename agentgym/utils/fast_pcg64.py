"""`Draws`: the random stream of a task without numpy's overhead per call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")
_WORD = 0xFFFFFFFF


class Draws:
    """Draws the numbers of `numpy.random.Generator(PCG64(seed))`, one at a time.

    A call of numpy takes about 2 microseconds, for one number as for hundreds. For rules that
    draw many single numbers, this class reads the generator's output in blocks and maps it to
    numbers as numpy does: all methods return what a generator with the same seed and the same
    calls before returns. Bounded integers: "Fast Random Integer Generation in an Interval"
    (Lemire, arXiv 1805.10941).

    Args:
        seed: seed of the stream, at least 0: an integer, or its words of 32 bits.
        block: number of 64-bit outputs that are read at once, at least 1.
    """

    def __init__(self, seed: int | np.ndarray, block: int = 8):
        self._source, self._block = np.random.PCG64(seed), block
        self._words: list[int] = []
        self._half: int | None = None

    def _refill(self) -> int:
        """Reads a block of outputs and returns the first."""
        self._words = self._source.random_raw(self._block).tolist()
        self._words.reverse()
        return self._words.pop()

    def random(self) -> float:
        """Returns a number in [0, 1), as `Generator.random()`."""
        words = self._words
        return ((words.pop() if words else self._refill()) >> 11) * 2.0**-53

    def _half_word(self) -> int:
        """Returns the lower half of an output, and at the next call its upper half."""
        half = self._half
        if half is None:
            words = self._words
            word = words.pop() if words else self._refill()
            self._half = word >> 32
            return word & _WORD
        self._half = None
        return half

    def below(self, bound: int) -> int:
        """Returns an integer in [0, bound), as `Generator.integers(bound)`.

        Args:
            bound: from 1 to 2**32 - 1.
        """
        if bound == 1:
            return 0
        while True:
            half = self._half
            if half is None:  # as `_half_word`, without the cost of a call
                words = self._words
                word = words.pop() if words else self._refill()
                self._half = word >> 32
                half = word & _WORD
            else:
                self._half = None
            product = half * bound
            low = product & _WORD
            if low >= bound or low >= (1 << 32) % bound:
                return product >> 32

    def bits(self, count: int) -> int:
        """Returns an integer in [0, 2**count), as `Generator.integers(2**count)`.

        Args:
            count: from 1 to 31. It is faster than `below`, because no output is rejected.
        """
        half = self._half
        if half is None:  # as `_half_word`, without the cost of a call
            words = self._words
            word = words.pop() if words else self._refill()
            self._half = word >> 32
            return (word & _WORD) >> (32 - count)
        self._half = None
        return half >> (32 - count)

    def choice(self, options: Sequence[T], count: int) -> list[T]:
        """Returns different options, as `Generator.choice(options, count, replace=False)`.

        Args:
            options: at most 10,000 options, above which numpy uses another algorithm.
            count: number of options to sample.
        """
        found: list[int] = []
        for last in range(len(options) - count, len(options)):  # Floyd's algorithm
            drawn = self.below(last + 1)
            found.append(last if drawn in found else drawn)
        for last in range(count - 1, 0, -1):
            other = self.below(last + 1)
            found[last], found[other] = found[other], found[last]
        return [options[i] for i in found]

    def permutation(self, count: int) -> list[int]:
        """Returns the numbers below `count` in random order, as `Generator.permutation(count)`."""
        order = list(range(count))
        for last in range(count - 1, 0, -1):
            mask = (1 << last.bit_length()) - 1
            while (other := self._half_word() & mask) > last:
                pass
            order[last], order[other] = order[other], order[last]
        return order
