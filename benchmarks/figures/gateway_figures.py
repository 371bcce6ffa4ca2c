"""Figures of programs that own their loop: libraries, learning and speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.shared.figure_results import NOTHING, interval, results_if_any, table

APIS = {"": "Chat completions", "responses": "Responses", "messages": "Messages"}
"""Title of each API, by its word in the mode of a program."""
MEASURES = ("success", "reward")
SPEEDS = ("program_speed", "program_speed_smollm2")
"""Files of speeds, one per model."""


def harnesses() -> str:
    """Returns the libraries whose programs ran on the gateway, with versions and modes."""
    content = results_if_any("harnesses")
    if content is None:
        return NOTHING
    rows = []
    for name, packages in content["libraries"].items():
        runs = [run for run in content["runs"] if run["library"] == name]
        extends = [run["extends"] for run in runs if run["solved"]]
        shown = ", ".join(f"{package} {version}" for package, version in packages.items())
        rows.append((shown, *(_modes(runs, api) for api in APIS), "yes" if all(extends) else "no"))
    return table(("Packages", *APIS.values(), "One segment"), rows)


def _modes(runs: Sequence[Mapping[str, Any]], api: str) -> str:
    """Returns the modes of an API in which a library solved its task, and those that failed."""
    found = []
    for run in runs:
        words = set(run["mode"].split())
        named = next((word for word in words if word in APIS), "")
        if named == api:
            mode = next((w for w in ("stream", "async") if w in words), "whole")
            shown = {"stream": "streamed"}.get(mode, mode)
            found.append(shown if run["solved"] else f"{shown} fails")
    return ", ".join(found) or "-"


def tool_program() -> str:
    """Returns the results of a program with tools, before and after training."""
    content = results_if_any("tool_program")
    if content is None:
        return NOTHING
    rows = [
        (seed, *(interval(run[when][what]) for what in MEASURES for when in ("before", "after")))
        for seed, run in content["runs"].items()
    ]
    titles = [f"{what.capitalize()}, {when}" for what in MEASURES for when in ("clone", "trained")]
    return table(("Seed", *titles), rows)


def program_speed() -> str:
    """Returns the speed of 64 programs beside that of the trainer's own loop, by model."""
    rows = [
        (
            f"{content['parameters'] / 1e6:.1f} million",
            name,
            *(f"{median(row[loop]):,.0f}" for loop in ("trainer", "program")),
            interval(row["ratio"]),
        )
        for content in map(results_if_any, SPEEDS)
        if content is not None
        for name, row in content["batchings"].items()
    ]
    titles = ("Parameters", "Batching", "Trainer, tokens/s", "Programs, tokens/s", "Ratio")
    return table(titles, rows) if rows else NOTHING


def kill_resume() -> str:
    """Returns how many killed runs were resumed to the weights of the uninterrupted run."""
    content = results_if_any("kill_resume")
    if content is None:
        return NOTHING
    runs = content["runs"]
    return f"{sum(run['resumed'] and run['equal'] for run in runs)} of {len(runs)}"


BLOCKS = {block.__name__: block for block in (harnesses, kill_resume, program_speed, tool_program)}
