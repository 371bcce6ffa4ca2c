"""RL after behaviour cloning in new families of environments.

Per environment and seed, a small decoder with random weights is trained by behaviour cloning on
demonstrations of the expert, and each recipe trains this same policy. The settings are
`families.yaml`, those of the environment in `FAMILIES`, which are the same for all recipes, and the
critic of POAD in `RECIPES`. They were selected in runs with seed 0. All agents play the same
held-out tasks, the policies greedily. The last policy counts.

Every stage is an `agentgym train` in a process of its own. Finished ones are kept and interrupted
ones are resumed, so the same command continues an interrupted benchmark. Results of other
environments are kept.

    python benchmarks/families.py [--ids KG-QA-v0 ...] [--seeds 1 2 3] [--jobs 2]
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import families_figures
import tyro
from learning import as_flags, launch, summary
from result_files import versions, write

HERE = Path(__file__).parent
CONFIG = HERE / "families.yaml"
RESULT = HERE / "results" / "families.json"
RECIPES: dict[str, dict[str, Any]] = {
    "poad": {"critic_trunk": "own", "critic_lr": 2e-3, "critic_episodes": 128},
    "grpo": {},
}
"""Settings of each recipe. The critic has a model of its own."""
FAMILIES: dict[str, dict[str, Any]] = {
    "KG-QA-v0": {
        "env_kwargs": "hops=1",
        "constrain": True,
        "bc_demonstrations": 60,
        "iterations": 20,
    },
    "MiniWoB-Text-v0": {
        "env_kwargs": "kind=log-in",
        "constrain": True,
        "bc_demonstrations": 60,
        "iterations": 12,
    },
    "TextGeneration-v0": {
        "env_kwargs": "kind=words",
        "bc_demonstrations": 1500,
        "iterations": 120,
        "max_new_tokens": 24,
        "lr": 1e-3,
    },
    "SmallML-v0": {
        "env_kwargs": "columns=4",
        "constrain": True,
        "bc_demonstrations": 50,
        "iterations": 10,
        "episodes_per_iteration": 32,
        "eval_episodes": 100,
    },
}
"""Settings of each environment beyond `families.yaml`."""


@dataclass
class Settings:
    """Settings of the benchmark."""

    ids: tuple[str, ...] = tuple(FAMILIES)
    """Environments, keys of `FAMILIES`."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of each recipe."""
    jobs: int = 1
    """Environments and seeds in parallel."""
    runs: Path = Path("runs/families")
    """Folder of the runs."""


def train(name: str, seed: int, settings: Settings) -> list[dict[str, Any]]:
    """Clones a policy and trains it with each recipe. Returns a summary of each run."""
    folder = settings.runs / name
    cloned = folder / f"cloned-{seed}"
    chosen = {"env_id": name, "seed": seed, **FAMILIES[name]}
    cloning = {**chosen, "iterations": 0, "eval_baselines": True}
    launch("poad", CONFIG, cloned, as_flags(cloning))
    agents = summary("poad", seed, cloned)["agents"]
    runs = []
    for recipe, own in RECIPES.items():
        start = {"model": cloned / "policy", "bc_demonstrations": 0}
        launch(recipe, CONFIG, folder / f"{recipe}-{seed}", as_flags(chosen | start | own))
        run = summary(recipe, seed, folder / f"{recipe}-{seed}")
        runs.append(run | {"agents": agents | {"trained": run["agents"][recipe]}})
    return runs


def main(settings: Settings) -> None:
    """Trains the missing runs, then writes and prints all results."""
    found: dict[str, Any] = {}
    if RESULT.exists():
        found = json.loads(RESULT.read_text(encoding="utf-8"))["environments"]
    pairs = [(name, seed) for name in settings.ids for seed in settings.seeds]
    with ThreadPoolExecutor(settings.jobs) as pool:
        done = list(pool.map(lambda pair: train(*pair, settings), pairs))
    for name in settings.ids:
        found[name] = {"settings": FAMILIES[name], "runs": []}
    for (name, _), runs in zip(pairs, done, strict=True):
        found[name]["runs"] += runs
    found = {name: found[name] for name in FAMILIES if name in found}
    write(RESULT, {"versions": versions("torch"), "environments": found})
    print(families_figures.families_table())


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
