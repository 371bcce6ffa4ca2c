"""Folders of training runs: the settings of each run, its evaluations and its budget.

A folder is a run if `config.json` in it has the settings of one. Runs are found at any depth, so
that a sweep, a folder of sweeps and a single run are read alike. PyTorch is not needed.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from agentgym.errors import ConfigError
from agentgym.utils.files import shown
from agentgym.utils.json_lines import read_jsonl

METRICS = "metrics.jsonl"
SECONDS = ("time/collect", "time/update", "time/evaluate")


@dataclass(frozen=True)
class Evaluation:
    """An evaluation on held-out tasks.

    Attributes:
        env_steps: environment steps played before it.
        tokens: action tokens generated before it.
        reward: mean return.
        success: share of solved episodes, None if it is not known.
    """

    env_steps: float
    tokens: float
    reward: float
    success: float | None = None


@dataclass(frozen=True)
class TrainingRun:
    """A run that has been evaluated at least once.

    Attributes:
        folder: its folder.
        recipe: the name of its recipe.
        seed: its seed.
        finished: whether it has ended.
        curve: its evaluations, the oldest first.
        training_return: mean return on training tasks in the second half of its iterations. None:
            it plays no episodes, as behaviour cloning.
        env_steps: environment steps played.
        tokens: action tokens generated.
        seconds: duration of its iterations and evaluations.
        settings: its settings, by flat names.
    """

    folder: Path
    recipe: str
    seed: int
    finished: bool
    curve: tuple[Evaluation, ...]
    training_return: float | None
    env_steps: float
    tokens: float
    seconds: float
    settings: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def reward(self) -> float:
        """The mean return of its last evaluation."""
        return self.curve[-1].reward

    @property
    def env(self) -> str:
        """The id of its environment, or several ids, with their arguments."""
        ids, kwargs = self.settings.get("env_id", ""), self.settings.get("env_kwargs")
        names = map(str, ids if isinstance(ids, list) else [ids])
        words = [name.removeprefix("AgentGym/") for name in names]
        if isinstance(kwargs, dict):
            words += [f"{name}={value}" for name, value in kwargs.items()]
        return " ".join(words)

    def to_json(self) -> dict[str, Any]:
        """Returns the results as JSON values."""
        return {
            "recipe": self.recipe,
            "seed": self.seed,
            "training_return": self.training_return,
            "reward": self.reward,
            "success": self.curve[-1].success,
            "env_steps": self.env_steps,
            "tokens": self.tokens,
            "seconds": self.seconds,
        }


def read_metrics(folder: str | Path) -> list[dict[str, Any]]:
    """Returns the lines of a run's metrics.jsonl, joined by iteration."""
    rows: dict[int, dict[str, Any]] = {}
    for _, row in read_jsonl(Path(folder) / METRICS):
        if row is not None:
            rows.setdefault(row["iteration"], {}).update(row)
    return [rows[iteration] for iteration in sorted(rows)]


