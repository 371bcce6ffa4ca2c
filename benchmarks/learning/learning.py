"""Learning curves of recipes with shared settings, over several seeds.

Every run is `agentgym train RECIPE --config FILE --seed S` in a process of its own. Finished runs
are kept and interrupted ones are resumed, so the same command continues an interrupted benchmark.
A finished run with other settings is an error. Writes a table as JSON and a figure, which keep the
other recipes and seeds of the file if they have the same settings.

    python benchmarks/learning/learning.py    # the settings of make demo, three seeds of POAD
    python benchmarks/learning/learning.py --name recipes --recipes poad turn rloo --jobs 4
    python benchmarks/learning/learning.py --name webshop_files --env-kwargs data_dir=FOLDER
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from agentgym.evaluation.report import Report
from agentgym.trainers.cli.subprocesses import WITHOUT_EFFECT, Children, train_in_process
from agentgym.trainers.cli.sweep_settings import flags_of
from agentgym.trainers.cli.train import read_config
from agentgym.trainers.run.logger import critic_curve, read_metrics
from agentgym.trainers.settings.config import as_json
from agentgym.utils.serialization import from_json
from benchmarks.shared.parallel_jobs import end, finished
from benchmarks.shared.result_files import BENCHMARKS, RESULTS, read, refuse_other, versions, write


@dataclass
class Settings:
    """Settings of the benchmark."""

    name: str = "webshop"
    """Name in the results, results/learning_NAME.json and .png."""
    config: Path = BENCHMARKS / "demo.yaml"
    """Settings of every run."""
    recipes: tuple[str, ...] = ("poad",)
    """Recipes to compare."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of each recipe."""
    jobs: int = 1
    """Runs in parallel."""
    threads: int = 1
    """Threads per run."""
    env_kwargs: tuple[str, ...] = ()
    """Arguments of the environment, KEY=VALUE, in place of those in the file."""
    flags: tuple[str, ...] = ()
    """Further flags of `agentgym train`, NAME=VALUE."""
    runs: Path = Path("runs/learning")
    """Folder of the runs."""


def chosen(settings: Settings) -> list[str]:
    """Returns the flags of `agentgym train` that all runs share."""
    flags: list[str] = []
    if settings.env_kwargs:
        flags += ["--env-kwargs", *settings.env_kwargs]
    for flag in settings.flags:
        name, _, value = flag.partition("=")
        flags += [f"--{name}", *([value] if value else [])]
    return flags


def shared(settings: Settings, recipes: Iterable[str]) -> dict[str, Any]:
    """Returns the settings that runs of some recipes share."""
    flags = ["--config", str(settings.config), *chosen(settings)]
    config, *others = (as_json(read_config(recipe, flags).values()) for recipe in recipes)
    apart = {"seed", *WITHOUT_EFFECT}
    return {
        name: value
        for name, value in config.items()
        if name not in apart and all(name in x and x[name] == value for x in others)
    }


def train(settings: Settings, recipe: str, seed: int) -> Path:
    """Trains one run unless it has finished; returns its folder."""
    folder = settings.runs / settings.name / f"{recipe}-{seed}"
    flags = ["--seed", seed, "--threads", settings.threads, *chosen(settings)]
    launch(recipe, settings.config, folder, flags, settings.threads)
    return folder


def launch(
    recipe: str,
    config: Path,
    folder: Path,
    flags: Sequence[Any],
    threads: int = 1,
    children: Children | None = None,
) -> None:
    """Runs a recipe in a process of its own unless the run has finished.

    Args:
        recipe: the name of the recipe.
        config: the file with its settings.
        folder: the run's folder. An interrupted run in it is resumed.
        flags: flags that override the file.
        threads: number of OpenMP threads.
        children: passes signals on to the process.

    Raises:
        ConfigError: if the run has finished, with other settings.
        subprocess.CalledProcessError: if it fails.
    """
    words = [str(word) for word in ("--config", config, *flags)]
    path = os.pathsep.join(filter(None, (str(BENCHMARKS.parent), os.environ.get("PYTHONPATH"))))
    try:
        train_in_process(recipe, words, folder, threads, {"PYTHONPATH": path}, children)
    except subprocess.CalledProcessError as error:
        print(error.stderr, file=sys.stderr)
        raise


def as_flags(settings: Mapping[str, Any]) -> list[str]:
    """Returns the flags of `agentgym train` that set these settings."""
    words = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in settings.items()}
    return flags_of(tuple(words.items()))


