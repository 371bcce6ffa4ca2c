"""Experiments with several agents: runs of `agentgym train`, and a measure of each run.

`multiagent_experiments.py` holds them. Each has variants (a recipe with its settings), which are
trained with several seeds in processes of their own, and a measure of the folder of a finished run
(`multiagent_measures.py`). Finished runs, measures and curves are kept and interrupted runs are
resumed, so the same command continues an interrupted benchmark. Results are the means over seeds
with 95 % confidence intervals. Earlier results of other experiments stay in the file, and those of
other seeds stay as long as the settings of their variant are the same, also without their runs.

    python benchmarks/games/multiagent.py --jobs 2
    python benchmarks/games/multiagent.py --experiments kuhn --seeds 0
    python benchmarks/games/multiagent.py --report          # results of finished runs
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
from rich.console import Console
from rich.table import Table

from agentgym.evaluation.report import mean_interval
from benchmarks.games.multiagent_experiments import EXPERIMENTS, Experiment
from benchmarks.games.multiagent_measures import Measures, Points
from benchmarks.learning.learning import launch
from benchmarks.shared.parallel_jobs import end, finished
from benchmarks.shared.result_files import RESULTS, kept, versions, write

RESULT = RESULTS / "multiagent.json"


@dataclass
class Settings:
    """Settings of the benchmark."""

    experiments: tuple[str, ...] = ()
    """Experiments (empty: all)."""
    variants: tuple[str, ...] = ()
    """Variants to train (empty: all)."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of each variant."""
    jobs: int = 1
    """Runs in parallel."""
    runs: Path = Path("runs/multiagent")
    """Folder of the runs."""
    report: bool = False
    """Start no runs, and report the finished ones."""
    out: Path = RESULT
    """File of the results."""


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
        recipe = settings.pop("recipe", experiment.recipe)
        if experiment.demonstrate is not None:
            settings["data"] = [str(demonstrations(self.experiment, self.runs))]
        file = self.folder.with_suffix(".yaml")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump(settings), encoding="utf-8")
        launch(recipe, file, self.folder, ["--seed", self.seed])

    def measured(self) -> Measures | None:
        """Returns the measure of a finished run, or None."""
        return self._kept("measure.json", EXPERIMENTS[self.experiment].measure)

    def curve(self) -> Points | None:
        """Returns the curve of a finished run, or None."""
        return self._kept("curve.json", EXPERIMENTS[self.experiment].points)

    def _kept(self, name: str, function: Callable[[Path], Any]) -> Any:
        """Returns a function of the folder of a finished run, which is computed once, or None."""
        file = self.folder / name
        if not (self.folder / "report.json").exists():
            return None
        if not file.exists():
            file.write_text(json.dumps(function(self.folder)), encoding="utf-8")
        return json.loads(file.read_text(encoding="utf-8"))


def demonstrations(experiment: str, runs: Path) -> Path:
    """Returns the file of episodes that the runs of an experiment clone."""
    file = runs / experiment / "demonstrations.jsonl"
    demonstrate = EXPERIMENTS[experiment].demonstrate
    if demonstrate is not None and not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_name("partial.jsonl")
        partial.unlink(missing_ok=True)  # of an interrupted call
        demonstrate(partial)
        partial.replace(file)
    return file


def summary(
    name: str, settings: Settings, earlier: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Returns the measures of an experiment: by variant, the interval over seeds and each seed.

    Args:
        name: the name of the experiment.
        settings: the seeds and the folder of the runs.
        earlier: an earlier summary. Its seeds are kept if they have the same settings.
    """
    experiment, variants = EXPERIMENTS[name], {}
    for variant, own in experiment.variants.items():
        jobs = [Job(name, variant, seed, settings.runs) for seed in settings.seeds]
        done = {job: found for job in jobs if (found := job.measured()) is not None}
        kept = _same_settings(experiment, variant, earlier or {})
        seeds = kept.get("seeds", {}) | {str(job.seed): found for job, found in done.items()}
        curves = kept.get("curves", {}) | {str(job.seed): job.curve() for job in done}
        if not seeds:
            continue
        rows = list(seeds.values())
        keys = [key for key in rows[-1] if all(key in row for row in rows)]
        variants[variant] = {
            "settings": own,
            "means": {k: asdict(mean_interval([row[k] for row in rows])) for k in keys},
            "seeds": dict(sorted(seeds.items())),
            "curves": dict(sorted(curves.items())),
        }
        if experiment.across is not None and len(done) == len(seeds) > 1:
            variants[variant]["across"] = experiment.across([job.folder for job in done])
        elif "across" in kept:
            variants[variant]["across"] = kept["across"]
    return {
        "goal": experiment.goal,
        "recipe": experiment.recipe,
        "settings": dict(experiment.settings),
        "axes": experiment.axes,
        "variants": variants,
    }


def _same_settings(
    experiment: Experiment, variant: str, earlier: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Returns the earlier results of a variant, nothing if its settings have changed."""
    kept = earlier.get("variants", {}).get(variant, {})
    now = {"recipe": experiment.recipe, **experiment.settings, **experiment.variants[variant]}
    then = {"recipe": earlier.get("recipe"), **earlier.get("settings", {})}
    return kept if then | kept.get("settings", {}) == json.loads(json.dumps(now)) else {}


def show(name: str, found: Mapping[str, Any]) -> None:
    """Prints a table of an experiment."""
    table = Table(title=f"{name}: {found['goal']}")
    rows = found["variants"]
    measures = list(dict.fromkeys(key for row in rows.values() for key in row["means"]))
    for title in ("variant", "seeds", *measures):
        table.add_column(title)
    for variant, row in rows.items():
        cells = [_cell(row["means"][key]) if key in row["means"] else "-" for key in measures]
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
        if variant in (settings.variants or EXPERIMENTS[name].variants)
    ]
    failed: dict[str, BaseException] = {}
    if not settings.report:
        for name in names:
            demonstrations(name, settings.runs)
        by_name = {f"{job.experiment} {job.folder.name}": (job,) for job in jobs}
        list(finished(ThreadPoolExecutor(settings.jobs), Job.train, by_name, failed))
    before = kept(settings.out, rows="experiments")
    results = before | {name: summary(name, settings, before.get(name)) for name in names}
    write(settings.out, {"versions": versions("torch"), "experiments": results})
    for name in names:
        show(name, results[name])
    end(failed)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
