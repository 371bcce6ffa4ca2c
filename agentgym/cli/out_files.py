"""Checks of the files that a command is to write, before the work rather than after it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from agentgym.errors import ConfigError


def check_out_files(paths: Iterable[Path | None], sources: Sequence[Path] = ()) -> None:
    """Checks that files can be written, and that none of them is read.

    Args:
        paths: the files, None for those that are not asked for.
        sources: the files that the command reads, or folders whose JSON files it reads.

    Raises:
        ConfigError: if there is no folder for a file or no permission, or it is a folder or a
            source.
    """
    for path in filter(None, paths):
        if not path.parent.is_dir():
            raise ConfigError(f"There is no folder {str(path.parent)!r} to write {path.name} to.")
        if path.is_dir():
            raise ConfigError(f"{str(path)!r} is a folder. Expected the name of a file.")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise ConfigError(f"There is no permission to write {str(path)!r}.")
        if path.exists() and any(_is_read(path, source) for source in sources):
            raise ConfigError(
                f"{str(path)!r} is read, and would be replaced: give the result another name."
            )


def _is_read(path: Path, source: Path) -> bool:
    files = source.glob("*.json*") if source.is_dir() else [source]
    return any(file.exists() and path.samefile(file) for file in files)
