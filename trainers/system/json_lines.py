"""Logs of JSON lines, of which the last may be incomplete and others damaged."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agentgym.trainers.system.checkpoint import write_text


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


def truncate_jsonl(path: Path, keep: Callable[[dict[str, Any]], bool]) -> None:
    """Keeps some lines of a log and drops the others, with a warning if lines are damaged."""
    if not path.exists():
        return
    kept, damaged = [], 0
    for line, value in read_jsonl(path):
        damaged += value is None
        if value is not None and keep(value):
            kept.append(line + "\n")
    if damaged:
        warnings.warn(
            f"{path} is damaged: {damaged} of its lines cannot be read and are dropped.",
            RuntimeWarning,
            stacklevel=2,
        )
    write_text(path, "".join(kept))
