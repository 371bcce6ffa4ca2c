"""`agentgym view RUN`: what a run did and how credit was assigned, as one page of HTML.

The page holds its data, its style and its script; it needs no server and no network.
"""

from __future__ import annotations

import html
import json
from pathlib import Path
from string import Template
from typing import Any

from agentgym.errors import ConfigError

TEMPLATE = Path(__file__).with_name("viewer.html")


def render(folder: Path, last: int | None = None) -> str:
    """Returns the page of a run.

    Args:
        folder: the run's folder, with `trajectories.jsonl`, `metrics.jsonl` and `config.json`.
        last: show the last so many trajectories only; None: all.

    Raises:
        ConfigError: if there are no trajectories to show.
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
    if any("advantages" not in turn for turn in trajectories[0]["turns"]):
        raise ConfigError(f"{path} was written by an older version; train again to view it.")
    trajectories = trajectories if last is None else trajectories[-last:]
    metrics = _lines(folder / "metrics.jsonl")
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
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    title = html.escape(f"{data['recipe']} on {data['env']}")
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(title=title, data=text)


def _lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a JSONL file; a line that is still being written is left out."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            break
    return found


def _settings(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))["config"]
    except (OSError, ValueError, KeyError):
        return {}
