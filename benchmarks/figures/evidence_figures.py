"""Figures of `evidence_queue.py` in the documentation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.shared.figure_results import (
    NOTHING,
    interval,
    percent_interval,
    results_if_any,
    table,
)


def evidence() -> str:
    """Returns the success on held-out tasks of each run."""
    content = results_if_any("evidence")
    if content is None:
        return NOTHING
    runs = sorted(
        content["runs"].values(),
        key=lambda run: (
            run["env"],
            run["demonstrations"],
            run["recipe"] != "clone",
            run["recipe"],
        ),
    )
    header = (
        *("Environment", "Recipe", "Demonstrations", "Seed"),
        *("Success, %", "Reward", "Steps", "Device"),
    )
    return table(header, [cells(run) for run in runs])


def cells(run: dict[str, Any]) -> tuple[str, ...]:
    """Returns a row of the table."""
    final = list(run["agents"].values())[-1]
    return (
        f"`{run['env']}`",
        run["recipe"],
        str(run["demonstrations"]),
        str(run["seed"]),
        percent_interval(final["success"]),
        interval(final["reward"]),
        f"{run['env_steps']:,}",
        run["device"],
    )


BLOCKS: dict[str, Callable[[], str]] = {"evidence": evidence}
