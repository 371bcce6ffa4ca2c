"""The table and the figure of `critic.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks.credit.critic_fits import CRITICS


def value_of(result: dict[str, Any], critic: str) -> float:
    """Returns the explained variance over all turns, NaN for a critic that was not measured."""
    return result["critics"][critic]["all"][0] if critic in result["critics"] else float("nan")


def tabulate(found: dict[str, Any]) -> Table:
    """Returns the explained variances over all turns as a table."""
    table = Table(title="Explained variance on held-out tasks (share of the possible)")
    table.add_column("environment")
    for column in ("possible", *CRITICS):
        table.add_column(column, justify="right")
    for name, result in found.items():
        best = result["possible"]["all"][0]
        reached = [value_of(result, critic) for critic in CRITICS]
        cells = [f"{x:.2f} ({x / best:.0%})" if best > 0 else f"{x:.2f}" for x in reached]
        table.add_row(name, f"{best:.2f}", *cells)
    return table


def draw(found: dict[str, Any], path: Path) -> None:
    """Draws the possible and the reached explained variance of each environment."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    places = np.arange(len(found))
    best = [result["possible"]["all"][0] for result in found.values()]
    axes.bar(places, best, 0.9, color="0.88", label="best possible")
    width = 0.8 / len(CRITICS)
    for i, critic in enumerate(CRITICS):
        reached = [value_of(result, critic) for result in found.values()]
        axes.bar(places - 0.4 + width * (i + 0.5), reached, width, label=critic)
    names = [name.removesuffix("-v0") for name in found]
    axes.set_xticks(places, names, rotation=30, ha="right", rotation_mode="anchor")
    axes.set(ylabel="explained variance on held-out tasks", ylim=(-0.35, 1))
    axes.axhline(0, color="0.5", linewidth=1)
    figure.legend(ncols=len(CRITICS) + 1, fontsize="small", loc="outside upper center")
    figure.savefig(path, dpi=120)
