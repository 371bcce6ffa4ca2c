r"""What the credit of estimators is worth: audits of one run under all of them.

In each environment, POAD with a critic of its own trains a cloned policy for a few iterations, in
groups of eight episodes with the same start. `agentgym audit` then plays on from every state of the
last iteration, so that the advantages of its turns are known, and judges the estimators on the same
episodes. Runs are in the middle of learning: some episodes fail, some succeed.

- sign errors: share of the turns that matter whose credit has the wrong sign.
- correlation: with the exact advantages, over turns.
- moot: share of the credit on turns that are not known to matter.
- ceiling: the correlation of exact advantages of other continuations, the most that can be seen.

Finished runs and audits are kept. Prints a table and writes JSON.

    python benchmarks/credit/audits.py
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from agentgym.trainers.audit.report import CEILING, audit_run
from benchmarks.figures.credit_figures import of_seeds
from benchmarks.learning.learning import launch
from benchmarks.shared.result_files import (
    BENCHMARKS,
    RESULTS,
    measured,
    settings_of,
    versions,
)

GRID = BENCHMARKS / "learning" / "grid"
CONFIGS = {
    "questions": GRID / "questions.yaml",
    "forms": GRID / "forms.yaml",
    "line": GRID / "line.yaml",
    "dice": GRID / "dice.yaml",
    "hanoi": BENCHMARKS / "first_run.yaml",
}
"""The settings of runs by the name of the environment."""
ESTIMATORS = ("poad", "turn", "bilevel", "grpo", "gigpo", "gagpo")
"""The recipes whose credit is judged."""
MEASURES = ("sign_errors", "correlation", "moot_credit")


@dataclass
class Settings:
    """Settings of the benchmark."""

    envs: tuple[str, ...] = tuple(CONFIGS)
    """Environments."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of the runs."""
    iterations: int = 6
    """Iterations of a run. The last one is audited."""
    episodes: int = 64
    """Episodes of an iteration, all of which are audited."""
    continuations: int = 32
    """Continuations of each state."""
    runs: Path = Path("runs/audits")
    """Folder of the runs."""
    out: Path = RESULTS / "audits.json"
    """File of the results."""


def train(name: str, seed: int, settings: Settings) -> Path:
    """Trains in an environment unless the run has finished, and returns its folder."""
    folder = settings.runs / f"{name}-{seed}"
    flags = [
        *("--seed", seed, "--iterations", settings.iterations, "--eval-episodes", 0),
        *("--episodes-per-iteration", settings.episodes, "--num-envs", settings.episodes),
        *("--group-size", 8, "--transcripts", settings.episodes, "--save-every", 1),
        *("--critic-backbone", "separate", "--critic-window", 1, "--critic-lr", 2e-3),
    ]
    launch("poad", CONFIGS[name], folder, flags)
    return folder


def audit(name: str, seed: int, settings: Settings) -> dict[str, Any]:
    """Returns the audit of a run, without the numbers of single turns."""
    run = train(name, seed, settings)
    found = audit_run(
        run, continuations=settings.continuations, episodes=settings.episodes
    ).to_json()
    return {key: value for key, value in found.items() if key != "episodes"}


def main(settings: Settings) -> None:
    """Audits the missing runs, writes the file after each one, and prints a table."""
    about = {
        "settings": settings_of(settings, "runs", "envs", "seeds"),
        "versions": versions("torch"),
    }
    measures = {
        f"{name} {seed}": partial(audit, name, seed, settings)
        for seed in settings.seeds
        for name in settings.envs
    }
    audits = dict(measured(settings.out, about, "audits", measures))
    table = Table("env", "credit", *MEASURES)
    for name in settings.envs:
        for estimator in (*ESTIMATORS, CEILING):
            found = [of_seeds(audits, name, estimator, measure) for measure in MEASURES]
            cells = (f"{fmean(each):.2f} ({len(each)} seeds)" if each else "" for each in found)
            table.add_row(name, estimator, *cells)
    Console(width=120).print(table)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
