"""Held-out combinations of tasks: policies cloned on single tasks, and on pairs of tasks.

The tasks are those of `NumberLine-v0` and `TowerOfHanoi-v0` behind one goal text (`Compose`). One
of the four orders of two ids is in the test split alone. A decoder of 0.2 million parameters with
random weights is trained by behaviour cloning on the expert's episodes of single tasks, or of
pairs, with about as many turns. Each policy plays single tasks, the pairs of the training split and
the held-out pair, greedily. An episode succeeds if all its tasks are solved.

After "Language Model Agents Suffer from Compositional Generalization in Web Automation" (arXiv
2311.18751). Prints a table and writes JSON. Finished seeds are kept.

    python benchmarks/learning/compose.py [--seeds 6]
"""

from __future__ import annotations

import json
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
from benchmarks.figures import compose_figures
from benchmarks.shared.result_files import (
    RESULTS,
    kept,
    rounded,
    settings_of,
    versions,
    whole,
    write,
)

IDS = ("NumberLine-v0", "TowerOfHanoi-v0")
TRAINED = {"single": 1, "pairs": 2}
"""Number of tasks in a demonstration."""
PLAYED = {"single": (1, "test"), "pairs": (2, "train"), "held-out pair": (2, "test")}
"""Number of tasks and split of each evaluation."""


@dataclass
class Settings:
    """Settings of the benchmark."""

    demonstrations: int = 300
    """Single tasks of the expert: half as many pairs."""
    epochs: int = 8
    """Epochs over the demonstrations."""
    episodes: int = 100
    """Tasks of an evaluation."""
    seeds: int = 6
    """Random seeds 0, 1, ..."""
    out: Path = RESULTS / "compose.json"
    """Results."""


def wrapper(n: int) -> str:
    """Returns the wrapper of n tasks."""
    return f"Compose:n={n},ids={json.dumps(IDS[1:])}"


def measure(n: int, seed: int, settings: Settings) -> dict[str, Any]:
    """Returns the successes of a policy that is cloned on n tasks at a time."""
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        train(
            "poad", env_id=IDS[0], wrap=(wrapper(n),), model="nano", context="current",
            instructions=False, constrain=True, bc_demonstrations=settings.demonstrations // n,
            bc_epochs=settings.epochs, bc_lr=3e-3, bc_batch_tokens=4096, iterations=0,
            eval_episodes=0, seed=seed, threads=1, device="cpu", quiet=True, log_with=(),
            run_dir=f"{folder}/run",
        )  # fmt: skip
        found: dict[str, Any] = {}
        for name, (tasks, split) in PLAYED.items():
            report = whole(
                evaluate(
                    IDS[0],
                    f"policy:{folder}/run",
                    tasks=settings.episodes,
                    split=split,
                    seed=seed,
                    env_kwargs={"wrap": [wrapper(tasks)]},
                )
            )
            means = report.aggregate()
            found[name] = {key: rounded(means[key]) for key in ("success", "progress")}
    return {"cpu_seconds": round(time.process_time() - begun, 1), **found}


def main(settings: Settings) -> None:
    """Trains and evaluates the missing policies, prints a table and writes the results."""
    config = settings_of(settings, "seeds")
    found = kept(settings.out, config, "policies")
    for trained, n in TRAINED.items():
        runs = found.setdefault(trained, [])
        for seed in range(len(runs), settings.seeds):
            runs.append(measure(n, seed, settings))
            write(
                settings.out, {"config": config, "versions": versions("torch"), "policies": found}
            )
    Console(width=100).print(Markdown(compose_figures.table_of(found)))


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
