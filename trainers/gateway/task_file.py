"""`TaskFile`: tasks of a file, for programs that bring an environment of their own.

Each line is a JSON object. Its keys are up to the program, except for three that may be left out:
`prompt`, the first observation, `name`, the name of the task, and `split`, "train" or "test".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.core import TextEnv
from agentgym.errors import ConfigError
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep

HELD_OUT = 10
"""One of so many tasks, from the end, is held out if no line names its split."""


@dataclass
class State:
    """The state of an episode: there is none."""


class TaskFile(TextEnv):
    """An environment whose episodes a program plays elsewhere.

    Args:
        path: the file.
        **kwargs: arguments of `TextEnv`.

    Attributes:
        rows: the lines of the file by the name of their task.

    Raises:
        ConfigError: if the file cannot be read, has too few tasks, or a line is no object.
    """

    instructions = ""
    State = State

    def __init__(self, path: str | Path = "", **kwargs: Any):
        super().__init__(**kwargs)
        self.rows: dict[str, dict[str, Any]] = {}
        splits: dict[str, list[str]] = {"train": [], "test": []}
        for number, row in enumerate(_read(Path(path))):
            split = row.get("split", "train")
            name = str(row.get("name", f"{split}/{number}"))
            if not isinstance(split, str) or split not in splits or name in self.rows:
                raise ConfigError(
                    f"{path}, task {number + 1}: split must be train or test, and each name occur "
                    f"once, got split {split!r:.40} and name {name!r:.80}."
                )
            self.rows[name] = row
            splits[split].append(name)
        train, test = splits.values()
        if not test:
            count = max(1, len(train) // HELD_OUT)
            train, test = train[:-count], train[-count:]
        if not train or not test:
            raise ConfigError(f"{path} must hold two tasks at least: one is held out.")
        self.tasks = Tasks(train, test)

    @property
    def data(self) -> Mapping[str, Any]:
        """The line of the task in progress."""
        return self.rows[self.task]

    def _start(self, task: str) -> TimeStep:
        self.state, row = State(), self.rows[task]
        prompt = row.get("prompt")
        return TimeStep(prompt if isinstance(prompt, str) else json.dumps(row, ensure_ascii=False))

    def _advance(self, action: str) -> TimeStep:
        return self._invalid("The tasks of a file have no environment: return a score.")


def _read(path: Path) -> list[dict[str, Any]]:
    """Returns the objects in a file."""
    try:
        # Not `splitlines`: texts of JSON may hold other ends of lines, such as U+2028.
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"tasks = {str(path)!r} cannot be read: {error}.") from error
    rows = []
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path}, line {number + 1} is no JSON: {error!s:.200}.") from error
        if not isinstance(row, dict):
            raise ConfigError(f"{path}, line {number + 1} must be a JSON object, got {line:.80}.")
        rows.append(row)
    return rows
