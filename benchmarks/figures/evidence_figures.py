"""Figures of `evidence_queue.py` in the documentation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from agentgym.evaluation.report import mean_interval
from benchmarks.shared.figure_results import (
    NOTHING,
    digest_of,
    interval,
    percent_interval,
    png_of,
    results_if_any,
    table,
)

ADAPTERS = {"attention": "Queries and values, %", "linear": "All linear layers, %"}
"""Layers of adapters, and their columns."""
WINDOW = 4
"""Iterations of which a curve shows the mean."""
COLUMNS = 4
"""Panels in a row of the picture."""


def evidence() -> str:
    """Returns the success on held-out tasks of each recipe with each rate, by seed."""
    content = results_if_any("evidence")
    if content is None:
        return NOTHING
    lines: dict[tuple[Any, ...], dict[int, dict[str, Any]]] = {}
    for run in content["runs"].values():
        clone = run["recipe"] == "clone"
        start = run["env"], run["adapter"], run["demonstrations"]
        lines.setdefault((*start, not clone, run["recipe"], run["lr"]), {})[run["seed"]] = run
    seeds = sorted({seed for runs in lines.values() for seed in runs})
    header = (
        *("Environment", "Adapter", "Recipe", "Demonstrations", "Rate"),
        *(f"Seed {seed}, %" for seed in seeds),
        *("Steps", "Device"),
    )
    usual = _usual_starts(content["runs"].values())
    return table(header, [_line(runs, seeds, usual) for _, runs in sorted(lines.items())])


def _clone(run: dict[str, Any]) -> tuple[Any, ...]:
    """Returns what names the clone of a run."""
    return run["env"], run["adapter"], run["demonstrations"], run["seed"]


def _start(run: dict[str, Any]) -> Any:
    """Returns the measures of the clone that a run began from, None for a clone."""
    return run["agents"].get("start")


def _usual_starts(runs: Iterable[dict[str, Any]]) -> dict[tuple[Any, ...], Any]:
    """Returns the measures of most runs' clones, which rounding changes on another processor."""
    starts: dict[tuple[Any, ...], list[Any]] = {}
    for run in runs:
        if _start(run) is not None:
            starts.setdefault(_clone(run), []).append(_start(run))
    return {clone: max(found, key=found.count) for clone, found in starts.items()}


def _line(
    runs: dict[int, dict[str, Any]], seeds: list[int], usual: dict[tuple[Any, ...], Any]
) -> tuple[str, ...]:
    """Returns a row of the table: the runs of a recipe with a rate by seed."""
    run = next(iter(runs.values()))

    def cell(run: dict[str, Any]) -> str:
        start, shown = _start(run), percent_interval(list(run["agents"].values())[-1]["success"])
        if start is None or start == usual[_clone(run)]:
            return shown
        return f"{shown} from {100 * start['success'][0]:.0f}"

    return (
        f"`{run['env']}`",
        run["adapter"],
        run["recipe"],
        str(run["demonstrations"]),
        "-" if run["recipe"] == "clone" else f"{run['lr']:g}",
        *(cell(runs[seed]) if seed in runs else "" for seed in seeds),
        f"{np.mean([each['env_steps'] for each in runs.values()]):,.0f}",
        run["device"],
    )


def evidence_seeds() -> str:
    """Returns the reward of recipes with several seeds of a rate, and gains paired by clone."""
    content = results_if_any("evidence")
    if content is None:
        return NOTHING
    lines: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for run in content["runs"].values():
        start = run["env"], run["adapter"], run["demonstrations"]
        lines.setdefault((*start, run["recipe"] != "clone", run["recipe"], run["lr"]), []).append(
            run
        )
    rows = []
    for key, runs in sorted(lines.items()):
        env, adapter, demonstrations, trained, recipe, lr = key
        if len(runs) == 1 or env not in measured():
            continue
        grpo = lines.get((env, adapter, demonstrations, True, "grpo", lr), [])
        over_clone = [_reward(run) - _start(run)["reward"][0] for run in runs if trained]
        over_grpo = [
            _reward(run) - _reward(other)
            for run in runs
            for other in grpo
            if recipe != "grpo" and _clone(run) == _clone(other) and _start(run) == _start(other)
        ]
        found = [_reward(run) for run in runs]
        row = f"`{env}`", adapter, recipe, f"{lr:g}" if trained else "-", str(len(runs))
        gains = (_over_seeds(each) if len(each) > 1 else "-" for each in (over_clone, over_grpo))
        rows.append((*row, _over_seeds(found), f"{min(found):.2f}", *gains))
    header = (
        *("Environment", "Adapter", "Recipe", "Rate", "Seeds", "Reward", "Worst seed"),
        *("Over its clone", "Over `grpo`"),
    )
    return table(header, rows)


