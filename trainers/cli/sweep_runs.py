"""`Sweep`: the runs of a sweep in processes and folders of their own, and their results."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from agentgym.errors import AgentGymError, ConfigError, UnknownArgumentError
from agentgym.evaluation.comparison import Group, compare_groups
from agentgym.evaluation.runs import METRICS, TrainingRun, read_run
from agentgym.trainers import recipes
from agentgym.trainers.cli.flags import with_known_names
from agentgym.trainers.cli.shared_card import share_card
from agentgym.trainers.cli.subprocesses import (
    Children,
    as_they_end,
    finished,
    train_in_process,
)
from agentgym.trainers.cli.sweep_settings import Run, flags_of
from agentgym.trainers.cli.train import read_config
from agentgym.trainers.players.lineup import Lineup
from agentgym.trainers.policy.model_defaults import check_model_name
from agentgym.trainers.run.checks import check_recipe, check_start
from agentgym.trainers.run.environment import environment_factory, evaluation_factory
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.system.checkpoint import write_text
from agentgym.trainers.system.signals import Interrupted
from agentgym.utils.masking import masked

RESULT, FIGURE = "sweep.json", "compare.png"
OWN = ("--seed", "--run-dir", "--resume", "--no-resume", "--threads")
"""Flags of a run that the sweep sets."""
LONGEST = 1e6
"""Minutes, about two years: a bound of the time limit, which a timer still counts."""


def check_run(recipe: str, config: TrainConfig) -> None:
    """Raises ConfigError for settings that a run refuses before it loads its model.

    Args:
        recipe: name of the recipe.
        config: the settings.
    """
    algorithm = recipes.load(recipe).build(config)
    check_recipe(recipe, config, algorithm)
    check_model_name(config.model.model)
    make_env, config = environment_factory(config, None, None)
    make_eval_env = evaluation_factory(config, make_env, None)
    for make in dict.fromkeys((make_env, make_eval_env)):
        env = make()
        if make is make_env:
            check_start(config, env)
            Lineup(config, env, algorithm.outcomes)
        env.close()


def result_of(run: Run, folder: Path) -> TrainingRun:
    """Returns the results of a finished run.

    Raises:
        ConfigError: if the log of the run is damaged.
    """
    found = read_run(folder)
    if found.training_return is None:
        raise ConfigError(
            f"{folder} holds a finished run of {run.recipe}, whose results are not in {METRICS}: "
            "delete the folder, and the run is repeated."
        )
    return found


@dataclass(frozen=True)
class Sweep:
    """Runs over recipes, settings and seeds.

    Attributes:
        recipes: the names of the recipes. The others are compared with the first one.
        flags: flags of every run.
        runs: the runs.
        folder: the folder of their folders and of the results.
        jobs: runs in parallel.
        threads: threads per run.
        minutes: time limit, at which the runs save and stop. None: there is none.
    """

    recipes: tuple[str, ...]
    flags: tuple[str, ...]
    runs: tuple[Run, ...]
    folder: Path
    jobs: int = 1
    threads: int = 1
    minutes: float | None = None
    _known: dict[Run, TrainingRun] = field(default_factory=dict, init=False, compare=False)
    _failed: dict[Run, str] = field(default_factory=dict, init=False, compare=False)
    _variables: dict[str, str] = field(default_factory=dict, init=False, compare=False)

    def check(self, *, plays: bool) -> None:
        """Checks the settings of all runs, those of finished runs in the folder, and the memory.

        Args:
            plays: whether runs will be started, so that their environments are made too.

        Raises:
            ConfigError: if some of them cannot work, each error once.
        """
        for name in ("jobs", "threads"):
            if (number := getattr(self, name)) < 1:
                raise ConfigError(f"--{name} must be at least 1, got {number}.")
        if self.minutes is not None and not 0 < self.minutes < LONGEST:
            raise ConfigError(
                f"--minutes is a time limit above 0 and below {LONGEST}, got {self.minutes:g}. "
                "Leave it out for no limit."
            )
        varied = [flag for run in self.runs for flag in flags_of(run.setting)]
        for flag in [*self.flags, *varied]:
            if (name := flag.partition("=")[0]) in OWN:
                hint = "name them in --seeds" if name == "--seed" else "leave it out"
                raise ConfigError(f"A sweep sets {name} of its runs itself: {hint}.")
        self._check_folders()
        for recipe in self.recipes:
            recipes.load(recipe)
        self._check_known([*self.flags, *varied])
        configs = self._check_settings(plays)
        # Each setting has been read with one seed, and the memory of a run depends on no seed.
        for run in {run.seed: run for run in self.runs}.values() if plays else ():
            read_config(run.recipe, [*self.flags, *run.flags])
        waiting = [run for run in self.runs if not self._finished(run)]
        started = {run.name: configs[run.words] for run in waiting if plays}
        self._variables.update(share_card(self.jobs, started))

    def _finished(self, run: Run) -> bool:
        return finished(run.recipe, [*self.flags, *run.flags], self.folder / run.name)

    def _check_folders(self) -> None:
        """Raises ConfigError for runs with the same folder, on disks that ignore case too."""
        folders: dict[str, Run] = {}
        for run in self.runs:
            if (other := folders.setdefault(run.name.casefold(), run)) != run:
                raise ConfigError(
                    f"{' '.join(flags_of(other.setting))!r} and {' '.join(flags_of(run.setting))!r}"
                    f" would have the same folder, {run.name}: give names that differ in letters."
                )

    def _check_known(self, flags: Sequence[str]) -> None:
        """Raises ConfigError for settings that some of the recipes have and others lack."""
        lines, refused = [], set[str]()
        for flag in dict.fromkeys(word for word in flags if word.startswith("--")):
            lacking = [recipe for recipe in self.recipes if not _knows(recipe, flag)]
            if lacking and len(lacking) < len(self.recipes):
                name = flag.removeprefix("--").partition("=")[0].replace("-", "_")
                lines.append(
                    f"{' and '.join(lacking)} lack{'s' * (len(lacking) == 1)} the setting {name}."
                )
                refused.update(lacking)
        if lines:
            raise ConfigError("\n".join([*dict.fromkeys(lines), *self._remedy(refused)]))

    def _check_settings(self, plays: bool) -> dict[str, TrainConfig]:
        """Returns the settings of a run with each setting, by its words."""
        settings = {run.words: run for run in self.runs}
        configs: dict[str, TrainConfig] = {}
        wrong: dict[str, list[str]] = {}
        for words, run in settings.items():
            try:
                configs[words] = config = read_config(run.recipe, [*self.flags, *run.flags])
                self._check_comparable(run, config)
                if plays:
                    check_run(run.recipe, config)
            except AgentGymError as error:
                wrong.setdefault(str(error), []).append(words)
        if not wrong:
            return configs
        if len(wrong) == 1 and len(*wrong.values()) == len(settings):
            raise ConfigError(*wrong)
        lines = [
            text if text.startswith(f"{names[0]} ") else f"{', '.join(names)}: {text}"
            for text, names in wrong.items()
        ]
        refused = {settings[words].recipe for names in wrong.values() for words in names}
        raise ConfigError("\n".join([*lines, *self._remedy(refused)]))

    def _remedy(self, refused: set[str]) -> list[str]:
        """Returns the remedy if settings suit some recipes only."""
        lacking = [recipe for recipe in self.recipes if recipe in refused]
        if len(lacking) == len(self.recipes):
            return []
        others = [recipe for recipe in self.recipes if recipe not in refused]
        return [
            f"A sweep gives its settings to every recipe, and they suit {', '.join(others)}, not "
            f"{', '.join(lacking)}. Leave those settings out, or sweep {', '.join(lacking)} into a "
            "folder of its own (--out) and compare both: agentgym plot FOLDER FOLDER"
        ]

    def _check_comparable(self, run: Run, config: TrainConfig) -> None:
        if config.offline:
            raise ConfigError(
                f"A sweep compares returns of training, and {run.recipe} plays no episodes."
            )
        if not config.evaluation.eval_episodes:
            raise ConfigError("A sweep compares held-out rewards: set eval_episodes above 0.")

    def play(self, on_end: Callable[[Run, int], None] = lambda run, ended: None) -> list[str]:
        """Runs all that has not finished and returns a line for the runs that failed alike.

        At the time limit, the runs in progress save and stop, and no other one is started.

        Args:
            on_end: called after each run, which has finished or failed, with the number of runs
                that have ended.

        Raises:
            Interrupted: after a signal, when the runs in progress have stopped.
        """
        self.write()
        children = Children(self.minutes)
        waiting = [run for run in self.runs if not self._is_known(run)]
        with children, ThreadPoolExecutor(self.jobs) as pool:
            futures = {pool.submit(self._train, run, children): run for run in waiting}
            ended = len(self.runs) - len(waiting)
            for future in as_they_end(futures):
                run, failure = futures[future], future.result()
                if failure and not children.stopping:
                    self._failed[run] = failure
                self.write()
                if children.heard is None and (run in self._known or run in self._failed):
                    ended += 1
                    on_end(run, ended)
        if children.heard is not None:
            raise Interrupted(children.heard)
        failed: dict[str, list[str]] = {}
        for run in self.runs:
            if run in self._failed:
                failed.setdefault(self._failed[run], []).append(run.name)
        return [f"{', '.join(names)} {failure}" for failure, names in failed.items()]

    def _train(self, run: Run, children: Children) -> str:
        """Trains in a process and returns an error, "" if the run has finished."""
        flags = [*self.flags, *run.flags, "--threads", self.threads]
        folder = self.folder / run.name
        try:
            if not children.stopping:
                train_in_process(run.recipe, flags, folder, self.threads, self._variables, children)
        except subprocess.CalledProcessError as error:
            last = (error.stderr or "").strip().rpartition("\n")[2]
            return f"failed with status {error.returncode}: {last}"
        return ""

    def _is_known(self, run: Run) -> bool:
        folder = self.folder / run.name
        if run not in self._known and (folder / "report.json").exists():
            self._known[run] = result_of(run, folder)
        return run in self._known

    def results(self) -> dict[Run, TrainingRun]:
        """Returns the results of the finished runs, each of which is read once."""
        return {run: self._known[run] for run in self.runs if self._is_known(run)}

    def failure(self, run: Run) -> str:
        """Returns why a run failed, "" if it did not."""
        return self._failed.get(run, "")

    def left(self) -> int:
        """Returns the number of runs that have neither finished nor failed."""
        return sum(not self._is_known(run) and run not in self._failed for run in self.runs)

    def groups(self) -> list[Group]:
        """Returns the runs by recipe and setting: by recipe, and the best training return first."""
        results = self.results()
        found: dict[str, list[Run]] = {}
        for run in self.runs:
            found.setdefault(run.words, []).append(run)
        groups = []
        for words, runs in found.items():
            notes = [f"seed {run.seed} {self._failed[run]}" for run in runs if run in self._failed]
            known = tuple(results[run] for run in runs if run in results)
            groups.append((self._order(runs[0], known), Group(words, known, tuple(notes))))
        return [group for _, group in sorted(groups, key=lambda each: each[0])]

    def _order(self, run: Run, known: tuple[TrainingRun, ...]) -> tuple[int, float]:
        returns = [each.training_return or 0.0 for each in known]
        training = sum(returns) / len(returns) if returns else -float("inf")
        return self.recipes.index(run.recipe), -training

    def write(self) -> None:
        """Writes the results of the finished runs to `sweep.json`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        found = {
            "recipes": self.recipes,
            "flags": masked(self.flags),
            "runs": [
                {"folder": run.name, "setting": dict(run.setting), **result.to_json()}
                for run, result in self.results().items()
            ],
            "groups": [row.to_json() for row in compare_groups(self.groups())],
            "failed": {run.name: failure for run, failure in self._failed.items()},
        }
        write_text(self.folder / RESULT, json.dumps(found, indent=1) + "\n")


def _knows(recipe: str, flag: str) -> bool:
    """Returns whether a recipe has the setting of a flag, by its present or an older name."""
    if flag.partition("=")[0] in ("--", "--config"):
        return True
    try:
        with_known_names(recipes.load(recipe).Config, [flag])
    except UnknownArgumentError:
        return False
    return True
