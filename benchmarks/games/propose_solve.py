"""Proposer and solvers that learn from each other, beside solvers with random tasks.

One new model of 0.2 million parameters plays all seats of `ProposeSolve-v0` with sums, differences
and products of two small numbers. It clones a few scripted episodes, and then learns with `rae`:
in "self-play" from the tasks that it proposes itself, in "random tasks" as solver of as many tasks
that a script draws. Both are solvers of the held-out tasks before and after.

Prints a table and writes JSON. Finished seeds are kept. It takes ten minutes on one core.

    python benchmarks/games/propose_solve.py [--seeds 3]
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from agentgym.evaluation.runner import evaluate
from agentgym.trainers import train
from agentgym.trainers.policy_agent import load_agent
from benchmarks.planning.planning import numbers
from benchmarks.shared.result_files import RESULTS, measured, settings_of, versions, whole

ID = "ProposeSolve-v0"


@dataclass
class Settings:
    """Settings of the benchmark."""

    largest: int = 5
    """Largest number of a task."""
    demonstrations: int = 96
    """Scripted episodes that are cloned."""
    iterations: int = 16
    """Iterations of RL."""
    games: int = 48
    """Games per iteration, with four solvers each."""
    seeds: int = 3
    """Random seeds 0, 1, ..."""
    episodes: int = 200
    """Episodes of an evaluation."""
    out: Path = RESULTS / "propose_solve.json"
    """Results."""


def fit(model: str, folder: Path, arguments: dict[str, Any], seed: int, **options: Any) -> None:
    """Trains a policy into a folder."""
    train(
        "rae", env_id=ID, env_kwargs=arguments, model=model, context="current", instructions=False,
        device="cpu", threads=1, quiet=True, log_with=(), save_every=1000, eval_episodes=0,
        max_new_tokens=10, seed=seed, run_dir=str(folder), normalize_advantages="agent", **options,
    )  # fmt: skip


def solves(folder: Path, arguments: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Returns the success of a policy as solver of held-out tasks, which a script proposes."""
    kwargs = arguments | {"seat": "player_1", "opponents": "weak"}
    agent = load_agent(str(folder / "policy"))
    report = evaluate(ID, agent, tasks=settings.episodes, env_kwargs=kwargs)
    return {"success": numbers(whole(report))["success"]}


def measure(seed: int, settings: Settings) -> dict[str, Any]:
    """Returns the numbers of one seed."""
    arguments = {
        "terms": 2, "largest": settings.largest, "examples": 0, "invalid_penalty": 0.2,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        cloned, played, alone = (Path(name, each) for each in ("cloned", "played", "alone"))
        fit(
            "nano", cloned, arguments, seed, opponents="mirror", iterations=0, bc_lr=2e-3,
            bc_demonstrations=settings.demonstrations, bc_epochs=30,
        )  # fmt: skip
        start, size = str(cloned / "policy"), settings.games
        rl: dict[str, Any] = {"iterations": settings.iterations, "lr": 1e-3}
        fit(start, played, arguments, seed, opponents="mirror", episodes_per_iteration=size, **rl)
        seat = arguments | {"seat": "player_1", "opponents": "weak"}
        fit(start, alone, seat, seed, episodes_per_iteration=4 * size, **rl)
        lines = (played / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        curve = [json.loads(line) for line in lines if "rollout/proposer/return" in line]
        names = ("proposer/return", "solver/success")
        return {
            "cloned": solves(cloned, arguments, settings),
            "self-play": solves(played, arguments, settings),
            "random tasks": solves(alone, arguments, settings),
            "curves": {n: [round(x[f"rollout/{n}"], 4) for x in curve] for n in names},
        }


def main(settings: Settings) -> None:
    """Measures all seeds, prints a table and writes the results."""
    about = {"config": settings_of(settings, "seeds"), "versions": versions("torch")}
    measures = {str(seed): partial(measure, seed, settings) for seed in range(settings.seeds)}
    shown = Table("seed", "policy", "success on held-out tasks")
    for seed, mine in measured(settings.out, about, "seeds", measures):
        for name in ("cloned", "self-play", "random tasks"):
            mean, low, high = (100 * x for x in mine[name]["success"])
            shown.add_row(seed, name, f"{mean:.0f} [{low:.0f}, {high:.0f}]")
    Console(width=100).print(shown)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