def _reward(run: dict[str, Any]) -> float:
    return list(run["agents"].values())[-1]["reward"][0]


def evidence_adapters() -> str:
    """Returns the success of clones whose adapters differ and nothing else."""
    content = results_if_any("evidence")
    clones: dict[tuple[Any, ...], dict[str, Any]] = {}
    for run in [] if content is None else content["runs"].values():
        if run["recipe"] == "clone":
            key = run["env"], run["demonstrations"], run["seed"]
            clones.setdefault(key, {})[run["adapter"]] = list(run["agents"].values())[-1]["success"]
    both = {key: found for key, found in clones.items() if len(found) == len(ADAPTERS)}
    header = "Environment", "Demonstrations", "Seed", *ADAPTERS.values()
    rows = [
        (f"`{env}`", str(count), str(seed), *(percent_interval(found[name]) for name in ADAPTERS))
        for (env, count, seed), found in sorted(both.items())
    ]
    return table(header, rows) if rows else NOTHING


def _over_seeds(values: list[float]) -> str:
    """Returns the mean over at least two seeds with its t interval."""
    found = mean_interval(values)
    assert found.low is not None and found.high is not None
    return interval((found.mean, found.low, found.high))


def measured() -> dict[str, dict[str, list[Any]]]:
    """Returns the runs of each recipe and rate in the environments where one has several seeds."""
    content = results_if_any("evidence")
    runs: dict[str, dict[str, list[Any]]] = {}
    for run in [] if content is None else content["runs"].values():
        if run["recipe"] != "clone":
            name = f"{run['recipe']}, {run['lr']:g}, {run['adapter']}"
            runs.setdefault(run["env"], {}).setdefault(name, []).append(run)
    return {
        env: dict(sorted(recipes.items()))
        for env, recipes in runs.items()
        if max(map(len, recipes.values())) > 1
    }


def evidence_picture() -> str:
    """Returns the picture of all curves, or a note without results."""
    return "![Returns in training on SmolLM2-135M](../evidence.png)" if measured() else NOTHING


def picture() -> tuple[str, Callable[[], bytes]]:
    """Returns a digest of the results, and a function that draws the curves."""
    content = measured()
    digest = digest_of(content)
    return digest, lambda: _draw(content, digest)


def _draw(environments: dict[str, dict[str, list[Any]]], digest: str) -> bytes:
    """Draws a panel per recipe with several seeds, means of `WINDOW` iterations as curves."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = [
        (f"{env}\n{recipe}", runs)
        for env, recipes in environments.items()
        for recipe, runs in recipes.items()
        if len(runs) > 1
    ]
    rows = -(-len(panels) // COLUMNS)
    figure = Figure(figsize=(2.4 * COLUMNS, 2.8 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, COLUMNS, squeeze=False, sharey=True)
    cells = grid.flatten()
    for axes in cells[len(panels) :]:
        axes.remove()
    for axes, (title, runs) in zip(cells, panels, strict=False):
        for run in sorted(runs, key=lambda run: run["seed"]):
            steps, returns = np.array(run["training_return"]).T
            means = np.convolve(returns, np.full(WINDOW, 1 / WINDOW), "valid")
            label = f"seed {run['seed']}"
            axes.plot(steps[WINDOW - 1 :], means, color=f"C{run['seed']}", label=label)
        axes.set(xlabel="environment steps", ylim=(0, 1))
        axes.set_title(title, fontsize="small")
        axes.grid(alpha=0.3)
    for axes in grid[:, 0]:
        axes.set(ylabel="return in training")
    most = max(range(len(panels)), key=lambda i: len(panels[i][1]))
    cells[most].legend(fontsize="small", loc="lower right")
    return png_of(figure, digest)


BLOCKS: dict[str, Callable[[], str]] = {
    function.__name__: function
    for function in (evidence, evidence_adapters, evidence_seeds, evidence_picture)
}
PICTURES = {"docs/evidence.png": picture} if measured() else {}
"""The picture of the curves, once there are results."""
