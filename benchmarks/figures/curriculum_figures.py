"""The table of `curriculum.py` for the documentation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import Any

from agentgym.evaluation.report import Estimate, mean_interval
from benchmarks.shared.figure_results import NOTHING, results_if_any, table

Results = Sequence[Mapping[str, Any]]
"""Summaries of runs."""


def _runs(results: Results | None) -> dict[str, dict[int, Mapping[str, Any]]]:
    """Returns the runs by curriculum and seed, empty without results."""
    kept: Results = (results_if_any("curriculum") or {"runs": ()})["runs"]
    found: dict[str, dict[int, Mapping[str, Any]]] = {}
    for run in kept if results is None else results:
        found.setdefault(run["curriculum"], {})[run["seed"]] = run
    return found


def _reward(run: Mapping[str, Any], agent: str = "trained") -> float:
    return run["agents"][agent]["reward"][0]


def _gain(runs: Mapping[str, Mapping[int, Any]], kind: str) -> Estimate | None:
    """Returns the difference of held-out rewards to the uniform curriculum, paired by seed.

    It is None if no seed has both.
    """
    own, uniform = runs[kind], runs.get("uniform", {})
    gains = [_reward(own[seed]) - _reward(uniform[seed]) for seed in uniform if seed in own]
    return mean_interval(gains) if gains else None


def _shown(estimate: Estimate | None, form: str = ".2f") -> str:
    if estimate is None:
        return "-"
    mean, low, high = estimate.mean, estimate.low, estimate.high
    return f"{mean:{form}}" + ("" if low is None else f" [{low:{form}}, {high:{form}}]")


def curriculum_table(results: Results | None = None) -> str:
    """Returns the held-out rewards, a row per curriculum, or a note without results.

    Args:
        results: the runs (None: those of the result file).
    """
    runs = _runs(results)
    rows = [
        (
            kind,
            _shown(mean_interval([_reward(run, "imitation") for run in seeds.values()])),
            _shown(mean_interval([_reward(run) for run in seeds.values()])),
            "-" if kind == "uniform" else _shown(_gain(runs, kind), "+.2f"),
            f"{100 * mean(run['equal_groups'] for run in seeds.values()):.0f} %",
        )
        for kind, seeds in runs.items()
    ]
    header = ("Curriculum", "Cloned", "Trained", "Difference to uniform", "Groups of equal returns")
    return table(header, rows) if rows else NOTHING


def curriculum_summary(results: Results | None = None) -> str:
    """Returns which curricula are clearly better or worse than uniform tasks.

    Args:
        results: the runs (None: those of the result file).
    """
    runs = _runs(results)
    if "uniform" not in runs:
        return NOTHING
    gains = {kind: _gain(runs, kind) for kind in runs if kind != "uniform"}
    better = [kind for kind, gain in gains.items() if gain and (gain.low or 0) > 0]
    worse = [kind for kind, gain in gains.items() if gain and (gain.high or 0) < 0]
    steps = max(run["env_steps"] for seeds in runs.values() for run in seeds.values())
    return (
        f"After {round(steps, -3):,} environment steps, over {len(runs['uniform'])} seeds: clearly "
        f"better than uniform tasks: {', '.join(better) or 'none'}. Clearly worse: "
        f"{', '.join(worse) or 'none'}."
    )


BLOCKS: dict[str, Callable[[], str]] = {
    function.__name__: function for function in (curriculum_table, curriculum_summary)
}
