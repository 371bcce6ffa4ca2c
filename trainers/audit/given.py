"""Credit that was computed elsewhere, which an audit judges beside that of the run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.errors import ConfigError
from agentgym.trainers.audit.measures import Floats
from agentgym.utils.importing import imported
from agentgym.utils.returned_numbers import finite_number

Line = dict[str, Any]
"""A line of `trajectories.jsonl`."""


def given_credit(source: str, trajectories: Sequence[Line]) -> tuple[str, Floats]:
    """Returns the name and the credit of all turns [M] of another estimator or trainer.

    Args:
        source: a file with a JSON line per trajectory, {"task": ..., "seed": ..., "advantages":
            [one number per turn]} and its "seat" in a game, in any order, but those of the same
            start in the order of the trajectories; or module:function, called with the lines of
            `trajectories.jsonl`, which returns a sequence of numbers for each.
        trajectories: the trajectories.

    Raises:
        ConfigError: if the file or the function is not there, or gives other numbers than one per
            turn of every trajectory.
    """
    path = Path(source)
    if path.suffix == ".jsonl":
        name, found = path.stem, _of_file(path, trajectories)
    else:
        name, found = source.rpartition(":")[2], _of_function(source, trajectories)
    if len(found) != len(trajectories):
        raise ConfigError(
            f"{source} must give the credit of {len(trajectories)} trajectories, got {len(found)}."
        )
    for line, credit in zip(trajectories, found, strict=True):
        _check(source, line, credit)
    return name, np.array([float(x) for credit in found for x in credit])


def _of_function(source: str, trajectories: Sequence[Line]) -> list[Any]:
    try:
        return list(imported(source, "--credit")(list(trajectories)))
    except TypeError as error:
        raise ConfigError(
            f"{source} must return a sequence of numbers for each trajectory: {error}"
        ) from error


def _of_file(path: Path, trajectories: Sequence[Line]) -> list[Any]:
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
        known: dict[tuple[Any, ...], list[Any]] = {}
        for row in (json.loads(line) for line in lines if line.strip()):
            known.setdefault(_key(row), []).append(row["advantages"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(
            f"{path} must have lines with task, seed and advantages, a number per turn: {error!r}"
        ) from error
    given = {key: iter(found) for key, found in known.items()}
    credit = [next(given.get(_key(line), iter(())), None) for line in trajectories]
    missing = [line for line, each in zip(trajectories, credit, strict=True) if each is None]
    if missing:
        raise ConfigError(
            f"{path} has no line for {len(missing)} of {len(trajectories)} trajectories, such as "
            f"task {missing[0]['task']!r} with seed {missing[0]['seed']}."
        )
    return credit


def _key(line: Line) -> tuple[Any, ...]:
    """Returns what names a trajectory in an iteration."""
    return line["task"], line["seed"], line.get("seat")


def _check(source: str, line: Line, credit: Any) -> None:
    """Raises a ConfigError unless a credit is a finite number per turn of a trajectory."""
    numbers = credit.tolist() if isinstance(credit, np.ndarray) else credit
    turns = len(line["turns"])
    fits = isinstance(numbers, list | tuple) and len(numbers) == turns
    if not fits or any(finite_number(each) is None for each in numbers):
        raise ConfigError(
            f"{source} must give {turns} finite numbers, one per turn, for task {line['task']!r} "
            f"with seed {line['seed']}, got {numbers!r:.80}."
        )
