"""RL after behaviour cloning in new families of environments.

Per environment and seed, a small decoder with random weights is trained by behaviour cloning on
demonstrations of the expert, and each recipe trains this same policy. The settings are
`families.yaml` and those of the environment and the recipe in `FAMILIES` and `RECIPES`. They come
from probes with seed 0, but the numbers of iterations were raised after the first runs (see
`docs/solved.md`). All agents play the same held-out tasks, the policies greedily. The last policy
counts.

Every stage is an `agentgym train` in a process of its own. Finished ones are kept and interrupted
ones are resumed, so the same command continues an interrupted benchmark. Results of other
environments are kept.

    python benchmarks/families.py [--ids KG-QA-v0 ...] [--seeds 1 ...] [--jobs 2]
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
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


@dataclass(frozen=True)
class Family:
    """The runs of an environment.

    Attributes:
        settings: settings of all runs beyond `families.yaml`.
        iterations: number of iterations by recipe. One of GRPO, without a critic, is faster.
        seeds: seeds of each recipe.
    """

    settings: Mapping[str, Any]
    iterations: Mapping[str, int]
    seeds: tuple[int, ...] = (1, 2, 3)


FAMILIES = {
    "KG-QA-v0": Family(
        {"env_kwargs": "hops=1", "constrain": True, "bc_demonstrations": 60},
        {"poad": 20, "grpo": 60},
    ),
    "MiniWoB-Text-v0": Family(
        {"env_kwargs": "kind=log-in", "constrain": True, "bc_demonstrations": 60},
        {"poad": 12, "grpo": 36},
    ),
    "TextGeneration-v0": Family(
        {
            "env_kwargs": "kind=words",
            "bc_demonstrations": 1500,
            "max_new_tokens": 24,
            "lr": 1e-3,
        },
        {"poad": 120, "grpo": 120},
    ),
    "SmallML-v0": Family(
        {
            "env_kwargs": "columns=4",
            "constrain": True,
            "bc_demonstrations": 50,
            "episodes_per_iteration": 32,
            "eval_episodes": 100,
        },
        {"poad": 25, "grpo": 25},
        seeds=(1, 2, 3, 4, 5, 6),  # cloned policies differ much
    ),
}
"""The runs by environment."""


@dataclass
class Settings:
    """Settings of the benchmark."""

    ids: tuple[str, ...] = tuple(FAMILIES)
    """Environments, keys of `FAMILIES`."""
    seeds: tuple[int, ...] = ()
    """Seeds of each recipe (empty: those of the environment)."""
    jobs: int = 1
    """Environments and seeds in parallel."""
    runs: Path = Path("runs/families")
    """Folder of the runs."""


def train(settings: Settings, name: str, seed: int) -> list[dict[str, Any]]:
    """Clones a policy and trains it with each recipe. Returns a summary of each run."""
    folder, family = settings.runs / name, FAMILIES[name]
    cloned = folder / f"cloned-{seed}"
    chosen = {"env_id": name, "seed": seed, **family.settings}
    launch("poad", CONFIG, cloned, as_flags({**chosen, "iterations": 0, "eval_baselines": True}))
    agents = summary("poad", seed, cloned)["agents"]
    chosen |= {"model": cloned / "policy", "bc_demonstrations": 0}
    runs = []
    for recipe, own in RECIPES.items():
        trained = folder / f"{recipe}-{seed}"
        iterations = {"iterations": family.iterations[recipe]}
        launch(recipe, CONFIG, trained, as_flags(chosen | own | iterations))
        run = summary(recipe, seed, trained)
        runs.append(run | {"agents": agents | {"trained": run["agents"][recipe]}})
    return runs


def main(settings: Settings) -> None:
    """Trains the missing runs, then writes and prints all results."""
    found: dict[str, Any] = {}
    if RESULT.exists():
        found = json.loads(RESULT.read_text(encoding="utf-8"))["environments"]
    pairs = [
        (name, seed) for name in settings.ids for seed in settings.seeds or FAMILIES[name].seeds
    ]
    with ThreadPoolExecutor(settings.jobs) as pool:
        done = list(pool.map(lambda pair: train(settings, *pair), pairs))
    for name in settings.ids:
        found[name] = {**asdict(FAMILIES[name]), "runs": []}
    for (name, _), runs in zip(pairs, done, strict=True):
        found[name]["runs"] += runs
    found = {name: found[name] for name in FAMILIES if name in found}
    write(RESULT, {"versions": versions("torch"), "environments": found})
    print(families_figures.families_table())


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
