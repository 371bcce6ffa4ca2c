"""The figure of a comparison: held-out return over environment steps and over action tokens."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from agentgym.errors import MissingExtraError
from agentgym.evaluation.bootstrap import interquartile_weights
from agentgym.evaluation.comparison import Group
from agentgym.evaluation.runs import Evaluation, TrainingRun
from agentgym.utils.files import replace_bytes, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Budget = Callable[[Evaluation], float]
AXES: dict[str, Budget] = {
    "environment steps": lambda point: point.env_steps,
    "action tokens": lambda point: point.tokens,
}
LABEL = 50
"""Characters of a line of the legend."""
POINTS = 200
"""Largest number of points of a mean line."""
SAMPLES = 2000
"""Bootstrap samples of a band."""


def curve_of(runs: Sequence[TrainingRun], budget: Budget) -> tuple[Array, Array, Array, Array]:
    """Returns budgets, and the interquartile mean of the runs there with a 95 % interval.

    Evaluations of the runs are at different budgets, and are interpolated linearly. A finished run
    keeps its last value. If none has finished, the line ends with the shortest run.

    Args:
        runs: at least one run.
        budget: the number of an evaluation on the x axis.
    """
    lines = [(np.array([budget(p) for p in run.curve]), run) for run in runs]
    ends = [float(x[-1]) for x, _ in lines]
    last = max(ends) if all(run.finished for run in runs) else min(ends)
    first = min(max(float(x[0]) for x, _ in lines), last)
    x = np.unique(np.concatenate([[first, last], *(x for x, _ in lines)]))
    x = x[(first <= x) & (x <= last)]
    if len(x) > POINTS:
        x = x[np.linspace(0, len(x) - 1, POINTS).astype(int)]
    values = np.stack([np.interp(x, steps, [p.reward for p in run.curve]) for steps, run in lines])
    rng = np.random.default_rng(0)
    samples = rng.integers(len(runs), size=(SAMPLES, len(runs)))
    low, high = np.percentile(_middle(values[samples]), [2.5, 97.5], axis=0)
    return x, _middle(values[None])[0], low, high


def _middle(values: Array) -> Array:
    """Returns the interquartile means over the runs.

    Args:
        values: [samples, runs, points].
    """
    weights = interquartile_weights(values.shape[1])
    return np.einsum("srp,r->sp", np.sort(values, axis=1), weights)


def draw_comparison(groups: Sequence[Group], file: str | Path | io.BytesIO) -> None:
    """Draws the runs of each group as thin lines, and their mean with a 95 % band.

    Args:
        groups: the groups of runs. Those without an evaluation are left out.
        file: the picture. Its suffix sets the format, such as .png or .svg. A buffer gets a PNG.

    Raises:
        MissingExtraError: if matplotlib is not installed.
    """
    figure = _figure(groups)
    if isinstance(file, io.BytesIO):
        figure.savefig(file, dpi=120, format="png")
    else:
        replace_figure(figure, Path(file))


def replace_figure(figure: Figure, path: Path) -> None:
    """Writes a figure, in place of an earlier one as a whole. Its suffix sets the format."""
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=120, format=path.suffix[1:] or "png")
    replace_bytes(path, drawn.getvalue())


def _figure(groups: Sequence[Group]) -> Figure:
    try:
        # The object interface: pyplot would choose a backend for the whole process.
        from matplotlib import colormaps
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("A figure", "train", "matplotlib") from error

    drawn = [group for group in groups if group.runs]
    figure = Figure(figsize=(10, 4.2 + 0.25 * len(drawn)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(AXES), sharey=True)
    colours = colormaps["tab10" if len(drawn) <= 10 else "turbo"]
    places = range(len(drawn)) if len(drawn) <= 10 else np.linspace(0, 1, len(drawn))
    for panel, (label, budget) in zip(panels, AXES.items(), strict=True):
        for group, place in zip(drawn, places, strict=True):
            _draw(panel, group, budget, colours(place))
        panel.set(xlabel=label)
        panel.grid(alpha=0.3)
    envs = list(dict.fromkeys(group.env for group in drawn))
    panels[0].set(ylabel="held-out return")
    figure.suptitle(envs[0] if len(envs) == 1 else "")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=min(len(drawn), 3), frameon=False
    )
    return figure


def _draw(panel: Axes, group: Group, budget: Budget, colour: tuple[float, ...]) -> None:
    for run in group.runs:
        panel.plot(
            [budget(point) for point in run.curve],
            [point.reward for point in run.curve],
            color=colour,
            linewidth=0.8,
            alpha=0.45,
            linestyle="-" if run.finished else "--",
            marker="o" if len(run.curve) == 1 else "",
        )
    runs = group.finished or group.runs
    x, mean, low, high = curve_of(runs, budget)
    label = f"{group.name} ({len(runs)} run{'s' * (len(runs) != 1)}"
    label += f", {unfinished} unfinished)" if (unfinished := _unfinished(group)) else ")"
    label = textwrap.fill(label.replace("$", r"\$"), LABEL)  # no formula
    panel.plot(x, mean, color=colour, linewidth=2.2, label=label)
    if len(runs) > 1:
        panel.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)


def _unfinished(group: Group) -> int:
    return len(group.runs) - len(group.finished)


def try_to_draw(groups: Sequence[Group], file: Path) -> str:
    """Draws the figure and returns a sentence: where it is, or what is missing for it."""
    if not any(group.runs for group in groups):
        return "No run has been evaluated yet, so that there is no figure."
    try:
        draw_comparison(groups, file)
    except MissingExtraError as error:
        return f"No figure: {error}"
    return f"Figure: {shown(file)}"
