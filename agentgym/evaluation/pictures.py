"""Pictures of evaluations, drawn with matplotlib."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from agentgym.errors import MissingExtraError
from agentgym.evaluation.comparison_figure import replace_figure
from agentgym.evaluation.crossplay import CrossPlay


def draw_cross_play(result: CrossPlay, file: str | Path) -> None:
    """Draws the mean returns of agents (rows) against agents (columns) as a heat map.

    Colours are symmetric about the mean of the matrix, which is 0 in a zero-sum game. Without
    self-play, the diagonal is empty.

    Args:
        result: the result of `cross_play`.
        file: the picture. Its suffix sets the format, such as .png or .svg.

    Raises:
        MissingExtraError: if matplotlib is not installed.
    """
    try:
        # The object interface: pyplot would choose a backend for the whole process.
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("A picture", "train", "matplotlib") from error

    cells, names = result.matrix(), result.agents
    means = np.array([[cell.mean for cell in row] for row in cells])
    size = 2.4 + 0.9 * len(names)
    figure = Figure(figsize=(size + 1.2, size), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    centre = 0.0 if result.zero_sum else float(np.nanmean(means))
    reach = max(float(np.nanmax(np.abs(means - centre))), 1e-9)
    image = axes.imshow(means, cmap="RdBu", vmin=centre - reach, vmax=centre + reach)
    for i, j in np.argwhere(~np.isnan(means)):
        mean, high = cells[i][j].mean, cells[i][j].high
        dark = abs(mean - centre) > 0.6 * reach
        text = f"{mean:.2f}" if high is None else f"{mean:.2f}\n±{high - mean:.2f}"
        axes.text(j, i, text, ha="center", va="center", color="white" if dark else "black")
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
    axes.set_yticks(range(len(names)), names)
    axes.set(
        xlabel="opponent in all other seats",
        ylabel="agent",
        title=f"Return in {result.env.removeprefix('AgentGym/')}",
    )
    figure.colorbar(image, ax=axes, shrink=0.8)
    replace_figure(figure, Path(file))
