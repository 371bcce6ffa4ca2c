"""A world model of the policy's class: its errors, and plans that are made in it.

`early_experience` trains a new model of 0.2 million parameters to predict the outcomes of the
expert's and its own actions. Its errors are those on held-out tasks. Then the same search plays
held-out tasks in the model and on snapshots. Random actions are the lower bound.

A share of predictions at `exact` close to `copied` is no better than the current observation.
Plans in the model cannot be better than its predictions of the end of an episode (`over`).

Prints tables and writes JSON. Finished results and trained models are kept. It takes 10 minutes on
one core, most of it for plans.

    python benchmarks/planning/world_model.py [--envs NumberLine-v0]
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from agentgym.agents import make_agent
from agentgym.evaluation.runner import evaluate
from agentgym.trainers import train
from benchmarks.planning.planning import numbers
from benchmarks.shared.result_files import RESULTS, measured, settings_of, versions, whole


@dataclass
class Settings:
    """Settings of the benchmark."""

    envs: tuple[str, ...] = ("NumberLine-v0",)
    """Environments, which list few actions."""
    iterations: int = 120
    """Iterations, all of which learn to predict."""
    demonstrations: int = 96
    """Episodes of the expert in whose states actions are tried."""
    budget: int = 8
    """Steps per search."""
    episodes: int = 20
    """Held-out tasks per agent."""
    seed: int = 0
    """Random seed."""
    runs: Path = Path("runs/world_model")
    """Folder of the trained policies."""
    out: Path = RESULTS / "world_model.json"
    """Results."""


def fit(env: str, settings: Settings) -> tuple[Path, dict[str, float]]:
    """Trains a world model and returns its folder and its errors."""
    folder = settings.runs / env
    train(
        "early_experience", env_id=env, model="nano", context="current", constrain=True, threads=1,
        instructions=False, eval_episodes=0, seed=settings.seed, device="cpu", quiet=True, lr=1e-3,
        demonstrations=settings.demonstrations, iterations=settings.iterations, held_out=16,
        world_iterations=settings.iterations, transitions=128, run_dir=str(folder), log_with=(),
        save_every=1000, minibatches=4, resume=True,
    )  # fmt: skip
    return folder, json.loads((folder / "world_model.json").read_text())


def measure(env: str, settings: Settings) -> dict[str, Any]:
    """Returns the errors of a world model, and the numbers of each agent."""
    folder, errors = fit(env, settings)
    search = f"search:best_first,budget={settings.budget}"
    agents = {
        "random": "random",
        "search in the model": f"{search},world={folder},world_tokens=96",
        "search on snapshots": search,
    }
    options: dict[str, Any] = {"tasks": settings.episodes, "seed": settings.seed}
    found = {
        name: numbers(whole(evaluate(env, make_agent(spec), **options)))
        for name, spec in agents.items()
    }
    return {"errors": {name: round(value, 4) for name, value in errors.items()}, "agents": found}


def main(settings: Settings) -> None:
    """Measures the missing environments, writes the results and prints the tables."""
    console = Console(width=100)
    about = {
        "config": settings_of(settings, "envs", "runs"),
        "versions": versions("agentgym"),
    }
    missing = {env: partial(measure, env, settings) for env in settings.envs}
    for env, found in measured(settings.out, about, "environments", missing):
        console.print(env, found["errors"])
        shown = Table("agent", "success", title=env)
        for name, row in found["agents"].items():
            shown.add_row(name, "{:.2f} [{:.2f}, {:.2f}]".format(*row["success"]))
        console.print(shown)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
