"""The figures of the comparison of recipes (`grid.py`) for the documentation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.figures import grid_tables
from benchmarks.shared.figure_results import results, table


def tables() -> str:
    """Returns the tables of the comparison of recipes."""
    return grid_tables.tables(results("grid"))


def grid_learned() -> str:
    """Returns which recipes reach the threshold in all runs of an environment, by environment."""
    grid = results("grid")
    found, parts = grid_tables.reliable(grid), []
    for env in grid["envs"]:
        names = [f"`{recipe}`" for recipe, envs in found.items() if env in envs]
        parts.append(f"{', '.join(names) or 'none'} in {env}")
    return "; ".join(parts)


def grid_recommended() -> str:
    """Returns the measured recipes, the recommended ones first."""
    rows = [
        (recipe, "no" if envs == "-" else "**yes**", envs, middle)
        for recipe, envs, middle in grid_tables.recommended(results("grid"))
    ]
    rows.sort(key=lambda row: row[1] == "no")
    return table(("Recipe", "Recommended", "Reliable in", "Interquartile mean"), rows)


def grid_final() -> str:
    """Returns the final reward of every recipe in each environment, ordered by the mean rank."""
    grid = results("grid")
    final = {
        env: {recipe: cells[1] for recipe, cells in grid_tables.rows(grid, env)}
        for env in grid["envs"]
    }
    ranks: dict[str, list[int]] = {}
    for found in final.values():
        for rank, recipe in enumerate(sorted(found, key=lambda r: -float(found[r].split()[0]))):
            ranks.setdefault(recipe, []).append(rank)
    rows = [
        (f"`{recipe}`", *(found.get(recipe, "-") for found in final.values()))
        for recipe in sorted(ranks, key=lambda recipe: np.mean(ranks[recipe]))
    ]
    return table(("Recipe", *final), rows)


def grid_equal_groups() -> str:
    """Returns the shares of groups in which all returns are equal, by recipe and environment."""
    grid, rows = results("grid"), []
    for recipe, name in (("rloo", "eight"), ("rloo, pairs", "two")):
        shares: dict[str, list[float]] = {env: [] for env in grid["envs"]}
        for run in grid["runs"]:
            if run["recipe"] == recipe and run.get("equal_groups") is not None:
                shares[run["env"]].append(run["equal_groups"])
        cells = (f"{100 * np.mean(found):.0f} %" if found else "-" for found in shares.values())
        rows.append((name, *cells))
    return table(("Episodes per group", *grid["envs"]), rows)


def grid_over_environments() -> str:
    """Returns the statistics of every recipe over all environments."""
    return table(grid_tables.OVER_ENVIRONMENTS, grid_tables.over_environments(results("grid")))


BLOCKS: dict[str, Callable[[], str]] = {
    "grid_tables": tables,
    **{
        function.__name__: function
        for function in (
            grid_learned,
            grid_recommended,
            grid_final,
            grid_equal_groups,
            grid_over_environments,
        )
    },
}
