"""Files that are replaced as a whole."""

from __future__ import annotations

import os
from pathlib import Path


def replace_text(path: Path, text: str) -> None:
    """Writes a file atomically: it holds either the old text or the new one."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    with partial.open("rb") as file:  # else a power failure may leave an empty file
        os.fsync(file.fileno())
    os.replace(partial, path)
