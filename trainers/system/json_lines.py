"""Logs of JSON lines that are cut off when a run is resumed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentgym.trainers.system.checkpoint import write_text
from agentgym.utils.json_lines import read_jsonl


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
