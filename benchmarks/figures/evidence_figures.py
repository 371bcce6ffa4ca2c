"""Figures of `evidence_queue.py` in the documentation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentgym.evaluation.report import mean_interval
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


def evidence_seeds() -> str:
    """Returns the reward of each recipe that has several seeds, and its gain over their clones."""
    content = results_if_any("evidence")
    if content is None:
        return NOTHING
    runs: dict[tuple[str, str, int], dict[int, float]] = {}
    for run in content["runs"].values():
        reward = list(run["agents"].values())[-1]["reward"][0]
        runs.setdefault((run["env"], run["recipe"], run["demonstrations"]), {})[run["seed"]] = (
            reward
        )
    rows = []
    for (env, recipe, demonstrations), seeds in sorted(
        runs.items(), key=lambda item: (item[0][0], item[0][1] != "clone", item[0][1])
    ):
        if len(seeds) == 1:
            continue
        clones = runs[env, "clone", demonstrations]
        gains = [reward - clones[seed] for seed, reward in seeds.items()]
        gain = "-" if recipe == "clone" else _over_seeds(gains)
        rewards = list(seeds.values())
        row = f"`{env}`", recipe, str(len(seeds)), _over_seeds(rewards), f"{min(rewards):.2f}", gain
        rows.append(row)
    return table(("Environment", "Recipe", "Seeds", "Reward", "Worst seed", "Gain"), rows)


def _over_seeds(values: list[float]) -> str:
    """Returns the mean over at least two seeds with its t interval."""
    found = mean_interval(values)
    assert found.low is not None and found.high is not None
    return interval((found.mean, found.low, found.high))


BLOCKS: dict[str, Callable[[], str]] = {
    function.__name__: function for function in (evidence, evidence_seeds)
}
