"""The table and the picture of `families.py` for the documentation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from agentgym.evaluation.report import Estimate, mean_interval
from benchmarks.shared.figure_results import NOTHING, digest_of, png_of, results_if_any, table
from benchmarks.shared.result_files import outer_quarters

Runs = Sequence[Mapping[str, Any]]
"""Summaries of the runs in one environment."""
COLUMNS = {
    "random": "Random",
    "imitation": "Cloned",
    "poad": "POAD",
    "grpo": "GRPO",
    "expert": "Expert",
}


def measured() -> dict[str, Any]:
    """Returns the results by environment, empty if there are none."""
    return (results_if_any("families") or {"environments": {}})["environments"]


def over_seeds(runs: Runs) -> dict[str, Estimate]:
    """Returns the mean rewards over seeds with their t intervals, by key of `COLUMNS`."""
    found: dict[str, dict[int, float]] = {name: {} for name in COLUMNS}
    for run in runs:
        for name in COLUMNS:
            agent = "trained" if name == run["recipe"] else name
            if agent in run["agents"]:
                found[name][run["seed"]] = run["agents"][agent]["reward"][0]
    return {
        name: mean_interval(list(by_seed.values())) for name, by_seed in found.items() if by_seed
    }


def families_table(results: Mapping[str, Any] | None = None) -> str:
    """Returns the rewards of all agents, a row per environment, or a note without results.

    Args:
        results: results by environment (None: those of the result file).
    """
    rows = []
    for name, content in (measured() if results is None else results).items():
        found = over_seeds(content["runs"])
        cells = [_cell(found[agent]) if agent in found else "-" for agent in COLUMNS]
        rows.append((f"`{name}`", *cells, _explained(content["runs"])))
    header = ("Environment", *COLUMNS.values(), "Explained variance, first and last quarter")
    return table(header, rows) if rows else NOTHING


def _explained(runs: Runs) -> str:
    """Returns the median explained variance in the first and last quarter of its iterations."""
    parts: tuple[list[float], list[float]] = [], []
    for run in runs:
        quarters = outer_quarters([value for _, value in run["explained_variance"]])
        for part, values in zip(parts, quarters, strict=True):
            part.extend(values)
    return " to ".join(f"{median(part):.2f}" for part in parts if part)


def families_summary() -> str:
    """Returns in how many environments each recipe is clearly above cloning."""
    environments = [content["runs"] for content in measured().values()]
    if not environments:
        return NOTHING
    return (
        f"Of {len(environments)} environments, the interval over seeds lies above that of cloning "
        f"with {_counts(environments, _apart_over_seeds)}. In each seed, the interval over tasks "
        f"lies above that of cloning with {_counts(environments, _apart_over_tasks)}."
    )


def _counts(environments: Sequence[Runs], apart: Callable[[Runs, str], bool]) -> str:
    counts = {name: sum(apart(runs, name) for runs in environments) for name in ("poad", "grpo")}
    return " and ".join(f"{COLUMNS[name]} in {count}" for name, count in counts.items())


def _apart_over_seeds(runs: Runs, recipe: str) -> bool:
    found = over_seeds(runs)
    if recipe not in found:
        return False
    low, high = found[recipe].low, found["imitation"].high
    return low is not None and high is not None and low > high


def _apart_over_tasks(runs: Runs, recipe: str) -> bool:
    agents = [run["agents"] for run in runs if run["recipe"] == recipe]
    return all(each["trained"]["reward"][1] > each["imitation"]["reward"][2] for each in agents)


def _cell(estimate: Estimate) -> str:
    mean, low, high = estimate.mean, estimate.low, estimate.high
    return f"{mean:.2f}" if low is None or low == high else f"{mean:.2f} [{low:.2f}, {high:.2f}]"


def families_picture() -> str:
    """Returns the picture of all curves, or a note without results."""
    return "![Curves of POAD and GRPO](families.png)" if measured() else NOTHING


def picture() -> tuple[str, Callable[[], bytes]]:
    """Returns a digest of the results, and a function that draws the curves."""
    content = measured()
    digest = digest_of(content)
    return digest, lambda: _draw(content, digest)


def _draw(environments: Mapping[str, Any], digest: str) -> bytes:
    """Draws two panels per environment: returns in training, and the explained variance."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = len(environments)
    figure = Figure(figsize=(3 * columns, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, columns, squeeze=False, height_ratios=[2, 1], sharex="col")
    for (axes, below), (name, content) in zip(panels.T, environments.items(), strict=True):
        for run in content["runs"]:
            color, label = ("C0", "POAD") if run["recipe"] == "poad" else ("C1", "GRPO")
            own = None if label in axes.get_legend_handles_labels()[1] else label
            axes.plot(*zip(*run["training_return"], strict=True), color=color, alpha=0.7, label=own)
            if run["explained_variance"]:
                below.plot(*zip(*run["explained_variance"], strict=True), color=color, alpha=0.7)
        axes.set(title=name)
        below.set(xlabel="environment steps", ylim=(-1, 1))
        for each in (axes, below):
            each.grid(alpha=0.3)
    panels[0, 0].set(ylabel="return in training")
    panels[0, 0].legend(fontsize="small")
    panels[1, 0].set(ylabel="explained\nvariance")
    return png_of(figure, digest)


BLOCKS: dict[str, Callable[[], str]] = {
    function.__name__: function for function in (families_table, families_summary, families_picture)
}
PICTURES = {"docs/families.png": picture} if measured() else {}
"""The picture of the curves, once there are results."""
