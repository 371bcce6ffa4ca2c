"""Tables and a picture of the multi-agent experiments, for the documentation.

Without `results/multiagent.json`, tables are replaced by a note, and there is no picture.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.shared.figure_results import (
    NOTHING,
    digest_of,
    png_of,
    results,
    results_if_any,
    table,
)

NAMES = (
    "kuhn",
    "leduc",
    "tictactoe",
    "cooks",
    "cooks_in_a_hurry",
    "dilemma",
    "branches",
    "scales",
    "codenames",
    "referential",
    "signalling",
)
"""The experiments with a table in the documentation."""


def measured() -> dict[str, Any]:
    """Returns the results of experiments with finished runs by name, empty if there are none."""
    found = (results_if_any("multiagent") or {"experiments": {}})["experiments"]
    return {name: experiment for name, experiment in found.items() if experiment["variants"]}


def experiment_table(name: str) -> str:
    """Returns the measures of an experiment, a row per variant, or a note without results."""
    experiment = measured().get(name)
    if not experiment:
        return NOTHING
    rows = experiment["variants"]
    keys = list(dict.fromkeys(key for row in rows.values() for key in _cells(row)))
    lines = [
        (variant, str(len(row["seeds"])), *(_cells(row).get(key, "-") for key in keys))
        for variant, row in rows.items()
    ]
    return table(("Variant", "Seeds", *keys), lines)


def _cells(row: Mapping[str, Any]) -> dict[str, str]:
    means = {key: _cell(estimate) for key, estimate in row["means"].items()}
    return means | {f"{key} (mean)": _cell({"mean": x}) for key, x in row.get("across", {}).items()}


def _cell(estimate: Mapping[str, float | None]) -> str:
    mean, high = estimate["mean"], estimate.get("high")
    assert mean is not None
    if abs(mean) >= 100:
        return f"{mean:,.0f}"
    return f"{mean:.2f}" if high is None else f"{mean:.2f} ± {high - mean:.2f}"


def hops_table() -> str:
    """Returns the bias of MARFT with and without a discount between agents, or a note."""
    estimators = results("credit_oracle")["estimators"]
    header = ("Estimator", "Bias", "x noise", "Gradient bias", "x noise")
    keys = ("bias", "bias_over_noise", "gradient_bias", "gradient_bias_over_noise")
    rows = [
        (name, *(f"{row[key]:.3f}" for key in keys))
        for name, row in estimators.items()
        if name.startswith("MARFT")
    ]
    return table(header, rows) if rows else NOTHING


def cost_table() -> str:
    """Returns the cost of four-agent games, or a note without results."""
    content = results_if_any("game_cost")
    if content is None:
        return NOTHING
    header = ("Game", "Game", "Single agents", "Update", "Ratio of rollouts", "Ratio of iterations")
    keys = ("game", "single", "update", "collection", "iteration")
    rows = content["games"].items()
    return table(header, [(name, *(f"{row[key]:.3f}" for key in keys)) for name, row in rows])


def roles_table() -> str:
    """Returns the memory of roles with adapters on one base, or a note without results."""
    content = results_if_any("game_cost") or {}
    if "memory" not in content:
        return NOTHING
    rows = []
    for layers, row in content["memory"].items():
        one, roles = row["one"], row["roles"]
        held = (one["weights"], sum(one.values()), roles["weights"], sum(roles.values()))
        rows.append((layers, *(f"{x / 2**20:,.0f}" for x in held), f"{row['ratio']:.3f}"))
    count = content["settings"]["roles"]
    header = ("Adapters of", "One: weights", "total", f"{count} roles: weights", "total", "Ratio")
    return table(header, rows)


def reading_table() -> str:
    """Returns the losses of decoders that clone moves in tic-tac-toe, or a note without results."""
    content = results_if_any("board_reading")
    if content is None:
        return NOTHING
    drawings = content["drawings"]
    header = ["Positions cloned"]
    header += [f"{name}, as {mark}" for name in drawings for mark in "XO"]
    rows = [
        (f"{some[0]['samples']:,}", *(f"{row[f'losses as {m}']:.3f}" for row in some for m in "XO"))
        for some in zip(*(found["rows"] for found in drawings.values()), strict=True)
    ]
    return table(header, rows)


def search_table() -> str:
    """Returns the errors of searches in tic-tac-toe, or a note without results."""
    content = results_if_any("board_search")
    if content is None:
        return NOTHING
    rows = content["budgets"]
    keys = list(next(iter(rows.values())))
    lines = [(budget, *(f"{row[key]:.3f}" for key in keys)) for budget, row in rows.items()]
    return table(("Budget", *keys), lines)


def picture_link() -> str:
    """Returns the picture of all curves, or a note without results."""
    if not measured():
        return NOTHING
    return "![Curves of the multi-agent experiments](multiagent.png)"


def picture() -> tuple[str, Callable[[], bytes]]:
    """Returns a digest of the curves, and a function that draws them."""
    curves = {
        name: {variant: row["curves"] for variant, row in found["variants"].items()}
        for name, found in measured().items()
    }
    digest = digest_of(curves)
    return digest, lambda: _draw(measured(), digest)


def _draw(experiments: Mapping[str, Any], digest: str) -> bytes:
    """Draws a panel per experiment: the mean of seeds for each variant, and thin single seeds."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(3, len(experiments))
    rows = -(-len(experiments) // columns)
    figure = Figure(figsize=(4.2 * columns, 3.2 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, (name, found) in zip(panels, experiments.items(), strict=False):
        _panel(axes, name, found)
    for axes in panels[len(experiments) :]:
        axes.set_axis_off()
    return png_of(figure, digest)


def _panel(axes: Any, name: str, found: Mapping[str, Any]) -> None:
    """Draws the curves of an experiment, over a logarithmic axis if their lengths differ much."""
    ends: list[float] = []
    for i, (variant, row) in enumerate(found["variants"].items()):
        curves = [np.array(curve) for curve in row["curves"].values() if curve]
        for curve in curves:
            axes.plot(*curve.T, color=f"C{i}", alpha=0.3, linewidth=0.8)
        if curves:
            points = min(map(len, curves))
            mean = np.mean([curve[:points] for curve in curves], axis=0)
            axes.plot(*mean.T, color=f"C{i}", label=variant)
            ends.append(mean[-1, 0])
    x, y = found["axes"]
    axes.set(title=name, xlabel=x, ylabel=y)
    if max(ends, default=0) > 10 * min(ends, default=0):
        axes.set_xscale("log")
    else:
        axes.locator_params(axis="x", nbins=5)
    axes.grid(alpha=0.3)
    _, labels = axes.get_legend_handles_labels()
    long = max(map(len, labels), default=0) > 60  # below the axes, where they hide no curve
    axes.legend(
        **({"loc": "upper center", "bbox_to_anchor": (0.45, -0.2)} if long else {}),
        fontsize="x-small",
    )


BLOCKS: dict[str, Callable[[], str]] = {
    "multiagent_picture": picture_link,
    "multiagent_hops": hops_table,
    "multiagent_cost": cost_table,
    "multiagent_roles": roles_table,
    "multiagent_reading": reading_table,
    "multiagent_search": search_table,
    **{f"multiagent_{name}": functools.partial(experiment_table, name) for name in NAMES},
}
PICTURES = {"docs/multiagent.png": picture} if measured() else {}
"""The picture of the curves, once there are results."""
