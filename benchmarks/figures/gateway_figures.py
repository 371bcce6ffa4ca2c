"""Figures of programs that own their loop: libraries, learning and speed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.shared.figure_results import NOTHING, interval, results_if_any, table

APIS = {"": "Chat completions", "responses": "Responses", "messages": "Messages"}
"""Title of each API, by its word in the mode of a program."""


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
    """Returns the success of a program with tools, before and after training."""
    content = results_if_any("tool_program")
    if content is None:
        return NOTHING
    rows = [(seed, *map(interval, run.values())) for seed, run in content["runs"].items()]
    return table(("Seed", "Clone", "After GRPO"), rows)


BLOCKS: dict[str, Callable[[], str]] = {
    function.__name__: function for function in (harnesses, tool_program)
}
PICTURES: dict[str, Callable[[], bytes]] = {}
