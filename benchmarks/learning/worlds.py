"""Generated worlds: what policies of one world and of many worlds do where one layer differs.

`GeneratedWorlds-v0` has worlds whose dynamics, words and observations are layers. A decoder of 0.1
million parameters with random weights is trained by behaviour cloning on the expert's episodes of
one world (that of the seed), or of as many worlds as episodes. Each policy plays held-out levels of
the one world, of the same world with one layer swapped, and of new worlds, greedily.

After "AutoEnv: Automated Environments for Measuring Cross-Environment Agent Learning" (arXiv
2511.19304). Prints a table and writes JSON. Finished seeds are kept.

    python benchmarks/learning/worlds.py [--seeds 6]
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.markdown import Markdown

from agentgym.evaluation.runner import evaluate
from agentgym.trainers import train
from benchmarks.figures import worlds_figures
from benchmarks.shared.result_files import (
    RESULTS,
    kept,
    rounded,
    settings_of,
    versions,
    whole,
    write,
)

ID = "GeneratedWorlds-v0"
BASE = {"dynamics": "island", "words": "named", "observation": "full", "reward": "goal"}
TRAINED = ("one", "many")
PLAYED: dict[str, dict[str, Any]] = {
    "same": {},
    "inverse": {"words": "inverse"},
    "changes": {"observation": "changes"},
    "hidden": {"observation": "hidden"},
    "new": {"world": None},
}
"""Arguments that each evaluation has in place of those of the world of the seed."""


@dataclass
class Settings:
    """Settings of the benchmark."""

    demonstrations: int = 1000
    """Episodes of the expert."""
    epochs: int = 5
    """Epochs over the demonstrations."""
    episodes: int = 100
    """Tasks of an evaluation."""
    seeds: int = 6
    """Random seeds 0, 1, ..."""
    out: Path = RESULTS / "worlds.json"
    """Results."""


def arguments(trained: str, seed: int) -> dict[str, Any]:
    """Returns the arguments of the training environment."""
    return {**BASE, "world": seed if trained == "one" else None}


def measure(trained: str, seed: int, settings: Settings) -> dict[str, Any]:
    """Returns the successes of a policy that is cloned in one world or in many."""
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        train(
            "poad", env_id=ID, env_kwargs=arguments(trained, seed), model="nano",
            context="current", instructions=False, constrain=True,
            bc_demonstrations=settings.demonstrations, bc_epochs=settings.epochs, bc_lr=3e-3,
            bc_batch_tokens=1024, iterations=0, eval_episodes=0, seed=seed, threads=1,
            device="cpu", quiet=True, log_with=(), run_dir=f"{folder}/run",
        )  # fmt: skip
        found: dict[str, Any] = {}
        for name, changed in PLAYED.items():
            report = whole(
                evaluate(
                    ID,
                    f"policy:{folder}/run",
                    tasks=settings.episodes,
                    seed=seed,
                    env_kwargs=arguments("one", seed) | changed,
                )
            )
            means = report.aggregate()
            found[name] = {key: rounded(means[key]) for key in ("success", "progress")}
    return {"cpu_seconds": round(time.process_time() - begun, 1), **found}


def main(settings: Settings) -> None:
    """Trains and evaluates the missing policies, prints a table and writes the results."""
    config = settings_of(settings, "seeds")
    found = kept(settings.out, config, "policies")
    for trained in TRAINED:
        runs = found.setdefault(trained, [])
        for seed in range(len(runs), settings.seeds):
            runs.append(measure(trained, seed, settings))
            write(
                settings.out, {"config": config, "versions": versions("torch"), "policies": found}
            )
    Console(width=100).print(Markdown(worlds_figures.table_of(found)))


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
