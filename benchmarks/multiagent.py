"""Experiments with several agents: runs of `agentgym train`, and a measure of each run.

`EXPERIMENTS` names them. Each has variants (a recipe with its settings), which are trained with
several seeds in processes of their own, and a measure of the folder of a finished run. Finished
runs and measures are kept and interrupted runs are resumed, so the same command continues an
interrupted benchmark. Results are the means over seeds with 95 % confidence intervals.

    python benchmarks/multiagent.py --jobs 2
    python benchmarks/multiagent.py --experiments kuhn --seeds 0
    python benchmarks/multiagent.py --report          # results of finished runs
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tyro
import yaml
from learning import launch
from result_files import versions, write
from rich.console import Console
from rich.table import Table

from agentgym.agents import Agent, MixedAgent
from agentgym.evaluation import cross_play, nashconv
from agentgym.evaluation.report import mean_interval
from agentgym.trainers.policy_agent import load_agent, load_league

HERE = Path(__file__).parent
RESULT = HERE / "results" / "multiagent.json"
Measures = dict[str, float]


@dataclass
class Settings:
    """Settings of the benchmark."""

    experiments: tuple[str, ...] = ()
    """Experiments (empty: all)."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of each variant."""
    jobs: int = 1
    """Runs in parallel."""
    runs: Path = Path("runs/multiagent")
    """Folder of the runs."""
    report: bool = False
    """Start no runs, and report the finished ones."""


@dataclass(frozen=True)
class Experiment:
    """Training runs to compare, and their measure.

    Attributes:
        goal: the result that is hoped for.
        recipe: the recipe of all variants.
        settings: the settings of all variants.
        variants: the further settings of each variant, by name.
        measure: returns numbers for the folder of a finished run.
    """

    goal: str
    recipe: str
    settings: Mapping[str, Any]
    variants: Mapping[str, Mapping[str, Any]]
    measure: Callable[[Path], Measures]


NANO: dict[str, Any] = {
    "model": "nano",
    "context": "current",
    "instructions": False,
    "constrain": True,
    "eval_episodes": 0,
    "eval_every": 0,
    "transcripts": 0,
    "log_with": [],
    "save_every": 20,
    "device": "cpu",
    "threads": 1,
}
"""Settings of small decoders that play a game from nothing, on one core."""


def exploitability(folder: Path) -> Measures:
    """Returns NashConv in one hand of Kuhn poker: of the last policy and of the average policy."""
    last, average = load_agent(str(folder)), load_league(str(folder))
    return {
        "NashConv, last": _kuhn(last),
        "NashConv, average": _kuhn(average),
        "members": float(len(average.members)),
    }


def _kuhn(agent: Agent | MixedAgent) -> float:
    return nashconv("KuhnPoker-v0", agent, env_kwargs={"hands": 1}).nashconv


