"""The exact advantages of an audited run, beside the credit that `agentgym view` shows."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentgym.errors import ConfigError

FILE = "audit.json"
"""The file of `agentgym audit` in the folder of a run."""
EXACT = "exact"
"""The estimator under which the page shows exact advantages."""


def add_exact(folder: Path, trajectories: Sequence[dict[str, Any]]) -> None:
    """Adds the exact advantages of an audit to the turns that it is about, if there is one.

    A turn gets the estimator "exact", all its tokens with the advantage of the turn, and `exact`:
    its standard error, and whether the turn decides its episode or is not known to matter (moot).
    Trajectories that an audit of earlier ones does not fit stay as they are.

    Args:
        folder: the folder of the run.
        trajectories: the lines of its `trajectories.jsonl`.

    Raises:
        ConfigError: if the file is damaged.
    """
    path = folder / FILE
    if not path.exists():
        return
    try:
        audit = json.loads(path.read_text(encoding="utf-8"))
        iteration, episodes = audit["iteration"], audit["episodes"]
        rows = [
            (each["task"], each["seed"], [_exact(turn) for turn in each["turns"]])
            for each in episodes
        ]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ConfigError(
            f"{path} is damaged: {error!r:.200}. Delete it, or run `agentgym audit` again."
        ) from error
    audited = [line for line in trajectories if line["iteration"] == iteration and line["turns"]]
    for line, (task, seed, turns) in zip(audited, rows, strict=False):
        if (line["task"], line.get("seed"), len(line["turns"])) != (task, seed, len(turns)):
            continue
        for turn, (advantage, about) in zip(line["turns"], turns, strict=True):
            turn["estimators"] = {EXACT: [advantage] * len(turn["tokens"])} | turn["estimators"]
            turn["exact"] = about


def _exact(turn: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    """Returns the advantage of a turn, and what the page says of it."""
    advantage, error = float(turn["exact"]), float(turn["error"])
    if not (math.isfinite(advantage) and math.isfinite(error)):
        raise ValueError(f"expected finite numbers, got {advantage} and {error}")
    return advantage, {"error": error, "moot": turn["moot"], "decisive": turn["decisive"]}
