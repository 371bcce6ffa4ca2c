"""`UnicodeText`: the space of text observations and actions."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Text, Tuple
from gymnasium.spaces.utils import flatdim, flatten, flatten_space, unflatten
from gymnasium.vector.utils import (
    batch_differing_spaces,
    batch_space,
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)

_WORDS = tuple(
    "look open take the red blue box key door go north south ask why not yes no put on table "
    "search buy find move left right wait naïve café über 东西 да 🙂".split()
)


class UnicodeText(Text):
    """The space of all strings, including the empty string, optionally up to a maximum length.

    It is a subclass of `gymnasium.spaces.Text`, so that libraries recognise it. Unlike `Text`, it
    contains every Unicode character, checks membership in constant time, and works with the default
    shared memory of `gymnasium.vector.AsyncVectorEnv`.

    Args:
        max_length: maximum number of characters. None: no limit.
        seed: seed of `sample`.

    Raises:
        ValueError: if `max_length` is negative.
    """

    def __init__(
        self, max_length: int | None = None, seed: int | np.random.Generator | None = None
    ):
        if max_length is not None and max_length < 0:
            raise ValueError(f"max_length must be None or at least 0, got {max_length}.")
        length = sys.maxsize if max_length is None else max_length
        # Gymnasium builds its default text by repeating the first character `min_length` times.
        super().__init__(length, min_length=0, charset=" ", seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """False: a text cannot be flattened to an array of fixed size."""
        return False

    def contains(self, x: Any) -> bool:
        """Returns whether x is a string within the length limit, in constant time."""
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Returns one to five words sampled with the space's own generator.

        Raises:
            ValueError: if a mask or probabilities are given.
        """
        if mask is not None or probability is not None:
            raise ValueError("UnicodeText.sample supports neither a mask nor probabilities.")
        count = int(self.np_random.integers(1, 6))
        words = (_WORDS[i] for i in self.np_random.integers(len(_WORDS), size=count))
        return " ".join(words)[: self.max_length]

    def to_jsonable(self, sample_n: Iterable[str]) -> list[str]:
        """Returns a batch of members as a JSON list."""
        return list(sample_n)

    def from_jsonable(self, sample_n: list[Any]) -> list[str]:
        """Returns a batch of members from a JSON list."""
        return [str(x) for x in sample_n]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnicodeText) and other.max_length == self.max_length

    def __hash__(self) -> int:
        return hash((UnicodeText, self.max_length))

    def __repr__(self) -> str:
        return f"UnicodeText({'' if self.max_length == sys.maxsize else self.max_length})"


def _no_array(space: UnicodeText, *values: Any) -> NoReturn:
    raise ValueError(
        "A text cannot be flattened to an array of fixed size. Use "
        "agentgym.wrappers.EncodeObservation."
    )


for _function in (flatdim, flatten, flatten_space, unflatten):
    _function.register(UnicodeText, _no_array)


class _TextSlots:
    """One file per sub-environment, through which a worker passes its text to the parent process.

    Files have no fixed size, so neither the length nor the character set of a text is limited.
    The pipe of the vector environment ensures that a write completes before it is read.
    """

    def __init__(self, n: int):
        self.folder = Path(tempfile.mkdtemp(prefix="agentgym-text-"))
        for i in range(n):
            (self.folder / str(i)).touch()
        self._files: dict[int, FileIO] = {}
        self._pid = os.getpid()
        weakref.finalize(self, _clean_up, self._files, self.folder, self._pid)

    def __getstate__(self) -> Path:
        return self.folder

    def __setstate__(self, folder: Path) -> None:
        self.folder = folder
        self._files = {}
        self._pid = os.getpid()
        weakref.finalize(self, _clean_up, self._files)

    def _file(self, index: int) -> FileIO:
        if self._pid != os.getpid():  # forked: must not share file positions with the parent
            _clean_up(self._files)
            self._pid = os.getpid()
        if index not in self._files:
            self._files[index] = FileIO(str(self.folder / str(index)), "r+")
        return self._files[index]

    def write(self, index: int, text: str) -> None:
        rest = memoryview(text.encode("utf-8", "surrogatepass"))
        file = self._file(index)
        file.seek(0)
        while rest:  # an unbuffered write may be partial
            rest = rest[file.write(rest) :]
        file.truncate()

    def read(self, index: int) -> str:
        file = self._file(index)
        file.seek(0)
        return file.readall().decode("utf-8", "surrogatepass")


def _clean_up(files: dict[int, FileIO], folder: Path | None = None, owner: int = 0) -> None:
    for file in files.values():
        file.close()
    files.clear()
    if folder is not None and os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


class _TextView(Sequence[str]):
    """The current texts of all sub-environments, read on access. A copy is a plain tuple."""

    def __init__(self, slots: _TextSlots, n: int):
        self._slots = slots
        self._n = n

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self)[index]
        return self._slots.read(range(self._n)[index])

    def __iter__(self) -> Iterator[str]:
        return (self._slots.read(i) for i in range(self._n))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # mutable: the texts change at every step

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[str, ...]:
        return tuple(self)

    def __repr__(self) -> str:
        return repr(tuple(self))


class _TextTuple(Tuple):
    """The space of a batch of texts. Unlike `Tuple`, it also contains a `_TextView`."""

    def contains(self, x: Any) -> bool:
        return super().contains(tuple(x) if isinstance(x, _TextView) else x)


@batch_space.register(UnicodeText)
def _batch_texts(space: UnicodeText, n: int = 1) -> _TextTuple:
    stock = batch_space.dispatch(Space)(space, n)
    assert isinstance(stock, Tuple)
    return _TextTuple(stock.spaces, seed=stock.np_random)


@batch_differing_spaces.register(UnicodeText)
def _batch_differing_texts(spaces: Sequence[UnicodeText]) -> _TextTuple:
    return _TextTuple(spaces)


# Gymnasium annotates shared memory as an array. A registered space may use another type.
@create_shared_memory.register(UnicodeText)  # pyright: ignore[reportArgumentType]
def _create_text_slots(space: UnicodeText, n: int = 1, ctx: Any = None) -> _TextSlots:
    return _TextSlots(n)


@read_from_shared_memory.register(UnicodeText)  # pyright: ignore[reportArgumentType]
def _read_text_slots(space: UnicodeText, shared_memory: _TextSlots, n: int = 1) -> _TextView:
    return _TextView(shared_memory, n)


@write_to_shared_memory.register(UnicodeText)
def _write_text_slot(space: UnicodeText, index: int, value: str, shared_memory: _TextSlots) -> None:
    shared_memory.write(index, value)