def training_return(folder: str | Path) -> float:
    """Returns the mean return on training tasks in the second half of a run's iterations.

    It is NaN if the run has played no episodes.
    """
    found = [_number(row, "rollout/return") for row in read_metrics(folder)]
    returns = [number for number in found if number is not None]
    return fmean(returns[len(returns) // 2 :]) if returns else math.nan


def read_run(folder: Path) -> TrainingRun:
    """Returns the results of a run.

    Raises:
        ConfigError: if its settings or its results cannot be read. The message names the remedy.
    """
    settings = _settings(folder / "config.json")
    rows, finished = read_metrics(folder), (folder / "report.json").exists()
    curve = list(_evaluations(rows))
    if settings.get("eval_episodes") == 0:
        raise ConfigError(f"{folder} was not evaluated: its eval_episodes is 0.")
    if finished and (not rows or "eval/reward" not in rows[-1]):  # a run ends with an evaluation
        raise ConfigError(
            f"{folder} holds a finished run, whose results are not in {METRICS}: delete the "
            "folder, and the run is repeated."
        )
    if not curve:
        raise ConfigError(f"{folder} has no evaluation yet: wait for the first one.")
    training = training_return(folder)
    seconds = sum(_number(row, name) or 0.0 for row in rows for name in SECONDS)
    steps, tokens = (
        max((_number(row, name) or 0.0 for row in rows), default=0.0)
        for name in ("env_steps", "charts/tokens")
    )
    return TrainingRun(
        folder=folder,
        recipe=settings["recipe"],
        seed=settings["seed"],
        finished=finished,
        curve=tuple(curve),
        training_return=None if math.isnan(training) else training,
        env_steps=steps,
        tokens=tokens,
        seconds=seconds,
        settings=settings,
    )


def find_runs(folders: Sequence[Path]) -> tuple[list[TrainingRun], list[str]]:
    """Returns the runs below folders, and a note for each run that cannot be read.

    Args:
        folders: folders of runs, or of such folders, at any depth.

    Raises:
        ConfigError: if a folder does not exist, or there is no run to read in any of them.
    """
    found: dict[Path, TrainingRun] = {}
    notes: list[str] = []
    for place in folders:
        if not place.is_dir():
            raise ConfigError(f"There is no folder {str(place)!r}: name folders of training runs.")
        paths = run_folders(place)
        if not paths:
            notes.append(f"{shown(place)} holds no training run (a folder with config.json).")
        runs: list[TrainingRun] = []
        for path in paths:
            try:
                runs.append(read_run(path))
            except (ConfigError, OSError) as error:
                notes.append(f"left out: {error}")
        order = _recipes(place / "sweep.json")
        for run in sorted(runs, key=lambda run: order.get(run.recipe, len(order))):
            found.setdefault(run.folder.resolve(), run)
    if not found:
        raise ConfigError("\n".join(["There is no run to show.", *notes]))
    return list(found.values()), notes


def _recipes(file: Path) -> dict[str, int]:
    """Returns the recipes of a sweep in their order, none if there is no sweep to read."""
    try:
        names = json.loads(file.read_text(encoding="utf-8"))["recipes"]
        return {str(name): place for place, name in enumerate(names)}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return {}


def run_folders(place: Path) -> list[Path]:
    """Returns the folders of runs below a folder, in the order of their names."""
    found = []
    for path, folders, files in os.walk(place):
        folders.sort(key=_natural)
        if METRICS in files or ("config.json" in files and _is_run(Path(path))):
            found.append(Path(path))
            folders.clear()  # the policies in it have a config.json, too
    return found


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Returns a key that orders names with numbers: seed-2 before seed-10."""
    parts = name.replace("-", " ").split()
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]


def _is_run(folder: Path) -> bool:
    try:
        _settings(folder / "config.json")
    except ConfigError:
        return False
    return True


def _settings(file: Path) -> dict[str, Any]:
    """Returns the settings in the file of a run, with its recipe and seed."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))["config"]
        if isinstance(found["recipe"], str):
            seed = found.get("seed", 0)
            return {**found, "seed": seed if type(seed) is int else 0}
        problem = f"recipe = {found['recipe']!r:.40}"
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        problem = repr(error)
    raise ConfigError(
        f"{file.parent} holds a run, whose settings cannot be read from {file.name} "
        f"({problem:.200}): delete the folder, and the run is repeated."
    )


def _evaluations(rows: Sequence[Mapping[str, Any]]) -> Iterator[Evaluation]:
    """Yields the evaluations of a log. Budgets of a row without them are those before it."""
    steps = tokens = 0.0
    for row in rows:
        steps = max(steps, _number(row, "env_steps") or 0.0)
        tokens = max(tokens, _number(row, "charts/tokens") or 0.0)
        if (reward := _number(row, "eval/reward")) is not None:
            yield Evaluation(steps, tokens, reward, _number(row, "eval/success"))


def _number(row: Mapping[str, Any], name: str) -> float | None:
    """Returns a finite number of a row, None if it is missing or something else."""
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None
