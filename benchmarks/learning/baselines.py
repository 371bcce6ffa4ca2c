"""Baselines: the random agent and the scripted expert in every environment.

Both agents play the training and the test tasks of every id. The random agent samples admissible
actions. Existing results are kept unless --again is set.

    python benchmarks/learning/baselines.py [--ids WebShop-v0 ...] [--episodes 200]
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import tyro
from rich.console import Console
from rich.progress import track

from agentgym.agents.basic.expert import NoExpertError
from agentgym.errors import MissingExtraError
from agentgym.evaluation.report import Report, compare
from agentgym.evaluation.runner import evaluate
from agentgym.registration.entry import Entry
from agentgym.registration.ids import TABLE
from benchmarks.shared.result_files import RESULTS, rounded, whole, write

RESULT = RESULTS / "baselines.json"


@dataclass
class Settings:
    """Settings of the benchmark."""

    ids: tuple[str, ...] = ()
    """Environment ids (empty: all)."""
    episodes: int = 200
    """Episodes per agent and split."""
    again: bool = False
    """Measure environments again that have results."""


def numbers(report: Report) -> dict[str, Any]:
    """Returns the means and confidence intervals of a report."""
    means = report.aggregate()
    names = ("reward", "success", "progress", "turns", "valid")
    return {"n": len(report.episodes), **{name: rounded(means[name]) for name in names}}


def measure(entry: Entry, episodes: int) -> tuple[dict[str, Any], list[Report]]:
    """Evaluates both agents in an environment, without the expert if it has none."""
    found: dict[str, Any] = {}
    reports = []
    for split in ("train", "test"):
        for agent in ("random", "expert"):
            try:
                report = whole(evaluate(entry.id, agent, tasks=episodes, split=split))
            except NoExpertError:
                continue
            found[f"{agent}/{split}"] = numbers(report)
            reports.append(report)
    return found, reports


def main(settings: Settings) -> None:
    """Measures the missing environments, writes all results and prints the new ones."""
    known: dict[str, Any] = {}
    if RESULT.exists():
        known = json.loads(RESULT.read_text())["environments"]
    chosen = [
        e for e in TABLE if not settings.ids or e.name in settings.ids or e.id in settings.ids
    ]
    missing = [e for e in chosen if settings.again or e.name not in known]
    everything: list[Report] = []
    for entry in track(missing, "environments", transient=True):
        try:
            known[entry.name], reports = measure(entry, settings.episodes)
        except MissingExtraError as error:
            print(error)
            continue
        everything += reports
        ordered = {e.name: known[e.name] for e in TABLE if e.name in known}
        write(RESULT, {"environments": ordered})
    if everything:
        Console(width=120).print(compare(everything))


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
