"""Results of files that are kept until the files change."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import lru_cache, wraps
from inspect import signature
from pathlib import Path
from typing import Any, ParamSpec, Protocol, Self, TypeVar, cast

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result", covariant=True)
FileState = tuple[Any, ...]
"""What changes with files: see `file_state`."""
_SOURCE = re.compile(
    r"(?:rubric=(.+?):(?=(?:chat|policy|model):))?(?:(?:policy|model):)?(.*)", re.DOTALL
)


class Kept(Protocol[Arguments, Result]):
    """A function whose last results are kept."""

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        """Returns a result."""
        ...

    def cache_clear(self) -> None:
        """Forgets all results."""
        ...


class Shared:
    """What was read from files and never changes: copies of environments share it.

    A subclass says by `__reduce__` how another process reads it.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


def file_state(*sources: str | Path | None) -> FileState:
    """Returns the times and sizes of files and of all files in folders, which change with them.

    Args:
        *sources: files, folders, sources of models that name some (policy:FOLDER, model:FOLDER,
            rubric=FILE:chat:MODEL@URL), or anything else, which has no state.
    """
    found: list[Any] = []
    for source in sources:
        match = _SOURCE.fullmatch(str(source or ""))
        parts = filter(None, match.groups()) if match else ()
        for path in map(os.path.expanduser, parts):
            found.append(_state(path))
            for folder, folders, names in os.walk(path) if found[-1] else ():
                folders.sort()
                found += [
                    (folder, name, _state(os.path.join(folder, name))) for name in sorted(names)
                ]
    return tuple(found)


def _state(path: str) -> FileState:
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # a name that no file can have
        return ()
    return found.st_mtime_ns, found.st_size


def cached_by_files(
    *names: str, maxsize: int
) -> Callable[[Callable[Arguments, Result]], Kept[Arguments, Result]]:
    """Keeps the last results of a function, as `lru_cache` does, until its files change.

    A result of earlier contents of the files is not kept beside the new one: it may be a model.

    Args:
        *names: the arguments that name files, as in `file_state`.
        maxsize: number of results.
    """

    def decorate(function: Callable[Arguments, Result]) -> Kept[Arguments, Result]:
        bind = signature(function).bind

        @lru_cache(maxsize)
        def place(*args: Any, **kwargs: Any) -> list[tuple[FileState, Result]]:
            return []

        @wraps(function)
        def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            given, kept = bind(*args, **kwargs).arguments, place(*args, **kwargs)
            state = file_state(*(given[name] for name in names))
            if not kept or kept[0][0] != state:
                kept[:] = [(state, function(*args, **kwargs))]
            return kept[0][1]

        call.cache_clear = place.cache_clear  # type: ignore[attr-defined]
        return cast("Kept[Arguments, Result]", call)

    return decorate
