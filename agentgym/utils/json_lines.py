"""Lines of JSON, of which the last may be incomplete, such as logs of runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def read_jsonl(path: Path) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Yields the lines of a log with their objects, or with None if the line is damaged.

    An incomplete last line is skipped.
    """
    if not path.exists():
        return
    # Logs are ASCII, as `json.dumps` writes them.
    lines = path.read_text(encoding="ascii", errors="replace").split("\n")
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        whole = isinstance(value, dict) and type(value.get("iteration")) is int
        if whole and "\ufffd" not in line:
            yield line, value
        elif number < len(lines):
            yield line, None


def whole_lines(text: str) -> list[str]:
    """Returns the lines of a text without the last one if that is no whole value of JSON.

    A process that was killed may have left a part of it.
    """
    *lines, last = text.split("\n")
    try:
        json.loads(last)
    except (ValueError, RecursionError):
        return lines
    return [*lines, last]
