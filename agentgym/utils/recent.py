"""`Recent`: a cache with a bound in bytes, for values whose sizes are not known beforehand."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class Recent(Generic[Value]):
    """Keeps the most recently used values up to a total size. Threads may share it.

    A value above the limit is kept until the next one comes. Copies of the cache are empty.

    Args:
        limit: the total size, in the unit of `put`, such as bytes.

    Attributes:
        limit: the total size.
    """

    def __init__(self, limit: int):
        self.limit, self._size = limit, 0
        self._values: OrderedDict[Any, tuple[Value, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[Recent[Value]], tuple[int]]:
        return type(self), (self.limit,)

    def __len__(self) -> int:
        """Returns the number of values."""
        return len(self._values)

    @property
    def size(self) -> int:
        """The total size of the values."""
        return self._size

    def clear(self) -> None:
        """Removes all values."""
        with self._lock:
            self._values.clear()
            self._size = 0

    def get(self, key: Any) -> Value | None:
        """Returns the value of a key, or None."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def put(self, key: Any, value: Value, size: int) -> None:
        """Keeps a value, and removes those that were not used for the longest time.

        Args:
            key: its key.
            value: the value, not None.
            size: the size of key and value.
        """
        with self._lock:
            if key in self._values:
                self._size -= self._values.pop(key)[1]
            self._values[key] = value, size
            self._size += size
            while self._size > self.limit and len(self._values) > 1:
                self._size -= self._values.popitem(last=False)[1][1]


def text_size(texts: Sequence[str], tokens: int) -> int:
    """Returns the bytes of texts and of a list of so many token ids as Python objects."""
    return sum(map(sys.getsizeof, texts)) + 40 * tokens
