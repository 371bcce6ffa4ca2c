"""The results of `solve.py` for the documentation. Without results, a note takes their place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from figure_results import NOTHING, results, results_if_any, table

from agentgym.evaluation.failures import FAILURES

AGENTS = ("random", "cloned", "trained", "expert")


def measured() -> dict[str, Any]:
    """Returns the results by environment, empty if there are none."""
    return (results_if_any("solve") or {"environments": {}})["environments"]


def solve_table() -> str:
    """Returns the rewards of all agents, the gain of RL and the scores, a row per environment."""
    header = ("Environment", "Random", "Cloned", "Trained", "Expert", "Gain of RL", "Score")
    rows = [
        (
            name,
            *(_interval(row[agent]["reward"]) for agent in AGENTS),
            _interval(row["gain"], "+.2f"),
            " to ".join(f"{score:.2f}" for score in row.get("scores", ())) or "-",
            row["selected"],
            ", ".join(f"{FAILURES[kind]} {100 * x:.0f} %" for kind, x in row["failures"].items()),
        )
        for name, row in measured().items()
    ]
    return table((*header, "Selected", "Failures after RL"), rows) if rows else NOTHING


def solve_summary() -> str:
    """Returns in how many environments RL gains, and in how many it is near the expert."""
    rows = measured().values()
    if not rows:
        return NOTHING
    gains = sum(row["gain"][1] > 0 for row in rows)
    losses = sum(row["gain"][2] < 0 for row in rows)
    near = sum("scores" in row and row["scores"][1] >= 0.9 for row in rows)
    return (
        f"Of {len(rows)} environments, RL is above behaviour cloning in {gains} and below in "
        f"{losses} (the interval of the gain excludes 0). Its score is at least 0.9 in {near}."
    )


def solve_budget() -> str:
    """Returns how many environments were measured, and the budget of each."""
    rows = measured()
    if not rows:
        return NOTHING
    settings = results("solve")["settings"]
    steps = settings["env_steps"]
    return (
        f"{len(rows)} environments were measured, each with at most {settings['demonstrations']} "
        f"demonstrations, {steps // 4:,} environment steps per candidate of the selection, and "
        f"{steps:,} of RL. They were chosen one per family, by the time that cloning takes and "
        "not by its result. All others have not been measured."
    )


def solve_commands() -> str:
    """Returns the commands that train the policies of each environment."""
    parts = [f"# {name}\n" + "\n".join(row["commands"]) for name, row in measured().items()]
    return "```bash\n" + "\n\n".join(parts) + "\n```" if parts else NOTHING


def _interval(estimate: Sequence[float], form: str = ".2f") -> str:
    mean, low, high = (format(x, form) for x in estimate)
    return f"{mean} [{low}, {high}]" if high != low else mean


BLOCKS: dict[str, Callable[[], str]] = {
    function.__name__: function
    for function in (solve_table, solve_summary, solve_budget, solve_commands)
}
