"""`agentgym view RUN`: what a run did and how credit was assigned, as one page of HTML.

The page holds its data, its style and its script; it needs no server and no network.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

from agentgym.errors import ConfigError

TEMPLATE = Path(__file__).with_name("viewer.html")

_TRAJECTORY: dict[str, type | tuple[type, ...]] = {
    "iteration": int,
    "env": str,
    "task": str,
    "turns": list,
    "last_observation": str,
}
_TURN: dict[str, type | tuple[type, ...]] = {
    "observation": str,
    "action": str,
    "tokens": list,
    "free": list,
    "logprobs": list,
    "advantages": list,
    "estimators": dict,
}
_METRICS: dict[str, type | tuple[type, ...]] = {"env_steps": (int, float)}


def render(folder: Path, last: int | None = None) -> str:
    """Returns the page of a run.

    Args:
        folder: the run's folder, with `trajectories.jsonl`, `metrics.jsonl` and `config.json`.
        last: show the last so many trajectories only; None: all.

    Raises:
        ConfigError: if there are no trajectories to show, or a file is damaged.
    """
    if last is not None and last < 1:
        raise ConfigError(f"last must be at least 1, got {last}.")
    path = folder / "trajectories.jsonl"
    trajectories = _lines(path)
    if not trajectories:
        raise ConfigError(
            f"{path} is not there or empty: nothing to show. Give the folder of a training run "
            "(runs/...) that was started with --transcripts above 0."
        )
    trajectories = trajectories if last is None else trajectories[-last:]
    for trajectory in trajectories:
        _check(path, trajectory, _TRAJECTORY)
        for turn in trajectory["turns"]:
            _check(path, turn, _TURN)
    metrics = _lines(folder / "metrics.jsonl")
    for line in metrics:
        _check(folder / "metrics.jsonl", line, _METRICS)
    settings = _settings(folder / "config.json")
    data = {
        "recipe": settings.get("recipe", "credit"),
        "env": trajectories[0]["env"],
        "rounds": len({line["iteration"] for line in trajectories}),
        "trajectories": trajectories,
        "curve": [
            {
                "env_steps": line["env_steps"],
                "train": line.get("rollout/return"),
                "held_out": line.get("eval/reward"),
            }
            for line in metrics
        ],
    }
    # "</script>" inside a text must not end the element that holds it.
    text = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    title = html.escape(f"{data['recipe']} on {data['env']}")
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(title=title, data=text)


def _lines(path: Path) -> list[dict[str, Any]]:
    """Returns the objects of a JSONL file, without a last line that is incomplete."""
    if not path.exists():
        return []
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is damaged: it is not UTF-8 text ({error}).") from error
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line, parse_constant=lambda _: None, parse_float=_finite)
        except (ValueError, RecursionError) as error:
            if number == len(lines):  # still being written
                break
            raise ConfigError(f"{path} is damaged in line {number}: {error}.") from error
        if not isinstance(value, dict):
            raise ConfigError(
                f"{path} is damaged in line {number}: expected an object, "
                f"got {type(value).__name__}."
            )
        found.append(value)
    return found


def _finite(text: str) -> float | None:
    """Parses a number. JavaScript's JSON has neither NaN nor infinities."""
    number = float(text)
    return number if math.isfinite(number) else None


def _check(path: Path, value: Any, fields: Mapping[str, type | tuple[type, ...]]) -> None:
    """Raises a ConfigError if a value is not an object with the given fields."""
    for name, kind in fields.items():
        if not isinstance(value, dict) or not isinstance(value.get(name), kind):
            raise ConfigError(
                f"{path} is damaged or was written by an older version: the field {name!r} is "
                "missing or of another type. Train again to view the run."
            )


def _settings(path: Path) -> dict[str, Any]:
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))["config"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    return settings if isinstance(settings, dict) else {}
