"""Planning on snapshots: success against the budget of a search, and learning from its trees.

Searches with `info["progress"]` as the value of a state play held-out tasks of five environments.
The budget is the number of environment steps per search. Random actions and the scripted expert are
the bounds.

The second part trains a new model of 0.2 million parameters on a small environment with `exit`,
which imitates the plans of MCTS, and evaluates the policy before and after, alone and as the
proposer of the search.

Prints tables and writes JSON. Finished environments are kept. It takes less than 10 minutes on one
core.

    python benchmarks/planning/planning.py [--episodes 50] [--envs Sokoban-v0]
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from agentgym.agents import make_agent
from agentgym.evaluation.report import Report
from agentgym.evaluation.runner import evaluate
from agentgym.trainers import train
from benchmarks.shared.result_files import RESULTS, measured, rounded, settings_of, versions, whole


@dataclass
class Settings:
    """Settings of the benchmark."""

    envs: tuple[str, ...] = (
        "Sokoban-v0", "Blocksworld-v0", "WebShop-v0", "TextCraft-v0", "Household-v0",
    )  # fmt: skip
    """Environments of the first part."""
    algorithms: tuple[str, ...] = ("best_first", "astar", "mcts")
    """Searches."""
    budgets: tuple[int, ...] = (16, 64, 256)
    """Environment steps per search."""
    episodes: int = 50
    """Held-out tasks per agent."""
    learning_env: str = "NumberLine-v0"
    """Environment of the second part."""
    iterations: int = 30
    """Iterations of `exit` (0: leave out the second part)."""
    seed: int = 0
    """Random seed."""
    runs: Path = Path("runs/planning")
    """Folder of the trained policy."""
    out: Path = RESULTS / "planning.json"
    """Results."""


def numbers(report: Report) -> dict[str, Any]:
    """Returns means with 95 % confidence intervals of an agent's episodes."""
    means = {
        name: rounded(estimate)
        for name, estimate in report.aggregate().items()
        if name in ("success", "progress", "turns") or name.startswith("cost/")
    }
    return {"n": len(report.episodes), **means}


def measure(env: str, spec: str, settings: Settings) -> dict[str, Any]:
    """Evaluates an agent on held-out tasks, and returns the numbers and the CPU seconds."""
    started = time.process_time()
    report = evaluate(env, make_agent(spec), tasks=settings.episodes, seed=settings.seed)
    return numbers(whole(report)) | {"cpu_seconds": round(time.process_time() - started, 1)}


def search(env: str, settings: Settings) -> dict[str, Any]:
    """Returns the numbers of every agent in an environment."""
    specs = ["random", "expert"]
    specs += [f"search:{a},budget={b}" for a in settings.algorithms for b in settings.budgets]
    return {spec: measure(env, spec, settings) for spec in specs}


def learn(settings: Settings) -> dict[str, Any]:
    """Trains a policy on the plans of a search, and returns its numbers before and after."""
    folder, env = settings.runs / f"exit-{settings.learning_env}", settings.learning_env
    common: dict[str, Any] = {
        "env_id": env, "model": "nano", "context": "window", "constrain": True, "threads": 1,
        "instructions": False, "eval_episodes": 0, "seed": settings.seed, "device": "cpu",
        "quiet": True, "resume": True, "bc_demonstrations": 0, "lr": 2e-3,
        "episodes_per_iteration": 64,
    }  # fmt: skip
    found = {}
    for name, iterations in (("before", 0), ("after", settings.iterations)):
        target = folder / name
        train("exit", **common, iterations=iterations, run_dir=str(target))
        found[name] = measure(env, f"policy:{target}", settings)
        guided = f"search:mcts,budget=16,policy={target}"
        found[f"search, policy {name}"] = measure(env, guided, settings)
    return found


def table(title: str, rows: dict[str, dict[str, Any]]) -> Table:
    """Returns success with its interval and the steps of the search, one row per agent."""
    shown = Table("agent", "success", "turns", "search steps", "CPU s", title=title)
    for name, row in rows.items():
        mean, low, high = (100 * x for x in row["success"])
        steps = row.get("cost/search_steps", [0.0])[0]
        shown.add_row(
            name, f"{mean:.0f} [{low:.0f}, {high:.0f}]", f"{row['turns'][0]:.1f}",
            f"{steps:,.0f}", f"{row['cpu_seconds']:.1f}",
        )  # fmt: skip
    return shown


def main(settings: Settings) -> None:
    """Measures both parts, prints tables and writes the results."""
    about = {"config": settings_of(settings, "envs", "runs"), "versions": versions("agentgym")}
    parts = {"search": {env: partial(search, env, settings) for env in settings.envs}}
    if settings.iterations:
        parts["learning"] = {settings.learning_env: partial(learn, settings)}
    console = Console(width=100)
    for part, measures in parts.items():
        for env, rows in measured(settings.out, about, part, measures):
            console.print(table(env, rows))


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
