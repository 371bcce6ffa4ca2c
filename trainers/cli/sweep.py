"""`agentgym sweep RECIPE`: runs over settings and seeds, in processes, and their comparison.

Every run is an `agentgym train` in a process and a folder of its own. Finished runs are kept and
interrupted ones are resumed, so the same command continues a sweep, and more values, draws or seeds
extend it. A signal to stop is passed on to the runs, which save. Settings are compared by their
return on *training* tasks in the second half of the run. Held-out rewards are reported for them and
select nothing.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.errors import AgentGymError, ConfigError
from agentgym.evaluation.bootstrap import best_of
from agentgym.evaluation.report import Estimate, mean_interval
from agentgym.trainers.cli.checks import check_run
from agentgym.trainers.cli.subprocesses import Children, finished, train_in_process
from agentgym.trainers.cli.train import read_config
from agentgym.trainers.run.logger import read_metrics
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.system.checkpoint import write_text
from agentgym.trainers.system.signals import Interrupted
from agentgym.utils.masking import masked

Setting = tuple[tuple[str, str], ...]
"""Names and values of the settings that vary."""
RESULT = "sweep.json"
OWN = ("--seed", "--run-dir", "--resume", "--no-resume", "--threads")
"""Flags of a run that the sweep sets."""
KEYS = ("training_return", "reward")
"""Numbers of a run: the one that settings are compared by, and the one that is reported."""


@dataclass(frozen=True)
class Run:
    """A run of a sweep.

    Attributes:
        setting: values of the varied settings, by name.
        seed: its seed.
    """

    setting: Setting
    seed: int

    @property
    def name(self) -> str:
        """The name of its folder, such as `lr=0.001,epochs=1/seed-0`."""
        words = ",".join(f"{name}={value}" for name, value in self.setting)
        return f"{re.sub(r'[^A-Za-z0-9_.,=+-]', '_', words)}/seed-{self.seed}"

    @property
    def words(self) -> str:
        """Its setting, such as `lr=0.001 epochs=1`."""
        return " ".join(f"{name}={value}" for name, value in self.setting)

    @property
    def flags(self) -> list[str]:
        """Its flags of `agentgym train`."""
        return [*flags_of(self.setting), "--seed", str(self.seed)]


def flags_of(setting: Setting) -> list[str]:
    """Returns the values of settings as flags of `agentgym train`."""
    flags = []
    for name, value in setting:
        flag = name.replace("_", "-")
        if value in ("true", "false"):
            flags.append(f"--{flag}" if value == "true" else f"--no-{flag}")
        else:
            flags.append(f"--{flag}={value}")
    return flags


def settings_of(vary: Sequence[str], draws: int, seed: int = 0) -> list[Setting]:
    """Returns the settings of a sweep: the whole grid, or random draws from it.

    Args:
        vary: NAME=A,B,C for a choice, or NAME=LOW..HIGH for a number that is drawn log-uniformly.
        draws: number of random draws (0: the grid). The first ones do not depend on their number.
        seed: seed of the draws.

    Raises:
        ConfigError: for other words, or for a range without draws.
    """
    if draws < 0:
        raise ConfigError(f"--draws must be at least 0, got {draws}.")
    spaces: dict[str, list[str] | tuple[float, float]] = {}
    for word in vary:
        name, equals, values = word.partition("=")
        if not name or not equals or not values:
            raise ConfigError(f"--vary takes NAME=A,B or NAME=LOW..HIGH, got {word!r}.")
        if (name := name.replace("-", "_")) in spaces:
            raise ConfigError(f"--vary names {name} twice: list all of its values together.")
        spaces[name] = _space(word, values)
    if not draws:
        ranged = [name for name, space in spaces.items() if isinstance(space, tuple)]
        if ranged:
            raise ConfigError(f"{ranged[0]} has a range: set --draws N to sample from it.")
        grid = dict.fromkeys(itertools.product(*spaces.values()))
        return [tuple(zip(spaces, values, strict=True)) for values in grid]  # type: ignore[misc]
    rng, found = np.random.default_rng(seed), []
    for _ in range(draws):
        found.append(tuple((name, _drawn(space, rng)) for name, space in spaces.items()))
    return list(dict.fromkeys(found))


def _space(word: str, values: str) -> list[str] | tuple[float, float]:
    low, dots, high = values.partition("..")
    if not dots or "/" in values:  # no range, but the folder above
        return values.split(",")
    try:
        limits = float(low), float(high)
    except ValueError:
        limits = 0.0, 0.0
    if not 0 < limits[0] < limits[1]:
        raise ConfigError(f"A range needs numbers 0 < LOW < HIGH, got {word!r}.")
    return limits


def _drawn(space: list[str] | tuple[float, float], rng: np.random.Generator) -> str:
    if isinstance(space, list):
        return space[int(rng.integers(len(space)))]
    return f"{np.exp(rng.uniform(*np.log(space))):.3g}"


def training_return(folder: Path) -> float:
    """Returns the mean return on training tasks in the second half of a run's iterations."""
    returns = [row["rollout/return"] for row in read_metrics(folder) if "rollout/return" in row]
    return float(np.mean(returns[len(returns) // 2 :]))


def result_of(run: Run, folder: Path) -> dict[str, Any]:
    """Returns the results of a finished run as JSON values.

    Raises:
        ConfigError: if the log of the run is damaged.
    """
    rows = read_metrics(folder)
    played = any("rollout/return" in row for row in rows)
    if not played or "eval/reward" not in rows[-1]:  # a run ends with an evaluation
        raise ConfigError(
            f"{folder} holds a finished run, whose results are not in metrics.jsonl: delete the "
            "folder, and the run is repeated."
        )
    return {
        "setting": dict(run.setting),
        "seed": run.seed,
        "training_return": training_return(folder),
        "reward": rows[-1]["eval/reward"],
        "env_steps": rows[-1]["env_steps"],
    }


@dataclass(frozen=True)
class Sweep:
    """Runs of a recipe over settings and seeds.

    Attributes:
        recipe: the name of the recipe.
        flags: flags of every run.
        runs: the runs.
        folder: the folder of their folders and of the results.
        jobs: runs in parallel.
        threads: threads per run.
    """

    recipe: str
    flags: tuple[str, ...]
    runs: tuple[Run, ...]
    folder: Path
    jobs: int = 1
    threads: int = 1
    _known: dict[Run, dict[str, Any]] = field(default_factory=dict, init=False, compare=False)

    def check(self, *, plays: bool) -> None:
        """Checks the settings of all runs, and those of finished runs in the folder.

        Args:
            plays: whether runs will be started, so that their environments are made too.

        Raises:
            ConfigError: if some of them cannot work, each error once.
        """
        for name in ("jobs", "threads"):
            if (number := getattr(self, name)) < 1:
                raise ConfigError(f"--{name} must be at least 1, got {number}.")
        varied = [flag for run in self.runs for flag in flags_of(run.setting)]
        for flag in [*self.flags, *varied]:
            if (name := flag.partition("=")[0]) in OWN:
                hint = "name them in --seeds" if name == "--seed" else "leave it out"
                raise ConfigError(f"A sweep sets {name} of its runs itself: {hint}.")
        folders: dict[str, Run] = {}
        for run in self.runs:
            if (other := folders.setdefault(run.name, run)) != run:
                raise ConfigError(
                    f"{' '.join(flags_of(other.setting))!r} and {' '.join(flags_of(run.setting))!r}"
                    f" would have the same folder, {run.name}: give names that differ in letters."
                )
        self._check_settings(plays)
        for run in self.runs:
            finished(self.recipe, [*self.flags, *run.flags], self.folder / run.name)

    def _check_settings(self, plays: bool) -> None:
        settings = {run.words: run for run in self.runs}
        wrong: dict[str, list[str]] = {}
        for words, run in settings.items():
            try:
                config = read_config(self.recipe, [*self.flags, *run.flags])
                self._check_comparable(config)
                if plays:
                    check_run(self.recipe, config)
            except AgentGymError as error:
                wrong.setdefault(str(error), []).append(words)
        if len(wrong) == 1 and len(*wrong.values()) == len(settings):
            raise ConfigError(*wrong)
        if wrong:
            lines = (f"{', '.join(names)}: {message}" for message, names in wrong.items())
            raise ConfigError("\n".join(lines))

    def _check_comparable(self, config: TrainConfig) -> None:
        if config.offline:
            raise ConfigError(
                f"A sweep compares returns of training, and {self.recipe} plays no episodes."
            )
        if not config.evaluation.eval_episodes:
            raise ConfigError("A sweep compares held-out rewards: set eval_episodes above 0.")

    def play(self) -> list[str]:
        """Runs all that has not finished and returns a line for the runs that failed alike.

        Raises:
            Interrupted: after a signal, when the runs in progress have stopped.
        """
        self.write()
        children = Children()

        def train(run: Run) -> str:
            flags = [*self.flags, *run.flags, "--threads", self.threads]
            folder = self.folder / run.name
            try:
                if children.heard is None:
                    train_in_process(self.recipe, flags, folder, self.threads, children=children)
            except subprocess.CalledProcessError as error:
                last = (error.stderr or "").strip().rpartition("\n")[2]
                return f"failed with status {error.returncode}: {last}"
            return ""

        failed: dict[str, list[str]] = {}
        with children, ThreadPoolExecutor(self.jobs) as pool:
            for run, failure in zip(self.runs, pool.map(train, self.runs), strict=True):
                self.write()
                if failure:
                    failed.setdefault(failure, []).append(run.name)
        if children.heard is not None:
            raise Interrupted(children.heard)
        return [f"{', '.join(names)} {failure}" for failure, names in failed.items()]

    def results(self) -> list[dict[str, Any]]:
        """Returns the results of the finished runs, each of which is read once."""
        for run in self.runs:
            folder = self.folder / run.name
            if run not in self._known and (folder / "report.json").exists():
                self._known[run] = result_of(run, folder)
        return [self._known[run] for run in self.runs if run in self._known]

    def write(self) -> None:
        """Writes the results of the finished runs to `sweep.json`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        found = {"recipe": self.recipe, "flags": masked(self.flags), "runs": self.results()}
        write_text(self.folder / RESULT, json.dumps(found, indent=1) + "\n")


def by_setting(results: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """Returns the runs of each setting, the one with the highest training return first."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for each in results:
        words = " ".join(f"{name}={value}" for name, value in each["setting"].items())
        found.setdefault(words, []).append(each)
    return sorted(found.items(), key=lambda item: -_mean(item[1], "training_return").mean)


def tables(results: Sequence[Mapping[str, Any]]) -> str:
    """Returns the results as text: by setting, by value, and the best of n settings.

    Intervals of settings and values are t intervals over their runs. The last table estimates the
    held-out reward of the best of n random settings (see `bootstrap.best_of`).
    """
    settings = by_setting(results)
    lines = [_row("setting", "runs", "training return", "held-out reward")]
    lines += [_described(words, runs) for words, runs in settings]
    values: dict[str, list[Mapping[str, Any]]] = {}
    for each in results:
        for name, value in each["setting"].items():
            values.setdefault(f"{name}={value}", []).append(each)
    if len(results[0]["setting"]) > 1:
        lines += ["", _row("value", "runs", "training return", "held-out reward")]
        lines += [_described(words, values[words]) for words in sorted(values)]
    columns = [[[run[key] for run in runs] for _, runs in settings] for key in KEYS]
    lines += ["", _row("best of n settings", "n", "", "held-out reward")]
    for n in itertools.takewhile(lambda n: n <= len(settings), (1, 2, 4, 8, 16, 32, 64)):
        found = best_of(n, *columns)
        lines.append(_row("bootstrap over settings and seeds", str(n), "", _interval(found)))
    return "\n".join(lines)


def _mean(runs: Sequence[Mapping[str, Any]], key: str) -> Estimate:
    return mean_interval([run[key] for run in runs])


def _described(words: str, runs: Sequence[Mapping[str, Any]]) -> str:
    return _row(words, str(len(runs)), *(_interval(_mean(runs, key)) for key in KEYS))


def _interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return f"{estimate.mean:.3f}"
    return f"{estimate.mean:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def _row(first: str, count: str, *cells: str) -> str:
    return f"{first:40} {count:>4}" + "".join(f"  {cell:>23}" for cell in cells)


def read_sweep(argv: Sequence[str]) -> tuple[Sweep, bool]:
    """Returns the sweep of a command line, and whether it only reports.

    Args:
        argv: the name of a recipe, the options of the sweep, and flags of `agentgym train`.

    Raises:
        ConfigError: if the settings of a run are wrong, or the folder holds another sweep.
        SystemExit: after the help text or a wrong option.
    """
    parser = argparse.ArgumentParser(
        prog="agentgym sweep",
        description="Train a recipe with several settings and seeds, and compare them. Further "
        "options are those of `agentgym train RECIPE`, the same for every run.",
        allow_abbrev=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("recipe", help="name of the recipe")
    add("--vary", nargs="+", required=True, metavar="NAME=VALUES", default=argparse.SUPPRESS,
        help="settings that vary: NAME=A,B,C, or with --draws NAME=LOW..HIGH, drawn log-uniformly",
    )  # fmt: skip
    add("--draws", type=int, default=0, help="number of random settings (0: the whole grid)")
    add("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds of each setting")
    add("--jobs", type=int, default=1, help="runs in parallel")
    add("--threads", type=int, default=1, help="threads per run")
    add("--out", type=Path, default=Path("runs/sweep"), help="folder of the runs and sweep.json")
    add("--report", action="store_true", help="start no runs, and show the finished ones")
    given, flags = parser.parse_known_args(list(argv))
    settings = settings_of(given.vary, given.draws)
    runs = tuple(Run(setting, seed) for seed in dict.fromkeys(given.seeds) for setting in settings)
    sweep = Sweep(given.recipe, tuple(flags), runs, given.out, given.jobs, given.threads)
    sweep.check(plays=not given.report)
    return sweep, given.report


def main(argv: Sequence[str]) -> int:
    """Runs `agentgym sweep` and returns the exit status: 1 if a run failed, 128 + a signal."""
    sweep, report = read_sweep(argv)
    try:
        failed = [] if report else sweep.play()
    except Interrupted as interrupted:
        print("Stopped. The same command continues the sweep.", file=sys.stderr)
        return 128 + int(interrupted.args[0])
    for line in failed:
        print(f"error: {line}", file=sys.stderr)
    results = sweep.results()
    if not results:
        raise ConfigError(f"No run of the sweep in {sweep.folder} has finished.")
    sweep.write()
    print(tables(results))
    print(f"\n{len(results)} of {len(sweep.runs)} runs have finished: {sweep.folder / RESULT}")
    return 1 if failed else 0
