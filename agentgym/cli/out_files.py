"""Checks of the files that a command is to write, before the work rather than after it.

Files of episodes and tasks, which others read, are new files. Results, pages and figures replace
those of an earlier run of the command, so that a script can repeat it, and nothing else. Unfinished
results stand beside them.
"""

from __future__ import annotations

import json
import os
import sys
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


def check_new_file(path: Path) -> None:
    """Checks that a file, or a folder, does not exist and can be written.

    Raises:
        ConfigError: if it exists, or there is no folder for it or no permission.
    """
    if path.exists():
        raise ConfigError(f"{str(path)!r} exists: give a new name, or delete it first.")
    check_out_files([path])


def result_path(path: Path, *, whole: bool) -> Path:
    """Returns where a result is written: an unfinished one beside an earlier one, as stderr says.

    Args:
        path: the file of the result.
        whole: whether the command has finished.
    """
    if whole or not path.is_file() or not path.stat().st_size:
        return path
    partial = path.with_name(f"{path.stem}.partial{path.suffix}")
    print(
        f"The result is unfinished and goes to {str(partial)!r}: {str(path)!r} is kept.",
        file=sys.stderr,
    )
    return partial


BEGINNINGS = {".pdf": (b"%PDF",), ".png": (b"\x89PNG",), ".svg": (b"<?xml", b"<svg")}
"""First bytes of figures."""
PAGE = b'<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n'
"""First bytes of a page."""


def check_replaced(path: Path | None, *keys: str) -> None:
    """Checks that a file that exists is an earlier result, which a new one may replace.

    Args:
        path: the file of a result. None: it is not asked for.
        keys: keys of each JSON object in it. Without them it is a figure, by its suffix, or a page.

    Raises:
        ConfigError: if it holds anything else.
    """
    if path is None or not path.is_file() or not path.stat().st_size:
        return
    if keys:
        kind, fits = f"JSON with {' and '.join(keys)}", _has_rows(path, keys)
    else:
        kind = f"a {'figure' if path.suffix in BEGINNINGS else 'page'}"
        with path.open("rb") as file:
            fits = file.read(100).startswith(BEGINNINGS.get(path.suffix, (PAGE,)))
    if not fits:
        raise ConfigError(
            f"{str(path)!r} exists and is no earlier result of this command ({kind}), which would "
            "be replaced: give a new name, or delete it first."
        )


def _has_rows(path: Path, keys: Sequence[str]) -> bool:
    """Whether a file holds a JSON object, or a list of them, with keys."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return False
    rows = found if isinstance(found, list) else [found]
    return all(isinstance(row, dict) and row.keys() >= {*keys} for row in rows)


def _is_read(path: Path, source: Path) -> bool:
    files = source.glob("*.json*") if source.is_dir() else [source]
    return any(file.exists() and path.samefile(file) for file in files)
