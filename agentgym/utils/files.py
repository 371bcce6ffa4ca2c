"""Files that are replaced as a whole, and paths as they are printed."""

from __future__ import annotations

import os
from pathlib import Path


def shown(path: Path) -> str:
    """Returns a path as it is printed: relative to the working directory if it lies inside."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (OSError, ValueError):  # the working directory is gone, or another one
        return str(path)


def replace_text(path: Path, text: str) -> None:
    """Writes a file atomically: it holds either the old text or the new one."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    with partial.open("rb") as file:  # else a power failure may leave an empty file
        os.fsync(file.fileno())
    os.replace(partial, path)
