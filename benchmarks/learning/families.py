"""RL after behaviour cloning in new families of environments.

Per environment and seed, a small decoder with random weights is trained by behaviour cloning on
demonstrations of the expert, and each recipe trains this same policy. The settings are
`families.yaml` and those of the environment and the recipe in `FAMILIES` and `RECIPES`. They come
from probes with seed 0, but the numbers of iterations were raised after the first runs (see
`docs/solved.md`). All agents play the same held-out tasks, the policies greedily. The last policy
counts.

Every stage is an `agentgym train` in a process of its own. Finished ones are kept and interrupted
ones are resumed, so the same command continues an interrupted benchmark. Results of other
environments and seeds are kept.

    python benchmarks/learning/families.py [--ids KG-QA-v0 ...] [--seeds 1 ...] [--jobs 2]
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tyro
import yaml

from benchmarks.figures import families_figures
from benchmarks.learning.learning import as_flags, launch, summary
from benchmarks.shared.parallel_jobs import end, finished
from benchmarks.shared.result_files import RESULTS, kept, refuse_other, settings_of, versions, write

HERE = Path(__file__).parent
CONFIG = HERE / "families.yaml"
RESULT = RESULTS / "families.json"
RECIPES: dict[str, dict[str, Any]] = {
    "poad": {"critic_backbone": "separate", "critic_lr": 2e-3, "critic_episodes": 128},
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
    out: Path = RESULT
    """Results."""


def train(settings: Settings, name: str, seed: int) -> list[dict[str, Any]]:
    """Clones a policy and trains it with each recipe. Returns a summary of each run."""
    folder, family = settings.runs / name, FAMILIES[name]
    cloned = folder / f"cloned-{seed}"
    chosen = {"env_id": name, "seed": seed, **family.settings}
    launch("poad", CONFIG, cloned, as_flags({**chosen, "iterations": 0, "eval_baselines": True}))
    agents = summary("poad", seed, cloned)["agents"]
    chosen = {name: value for name, value in chosen.items() if not name.startswith("bc_")}
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
    about = {**yaml.safe_load(CONFIG.read_text(encoding="utf-8")), **RECIPES}
    found = kept(settings.out, about)
    for name in settings.ids:
        family = settings_of(FAMILIES[name], "seeds")
        refuse_other(settings.out, found.get(name, {}), family, "--out")
    jobs = {
        f"{name} {seed}": (settings, name, seed)
        for name in settings.ids
        for seed in settings.seeds or FAMILIES[name].seeds
    }
    failed: dict[str, BaseException] = {}
    for job, runs in finished(ThreadPoolExecutor(settings.jobs), train, jobs, failed):
        _, name, seed = jobs[job]
        others = [run for run in found.get(name, {"runs": []})["runs"] if run["seed"] != seed]
        runs = sorted(others + runs, key=lambda run: run["seed"])
        found[name] = {**asdict(FAMILIES[name]), "runs": runs}
        found = {name: found[name] for name in FAMILIES if name in found}
        results = {"versions": versions("torch"), "settings": about, "environments": found}
        write(settings.out, results)
    print(families_figures.families_table(found))
    end(failed)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