def summary(recipe: str, seed: int, folder: Path) -> dict[str, Any]:
    """Returns the evaluations and the learning curve of a run."""
    reports = [from_json(Report, r) for r in json.loads((folder / "report.json").read_text())]
    rows = read_metrics(folder)
    times = [sum(v for k, v in r.items() if k in ("time/collect", "time/update")) for r in rows]
    return {
        "recipe": recipe,
        "seed": seed,
        "agents": {
            report.agent: {
                name: [estimate.mean, estimate.low, estimate.high]
                for name, estimate in report.aggregate().items()
            }
            for report in reports
        },
        "env_steps": rows[-1]["env_steps"],
        "training_seconds": round(sum(times), 1),
        "curve": [
            [r["env_steps"], r["eval/reward"], r["eval/reward_low"], r["eval/reward_high"]]
            for r in rows
            if "eval/reward" in r
        ],
        "explained_variance": critic_curve(rows),
        "training_return": [
            [r["env_steps"], r["rollout/return"]] for r in rows if "rollout/return" in r
        ],
    }


def show(results: list[dict[str, Any]]) -> None:
    """Prints the evaluations as a table."""
    table = Table(title="Held-out tasks, with 95 % confidence intervals")
    for column in ("recipe", "seed", "agent", "reward", "success", "turns", "valid"):
        table.add_column(column, justify="left" if column in ("recipe", "agent") else "right")
    for result in results:
        for agent, numbers in result["agents"].items():
            cells = []
            for name in ("reward", "success", "turns", "valid"):
                mean, low, high = numbers[name]
                interval = "" if low is None else f" [{low:.2f}, {high:.2f}]"
                cells.append(f"{mean:.2f}{interval}")
            table.add_row(result["recipe"], str(result["seed"]), agent, *cells)
        table.add_section()
    Console(width=120).print(table)


def draw(results: list[dict[str, Any]], path: Path, title: str) -> None:
    """Draws the evaluations of every run and their mean over environment steps."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 5.7), layout="constrained")
    FigureCanvasAgg(figure)
    axes, below = figure.subplots(2, sharex=True, height_ratios=[3, 1])
    for i, recipe in enumerate(dict.fromkeys(result["recipe"] for result in results)):
        curves = [np.array(r["curve"], float) for r in results if r["recipe"] == recipe]
        for curve in curves:
            axes.plot(curve[:, 0], curve[:, 1], color=f"C{i}", alpha=0.3, linewidth=1)
        points = min(len(curve) for curve in curves)
        mean = np.mean([curve[:points] for curve in curves], axis=0)
        axes.plot(mean[:, 0], mean[:, 1], "o-", color=f"C{i}", label=f"{recipe} (mean of seeds)")
        for result in results:
            if result["recipe"] == recipe and result["explained_variance"]:
                below.plot(
                    *zip(*result["explained_variance"], strict=True), color=f"C{i}", alpha=0.5
                )
    baselines = results[0]["agents"]
    for name, style in (("random", ":"), ("expert", "--")):
        if name in baselines:
            axes.axhline(baselines[name]["reward"][0], color="0.5", linestyle=style, label=name)
    axes.set(ylabel="reward on held-out tasks", title=title)
    below.set(xlabel="environment steps", ylabel="explained\nvariance", ylim=(-1, 1))
    below.axhline(0, color="0.7", linewidth=1)
    below.grid(alpha=0.3)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)


def main(settings: Settings) -> None:
    """Trains the missing runs, then writes and prints all results."""
    out = RESULTS / f"learning_{settings.name}.json"
    before = read(out)
    runs = {(run["recipe"], run["seed"]): run for run in before.get("runs", ())}
    config = shared(settings, sorted({*settings.recipes, *(recipe for recipe, _ in runs)}))
    refuse_other(out, before.get("config", {}), config, "--name")
    jobs = {f"{name}-{seed}": (name, seed) for seed in settings.seeds for name in settings.recipes}
    failed: dict[str, BaseException] = {}
    pool = ThreadPoolExecutor(settings.jobs)
    for name, folder in finished(pool, partial(train, settings), jobs, failed):
        runs[jobs[name]] = summary(*jobs[name], folder)
        runs = dict(sorted(runs.items()))
        results = [*runs.values()]
        write(out, {"versions": versions("torch"), "config": config, "runs": results})
        draw(results, out.with_suffix(".png"), f"{settings.name}: held-out tasks")
    show([*runs.values()])
    end(failed)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
