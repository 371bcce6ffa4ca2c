"""Early experience beside behaviour cloning of the same demonstrations.

All rows imitate the same few expert episodes with a new model of 0.2 million parameters and are
evaluated on held-out tasks. `early_experience` predicts the outcomes of the expert's and its own
actions for `iterations` before, and "cloning, twice as long" spends these iterations on cloning.

Prints a table and writes JSON. Finished rows are kept. It takes some minutes on one core.

    python benchmarks/planning/early_experience.py [--seeds 3]
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from agentgym.trainers import train
from benchmarks.shared.result_files import RESULTS, kept, settings_of, versions, write


@dataclass
class Settings:
    """Settings of the benchmark."""

    env_id: str = "NumberLine-v0"
    """Environment."""
    demonstrations: tuple[int, ...] = (8,)
    """Episodes of the expert."""
    iterations: int = 40
    """Iterations of imitation, and of prediction before it."""
    seeds: int = 3
    """Random seeds 0, 1, ..."""
    episodes: int = 200
    """Held-out tasks."""
    out: Path = RESULTS / "early_experience.json"
    """Results."""


def rows(demonstrations: int, iterations: int) -> dict[str, tuple[str, dict[str, Any]]]:
    """Returns recipe and settings of each row."""
    cloning = {"dataset_demonstrations": demonstrations}
    early = {"demonstrations": demonstrations, "held_out": 0, "transitions": 64}
    return {
        "cloning": ("bc", {"iterations": iterations, **cloning}),
        "cloning, twice as long": ("bc", {"iterations": 2 * iterations, **cloning}),
        "early experience": (
            "early_experience",
            {"iterations": 2 * iterations, "world_iterations": iterations, **early},
        ),
    }


def measure(recipe: str, options: dict[str, Any], seed: int, settings: Settings) -> float:
    """Returns the success of a trained policy on held-out tasks."""
    with tempfile.TemporaryDirectory() as folder:
        reports = train(
            recipe, env_id=settings.env_id, model="nano", context="current", constrain=True,
            instructions=False, eval_every=0, eval_episodes=settings.episodes, seed=seed, lr=2e-3,
            threads=1, device="cpu", quiet=True, log_with=(), save_every=1000, run_dir=folder,
            episodes_per_iteration=32, minibatches=2, **options,
        )  # fmt: skip
    return reports[-1].aggregate()["success"].mean


def main(settings: Settings) -> None:
    """Measures all rows, prints a table and writes the results."""
    config = settings_of(settings)
    fixed = {name: value for name, value in config.items() if name != "demonstrations"}
    found: dict[str, dict[str, list[float]]] = kept(settings.out, fixed, "success")
    shown = Table("demonstrations", "row", "success on held-out tasks, by seed", "mean")
    for demonstrations in settings.demonstrations:
        mine = found.setdefault(str(demonstrations), {})
        for name, (recipe, options) in rows(demonstrations, settings.iterations).items():
            seeds = range(settings.seeds)
            if name not in mine:
                mine[name] = [round(measure(recipe, options, s, settings), 4) for s in seeds]
            values = ", ".join(f"{100 * value:.0f}" for value in mine[name])
            shown.add_row(str(demonstrations), name, values, f"{100 * np.mean(mine[name]):.0f}")
            write(settings.out, {"config": config, "versions": versions("torch"), "success": found})
    Console(width=100).print(shown)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
