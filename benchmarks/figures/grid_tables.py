"""Tables of `results/grid.json` in Markdown, without torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from agentgym.evaluation.bootstrap import (
    interquartile_mean,
    interval,
    probability_of_improvement,
)
from agentgym.evaluation.report import Estimate, mean_interval
from benchmarks.shared import figure_results

DETAILS = ("Explained variance", "Thousand tokens", "Seconds", "Learning rate")
"""Titles of the last columns. The variance is that of new returns, the median of a run."""
BASELINE = "poad"
"""Recipe that the others are compared with over all environments."""
BASELINES = {"Random": "random", "Cloned": "warm start", "Expert": "expert"}
"""Columns of the rewards that are the same for all recipes, and their names in the results."""
SAMPLES = 1000


def plus_minus(estimate: Estimate) -> str:
    """Returns "mean ± half the interval"."""
    if estimate.high is None:
        return f"{estimate.mean:.3f}"
    return f"{estimate.mean:.3f} ± {estimate.high - estimate.mean:.3f}"


def rows(grid: Mapping[str, Any], env: str) -> list[tuple[str, list[str]]]:
    """Returns (recipe, cells) pairs, the recipe with the highest mean over the run first.

    The cells are: runs, final reward, mean over the run, steps to the threshold, explained
    variance, thousand tokens, seconds, learning rate.
    """
    found = []
    runs = [run for run in grid["runs"] if run["env"] == env]
    for recipe in dict.fromkeys(run["recipe"] for run in runs):
        mine = [run for run in runs if run["recipe"] == recipe]
        reached = [run["steps_to_threshold"] for run in mine]
        count = sum(steps is not None for steps in reached)
        steps = f"{np.mean(reached):,.0f}" if count == len(mine) else f"{count} of {len(mine)}"
        rates = grid["envs"][env]["tuning"][recipe]
        mean = mean_interval([run["mean"] for run in mine])
        explained = [x for run in mine if (x := run.get("explained_variance")) is not None]
        cells = [
            str(len(mine)),
            plus_minus(mean_interval([run["final"] for run in mine])),
            plus_minus(mean),
            steps,
            f"{np.mean(explained):.2f}" if explained else "-",
            f"{np.mean([run['tokens'] for run in mine]) / 1000:,.0f}",
            f"{np.mean([run['seconds'] for run in mine]):,.0f}",
            max(rates, key=lambda rate: rates[rate]),
        ]
        found.append((mean.mean, recipe, cells))
    found.sort(key=lambda row: -row[0])
    return [(recipe, cells) for _, recipe, cells in found]


def header(grid: Mapping[str, Any], env: str) -> tuple[str, ...]:
    """Returns the titles of the columns, the recipe's included."""
    threshold = f"Steps to {grid['envs'][env]['threshold']:.2f}"
    return ("Recipe", "Runs", "Final", "Mean over the run", threshold, *DETAILS)


def ranks(grid: Mapping[str, Any], env: str) -> list[str]:
    """Returns the recipes by mean over the run, the highest first."""
    return [recipe for recipe, _ in rows(grid, env)]


def table(grid: Mapping[str, Any], env: str) -> str:
    """Returns the table of an environment in Markdown."""
    lines = [(f"`{recipe}`", *cells) for recipe, cells in rows(grid, env)]
    return figure_results.table(header(grid, env), lines)


def environments(grid: Mapping[str, Any]) -> str:
    """Returns the table of the environments in Markdown: id, budget and baselines."""
    rows = [
        (
            env,
            f"`{about['config']['env_id']}`",
            f"{about['config']['env_steps']:,}",
            *(f"{about['baselines'][name]:.2f}" for name in BASELINES.values()),
        )
        for env, about in grid["envs"].items()
    ]
    return figure_results.table(("Name", "Environment", "Steps", *BASELINES), rows)


def scores(grid: Mapping[str, Any]) -> dict[str, list[list[float]]]:
    """Returns the final rewards of each recipe that ran in all environments, by environment.

    They are 0 at the start of the runs and 1 for the expert.
    """
    found: dict[str, list[list[float]]] = {}
    for recipe in dict.fromkeys(run["recipe"] for run in grid["runs"]):
        finals = []
        for env, about in grid["envs"].items():
            low, high = (about["baselines"][name] for name in ("warm start", "expert"))
            mine = [run for run in grid["runs"] if (run["env"], run["recipe"]) == (env, recipe)]
            finals.append([(run["final"] - low) / (high - low) for run in mine])
        if all(finals):
            found[recipe] = finals
    return found


def reliable(grid: Mapping[str, Any]) -> dict[str, list[str]]:
    """Returns the environments in which all runs of a recipe reach the threshold, by recipe."""
    found: dict[str, list[str]] = {run["recipe"]: [] for run in grid["runs"]}
    for recipe, envs in found.items():
        for env in grid["envs"]:
            mine = [run for run in grid["runs"] if (run["env"], run["recipe"]) == (env, recipe)]
            if mine and all(run["steps_to_threshold"] is not None for run in mine):
                envs.append(env)
    return found


def recommended(grid: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Returns (recipe, environments in which it is reliable, interquartile mean), best first.

    A recipe is recommended if it is reliable in an environment. Variants are left out.
    """
    envs = reliable(grid)
    return [
        (recipe, ", ".join(envs[name]) or "-", middle)
        for recipe, middle, _ in over_environments(grid)
        if (name := recipe.strip("`")) in envs and "," not in name
    ]


def over_environments(grid: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Returns (recipe, interquartile mean, probability of improvement over POAD), best first.

    The statistics of rliable (arXiv 2108.13264), with bootstrap intervals over seeds.
    """
    found = scores(grid)
    rows = []
    for recipe, mine in found.items():
        middle = interval(interquartile_mean, mine, samples=SAMPLES)
        better = "-"
        if recipe != BASELINE and BASELINE in found:
            compared = (mine, found[BASELINE])
            better = _bounds(interval(probability_of_improvement, *compared, samples=SAMPLES))
        rows.append((middle.mean, (f"`{recipe}`", _bounds(middle), better)))
    return [cells for _, cells in sorted(rows, key=lambda row: -row[0])]


OVER_ENVIRONMENTS = ("Recipe", "Interquartile mean", "Probability of improvement over `poad`")


def _bounds(estimate: Estimate) -> str:
    return f"{estimate.mean:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def tables(grid: Mapping[str, Any]) -> str:
    """Returns the tables of all environments in Markdown."""
    each = (f"**{env}**\n\n{table(grid, env)}" for env in grid["envs"])
    return "\n\n".join((environments(grid), *each))