def tictactoe(folder: Path) -> Measures:
    """Returns the shares of games that the policy loses, from the empty board, in both seats."""
    agent = load_agent(str(folder), temperature=0.0)
    found: Measures = {}
    for level, games in (("random", 500), ("optimal", 100)):
        result = cross_play(
            "TicTacToe-v0", [agent, level], episodes=["opening/"] * (games // 2), self_play=False
        )
        returns = [m.returns[m.lineup.index(0)] for m in result.matches]
        found[f"wins against {level}"] = sum(r > 0 for r in returns) / games
        found[f"losses against {level}"] = sum(r < 0 for r in returns) / games
    return found


EXPERIMENTS: dict[str, Experiment] = {
    "kuhn": Experiment(
        goal="NashConv of the average policy below 0.1",
        recipe="rae",
        settings=NANO
        | {
            "env_id": "KuhnPoker-v0",
            "env_kwargs": {"hands": 1},
            "eval_temperature": 1.0,
            "episodes_per_iteration": 256,
            "num_envs": 256,
            "iterations": 150,
            "snapshot_every": 5,
            "epochs": 2,
            "lr": 3e-4,
            "lr_schedule": "linear",
            "entropy_coef": 0.05,
        },
        variants={
            "mirror": {"opponents": ["mirror=1", "past:20=0"]},
            "mirror, moving reference": {
                "opponents": ["mirror=1", "past:20=0"],
                "kl_coef": 0.2,
                "kl_reference": "moving:10",
            },
            "league": {"opponents": ["league=0.5", "mirror=0.5"]},
            "psro:nash": {"opponents": "psro:nash", "payoff_deals": 200},
        },
        measure=exploitability,
    ),
    "tictactoe": Experiment(
        goal="no loss in 500 games against random, and draws with perfect play",
        recipe="rae",
        settings=NANO
        | {
            "env_id": "TicTacToe-v0",
            "episodes_per_iteration": 256,
            "num_envs": 256,
            "iterations": 150,
            "snapshot_every": 10,
            "lr": 2e-3,
            "lr_schedule": "linear",
            "entropy_coef": 0.02,
            "gamma": 0.95,
        },
        variants={
            "mirror": {"opponents": "mirror"},
            "league": {"opponents": ["mirror=0.5", "league=0.5"]},
        },
        measure=tictactoe,
    ),
}


@dataclass(frozen=True)
class Job:
    """A run of a variant with one seed."""

    experiment: str
    variant: str
    seed: int
    runs: Path

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        variant = re.sub(r"[:, ]+", "-", self.variant)
        return self.runs / self.experiment / f"{variant}-{self.seed}"

    def train(self) -> None:
        """Trains unless the run has finished."""
        experiment = EXPERIMENTS[self.experiment]
        settings = {**experiment.settings, **experiment.variants[self.variant]}
        file = self.folder.with_suffix(".yaml")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump(settings), encoding="utf-8")
        launch(experiment.recipe, file, self.folder, ["--seed", self.seed])

    def measured(self) -> Measures | None:
        """Returns the measure of a finished run, or None."""
        file = self.folder / "measure.json"
        if not (self.folder / "report.json").exists():
            return None
        if not file.exists():
            found = EXPERIMENTS[self.experiment].measure(self.folder)
            file.write_text(json.dumps(found), encoding="utf-8")
        return json.loads(file.read_text(encoding="utf-8"))


def summary(name: str, settings: Settings) -> dict[str, Any]:
    """Returns the measures of an experiment: by variant, the interval over seeds and each seed."""
    experiment, variants = EXPERIMENTS[name], {}
    for variant in experiment.variants:
        jobs = [Job(name, variant, seed, settings.runs) for seed in settings.seeds]
        by_seed = {job.seed: found for job in jobs if (found := job.measured()) is not None}
        if by_seed:
            keys = next(iter(by_seed.values()))
            means = {k: asdict(mean_interval([m[k] for m in by_seed.values()])) for k in keys}
            variants[variant] = {"means": means, "seeds": by_seed}
    return {
        "goal": experiment.goal,
        "recipe": experiment.recipe,
        "settings": dict(experiment.settings),
        "variants": {k: {"settings": experiment.variants[k], **v} for k, v in variants.items()},
    }


def show(name: str, found: Mapping[str, Any]) -> None:
    """Prints a table of an experiment."""
    table = Table(title=f"{name}: {found['goal']}")
    rows = found["variants"]
    measures = list(dict.fromkeys(key for row in rows.values() for key in row["means"]))
    for title in ("variant", "seeds", *measures):
        table.add_column(title)
    for variant, row in rows.items():
        cells = [_cell(row["means"][key]) for key in measures]
        table.add_row(variant, str(len(row["seeds"])), *cells)
    Console(width=140).print(table)


def _cell(estimate: Mapping[str, float | None]) -> str:
    mean, high = estimate["mean"], estimate["high"]
    assert mean is not None
    return f"{mean:.3f}" if high is None else f"{mean:.3f} ± {high - mean:.3f}"


def main(settings: Settings) -> None:
    """Trains the missing runs, then writes and prints the results of the experiments."""
    names = settings.experiments or tuple(EXPERIMENTS)
    if unknown := {*names} - EXPERIMENTS.keys():
        raise SystemExit(f"Unknown experiments {sorted(unknown)}. Known: {sorted(EXPERIMENTS)}.")
    jobs = [
        Job(name, variant, seed, settings.runs)
        for name in names
        for seed in settings.seeds
        for variant in EXPERIMENTS[name].variants
    ]
    if not settings.report:
        with ThreadPoolExecutor(settings.jobs) as pool:
            list(pool.map(Job.train, jobs))
    earlier = json.loads(RESULT.read_text()) if RESULT.exists() else {"experiments": {}}
    results = earlier["experiments"] | {name: summary(name, settings) for name in names}
    write(RESULT, {"versions": versions("torch"), "experiments": results})
    for name in names:
        show(name, results[name])


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
