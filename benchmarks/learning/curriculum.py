"""Curricula over tasks of mixed difficulty: held-out reward at equal numbers of environment steps.

The questions of KG-QA need one to four facts. A small decoder with random weights is trained by
behaviour cloning, and GRPO trains this same policy with each of `CURRICULA`. A group with equal
returns teaches GRPO nothing, so the steps of tasks that are too hard or too easy are lost. All
settings are in `curriculum.yaml`. They were fixed before the runs, after a probe of `uniform` with
seed 0, in which the return rose. A curriculum counts as better if the interval of its difference to
`uniform`, paired by seed, lies above 0.

Every stage is an `agentgym train` in a process of its own. Finished ones are kept and interrupted
ones are resumed, so the same command continues an interrupted benchmark. Results of other curricula
and seeds are kept.

    python benchmarks/learning/curriculum.py [--names uniform regret] [--seeds 1 2 3] [--jobs 2]
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import tyro
import yaml

from agentgym.trainers.rollout.curriculum import KINDS
from agentgym.trainers.run.logger import read_metrics
from benchmarks.figures import curriculum_figures
from benchmarks.learning.learning import as_flags, launch, summary
from benchmarks.shared.parallel_jobs import end, finished
from benchmarks.shared.result_files import RESULTS, read, refuse_other, versions, write

HERE = Path(__file__).parent
CONFIG = HERE / "curriculum.yaml"
RESULT = RESULTS / "curriculum.json"
CURRICULA: dict[str, dict[str, Any]] = {
    **{kind: {"curriculum": kind} for kind in KINDS if kind != "levels"},  # of one environment
    "expert starts": {"wrap": "ExpertStart"},
}
"""Settings of each curriculum. The expert's own steps are not counted."""


@dataclass
class Settings:
    """Settings of the benchmark."""

    names: tuple[str, ...] = tuple(CURRICULA)
    """Curricula to compare, keys of `CURRICULA`."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of each curriculum."""
    jobs: int = 1
    """Seeds in parallel."""
    runs: Path = Path("runs/curriculum")
    """Folder of the runs."""
    out: Path = RESULT
    """Results."""


def train(settings: Settings, seed: int) -> list[dict[str, Any]]:
    """Clones a policy and trains it with each curriculum. Returns a summary of each run."""
    cloned = settings.runs / f"cloned-{seed}"
    chosen: dict[str, Any] = {"seed": seed}
    launch("grpo", CONFIG, cloned, as_flags({**chosen, "iterations": 0, "eval_baselines": True}))
    agents = summary("grpo", seed, cloned)["agents"]
    chosen |= {"model": cloned / "policy", "bc_demonstrations": 0}
    runs = []
    for name in settings.names:
        folder = settings.runs / f"{name.replace(' ', '-')}-{seed}"
        launch("grpo", CONFIG, folder, as_flags(chosen | CURRICULA[name]))
        run = summary("grpo", seed, folder)
        equal = [r["credit/group/all_equal"] for r in read_metrics(folder) if "losses/steps" in r]
        runs.append(
            {
                "curriculum": name,
                **{key: run[key] for key in ("seed", "env_steps", "training_seconds")},
                "agents": agents | {"trained": run["agents"]["grpo"]},
                "training_return": run["training_return"],
                "equal_groups": round(mean(equal), 4),
            }
        )
    return runs


def main(settings: Settings) -> None:
    """Trains the missing runs, then writes and prints all results."""
    names = list(CURRICULA)
    about = {**yaml.safe_load(CONFIG.read_text(encoding="utf-8")), **CURRICULA}
    before = read(settings.out)
    refuse_other(settings.out, before.get("settings", {}), about, "--out")
    known = before.get("runs", [])
    jobs = {f"seed {seed}": (settings, seed) for seed in settings.seeds}
    failed: dict[str, BaseException] = {}
    for _, found in finished(ThreadPoolExecutor(settings.jobs), train, jobs, failed):
        runs = {(run["curriculum"], run["seed"]): run for run in [*known, *found]}
        known = [runs[key] for key in sorted(runs, key=lambda key: (names.index(key[0]), key[1]))]
        write(settings.out, {"versions": versions("torch"), "settings": about, "runs": known})
    print(curriculum_figures.curriculum_table(known))
    print(curriculum_figures.curriculum_summary(known))
    end(failed)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
