"""A cache of array folders that are built once and memory-mapped by all processes."""

from __future__ import annotations

import atexit
import bisect
import contextlib
import json
import os
import shutil
import tempfile
import uuid
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np

MANIFEST = "manifest.json"
WHOLE = 64 << 20
"""Checksums of files up to this size cover the whole file, those of larger ones `BLOCKS` blocks."""
BLOCKS, BLOCK = 256, 1 << 16
PREFIX = "agentgym-"
_fallbacks: dict[Path, Path] = {}


def cache_root() -> Path:
    """Returns the folder of the cache: `$AGENTGYM_CACHE` or `~/.cache/agentgym`."""
    chosen = os.environ.get("AGENTGYM_CACHE")
    try:
        return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "agentgym"
    except RuntimeError:  # no home folder, as in some containers
        return Path(tempfile.gettempdir()) / "agentgym"


def temporary_folder() -> Path:
    """Makes a folder that is deleted when the process ends.

    It also deletes folders of killed processes, whose locks are released.
    """
    root = Path(tempfile.gettempdir())
    for lock in root.glob(f"{PREFIX}*/lock"):
        with contextlib.suppress(OSError), lock.open("a") as file:
            if _lock(file, wait=False):
                shutil.rmtree(lock.parent, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    file = (folder / "unlocked").open("a")
    if _lock(file, wait=False):
        (folder / "unlocked").rename(folder / "lock")
    atexit.register(_remove, folder, file, os.getpid())
    return folder


def _remove(folder: Path, lock: IO[str], owner: int) -> None:
    """Deletes a temporary folder. Its lock is held until this process and its children end."""
    if os.getpid() == owner:  # a forked process must not delete the folder of its parent
        shutil.rmtree(folder, ignore_errors=True)
    lock.close()


def built(target: Path, build: Callable[[Path], None]) -> Path:
    """Returns the folder `target`. If it is missing or incomplete, `build(folder)` fills it first.

    The data is built in another folder, which is then renamed, so that readers never see an
    incomplete folder. Of several processes, one builds while the others wait. A folder whose files
    do not match their checksums is built again. Incomplete folders of killed processes are deleted.
    If the cache is not writable, a temporary folder is used and a RuntimeWarning is issued.

    Args:
        target: the folder in the cache.
        build: writes the files into an empty folder.
    """
    if _complete(target):
        return target
    if target in _fallbacks:
        return _fallbacks[target]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _exclusive(target.with_name(target.name + ".lock")) as locked:
            if locked:
                for leftover in target.parent.glob(f".{target.name}.*"):
                    shutil.rmtree(leftover, ignore_errors=True)
            if not _complete(target):
                _build_and_rename(target, build)
        return target
    except OSError as error:
        warnings.warn(
            f"Cannot cache data in {target} ({error}). Using a temporary folder for this process. "
            "Set AGENTGYM_CACHE to a writable folder.",
            RuntimeWarning,
            stacklevel=2,
        )
    fallback = temporary_folder() / target.name
    _build_and_rename(fallback, build)
    _fallbacks[target] = fallback
    return fallback


def _build_and_rename(target: Path, build: Callable[[Path], None]) -> None:
    folder = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    folder.mkdir()
    try:
        build(folder)
        sums = {file.name: _checksum(file) for file in folder.iterdir()}
        (folder / MANIFEST).write_text(json.dumps(sums), encoding="utf-8")
        shutil.rmtree(target, ignore_errors=True)  # damaged, or _complete would have been true
        try:
            folder.rename(target)
        except OSError:
            if not _complete(target):  # without locks, another process may have been faster
                raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _complete(folder: Path) -> bool:
    try:
        sums = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return bool(sums) and all(_checksum(folder / name) == sum for name, sum in sums.items())
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return False


def _checksum(path: Path) -> list[int]:
    """Returns size and CRC-32 of a file. For large files, the CRC-32 of evenly spaced blocks."""
    size, crc = path.stat().st_size, 0
    with path.open("rb") as file:
        if size <= WHOLE:
            while data := file.read(1 << 20):
                crc = zlib.crc32(data, crc)
        else:
            for block in range(BLOCKS):
                file.seek((size - BLOCK) * block // (BLOCKS - 1))
                crc = zlib.crc32(file.read(BLOCK), crc)
    return [size, crc]


def _lock(file: IO[str], *, wait: bool) -> bool:
    """Locks a file between processes and returns whether that succeeded."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):  # no locks here, or another process has it
        return False
    return True


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[bool]:
    """Holds a lock between processes if the platform and the file system support it."""
    with path.open("a") as file:
        yield _lock(file, wait=True)


def save(folder: Path, name: str, values: np.ndarray | Sequence[float], dtype: str) -> None:
    """Writes an array as `name.npy`."""
    np.save(folder / f"{name}.npy", np.asarray(values, dtype=dtype))


def load(folder: Path, name: str) -> np.ndarray:
    """Returns the read-only array `name.npy`. Arrays of at least 64 KiB are memory-mapped."""
    path = folder / f"{name}.npy"
    small = path.stat().st_size < 1 << 16
    # Indexing a plain view is several times faster than np.memmap. It keeps the mapping alive.
    array = np.load(path, mmap_mode=None if small else "r").view(np.ndarray)
    array.flags.writeable = False
    return array


def load_bytes(folder: Path, name: str) -> np.ndarray:
    """Memory-maps the non-empty file `name.bin` as uint8."""
    return np.memmap(folder / f"{name}.bin", np.uint8, "r").view(np.ndarray)


def encode(text: str) -> bytes:
    """Encodes a string as UTF-8. Lone surrogates, which scraped data contains, are allowed."""
    return text.encode("utf-8", "surrogatepass")


def decode(data: bytes) -> str:
    """Inverts `encode`."""
    return data.decode("utf-8", "surrogatepass")


class StringTable(Sequence[bytes]):
    """Sorted distinct strings in a memory-mapped file, with lookup by bisection."""

    def __init__(self, folder: Path, name: str):
        self._starts = load(folder, f"{name}_starts")
        self._bytes = load(folder, f"{name}_bytes")

    @staticmethod
    def write(folder: Path, name: str, strings: Sequence[bytes]) -> None:
        """Writes a table of sorted strings."""
        starts = np.zeros(len(strings) + 1, np.int64)
        np.cumsum([len(string) for string in strings], out=starts[1:])
        save(folder, f"{name}_starts", starts, "int64")
        save(folder, f"{name}_bytes", np.frombuffer(b"".join(strings), np.uint8), "uint8")

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, index: int) -> bytes:  # type: ignore[override]  # no slices
        return self._bytes[self._starts[index] : self._starts[index + 1]].tobytes()

    def find(self, text: str) -> int | None:
        """Returns the index of a string, or None if it is not in the table."""
        key = encode(text)
        position = bisect.bisect_left(self, key)
        return position if position < len(self) and self[position] == key else None


class Facet:
    """Inverted index: value -> ascending row numbers, in memory-mapped files."""

    def __init__(self, folder: Path, name: str):
        self.values = StringTable(folder, name)
        self.starts = load(folder, f"{name}_row_starts")
        self.rows = load(folder, f"{name}_rows")

    @staticmethod
    def write(
        folder: Path, name: str, codes_of: dict[str, int], codes: Sequence[int], rows: Sequence[int]
    ) -> None:
        """Writes an index.

        Args:
            folder: where to write.
            name: name of the index.
            codes_of: value -> code.
            codes: code of the value in each (value, row) pair.
            rows: row of each pair, in ascending order.
        """
        values = sorted((encode(value), code) for value, code in codes_of.items())
        StringTable.write(folder, name, [value for value, _ in values])
        place = np.empty(len(values), np.int64)
        place[[code for _, code in values]] = np.arange(len(values))
        places = place[np.asarray(codes, np.int64)]
        starts = np.zeros(len(values) + 1, np.int64)
        np.cumsum(np.bincount(places, minlength=len(values)), out=starts[1:])
        order = np.argsort(places, kind="stable")
        save(folder, f"{name}_row_starts", starts, "int64")
        save(folder, f"{name}_rows", np.asarray(rows, np.int64)[order], "int32")

    def rows_of(self, value: str) -> np.ndarray:
        """Returns the rows with a value, int64. The result is empty if there are none."""
        position = self.values.find(value)
        if position is None:
            return np.empty(0, np.int64)
        return self.rows[self.starts[position] : self.starts[position + 1]].astype(np.int64)
