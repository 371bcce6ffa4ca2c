"""Learning curves drawn from results files; the same files give the same pictures."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

STYLE: Any = {
    "svg.hashsalt": "agentgym",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
POINTS = 101


def recipe_curves(grid: Mapping[str, Any], recipe: str) -> str | None:
    """Returns a recipe's curves in every environment of the grid as SVG, or None without any.

    Args:
        grid: content of `grid.json`.
        recipe: name of the recipe. The other recipes are drawn in grey.
    """
    envs = [env for env in grid["envs"] if curves_of(grid, env, recipe)]
    if not envs:
        return None
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(3.2 * len(envs), 2.6), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(1, len(envs), squeeze=False)[0]
        for axes, env in zip(panels, envs, strict=True):
            _panel(axes, grid, env, recipe)
        panels[0].set_ylabel("reward on held-out tasks")
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def _panel(axes: Any, grid: Mapping[str, Any], env: str, recipe: str) -> None:
    about = grid["envs"][env]
    budget = about["config"]["env_steps"]
    for other in dict.fromkeys(run["recipe"] for run in grid["runs"]):
        if other != recipe and (curves := curves_of(grid, env, other)):
            axes.plot(*mean_curve(curves, budget), color="0.85", linewidth=1, zorder=1)
    mine = curves_of(grid, env, recipe)
    for curve in mine:
        axes.plot(curve[:, 0], curve[:, 1], color="C0", alpha=0.35, linewidth=1)
    axes.plot(*mean_curve(mine, budget), color="C0", linewidth=2, label=f"{recipe}, mean")
    for agent, style in (("random", ":"), ("expert", "--")):
        axes.axhline(about["baselines"][agent], color="0.4", linestyle=style, linewidth=1)
    name = about["config"]["env_id"].removesuffix("-v0")
    axes.set(title=name, xlabel="environment steps", xlim=(0, budget))
    axes.xaxis.set_major_formatter(lambda x, _: f"{x / 1000:g}k" if x else "0")
    axes.locator_params("x", nbins=4)


def curves_of(grid: Mapping[str, Any], env: str, recipe: str) -> list[np.ndarray]:
    """Returns the (env_steps, reward) curves of all seeds."""
    runs = (run for run in grid["runs"] if run["env"] == env and run["recipe"] == recipe)
    return [np.array(run["curve"], float) for run in runs]


def mean_curve(curves: list[np.ndarray], budget: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the mean of curves, interpolated at the same steps."""
    steps = np.linspace(0, budget, POINTS)
    rewards = [np.interp(steps, curve[:, 0], curve[:, 1]) for curve in curves]
    return steps, np.mean(rewards, axis=0)
