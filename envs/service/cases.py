"""Tasks of customer service: generated ones, and those of tau-bench."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentgym.envs.service.database import Tables, read_json, read_policy, read_tables
from agentgym.envs.service.user import Scenario
from agentgym.errors import DataError
from agentgym.tasks import Tasks
from agentgym.tools import Call
from agentgym.utils.file_cache import Shared, cached_by_files


@dataclass(frozen=True)
class Case:
    """A task: a user and the expected result.

    Attributes:
        instruction: description of the user, for a user that is a model or a function.
        calls: the calls that lead to the expected database.
        outputs: texts that the agent must tell the user.
        scenario: the scripted user. None: the user tells the instruction.
    """

    instruction: str
    calls: tuple[Call, ...]
    outputs: tuple[str, ...]
    scenario: Scenario | None


LookUps = tuple[Call, ...]


def case_of(scenario: Scenario) -> Case:
    """Returns the task of a scripted user. Other users get the facts as their instruction."""
    parts = [scenario.identity, f"You are {scenario.mood}."]
    for request in scenario.requests:
        parts += [request.opening, *request.facts.values(), request.correction]
    return Case(
        instruction=" ".join(filter(None, parts)),
        calls=tuple(call for request in scenario.requests for call in request.calls),
        outputs=tuple(output for request in scenario.requests for output in request.outputs),
        scenario=scenario,
    )


TEST_EVERY = 4
"""One user in four belongs to the test tasks."""


@lru_cache(maxsize=16)
def split_users(tables: Tables, split: str, table: str = "users") -> list[str]:
    """Returns the keys of the users of a split."""
    keys = enumerate(tables.records[table])
    return [key for i, key in keys if (i % TEST_EVERY == 0) == (split == "test")]


@dataclass(frozen=True, eq=False)
class Original(Shared):
    """The original data of a folder, which environments share.

    Attributes:
        tasks: the names of the tasks, such as "test/12".
        cases: the tasks by name.
        tables: the tables.
        policy: the policy.
        source: the function that reads them, and its arguments.
    """

    tasks: Tasks
    cases: dict[str, Case]
    tables: Tables
    policy: str
    source: tuple[Callable[..., Original], tuple[Any, ...]]

    def __reduce__(self):
        # Other processes read the data instead of carrying it.
        return self.source


def read_program(folder: str, name: str) -> list[Any]:
    """Returns the list in a Python file, `TASKS = [Task(...), ...]`, without running the file.

    Raises:
        DataError: if the file is damaged, or has no list of literals and calls with keywords.
    """
    path = Path(folder).expanduser() / name
    try:
        for each in ast.parse(path.read_text("utf-8")).body:
            if isinstance(each, ast.Assign | ast.AnnAssign) and isinstance(each.value, ast.List):
                return [_literal(entry) for entry in each.value.elts]
    except (OSError, SyntaxError, ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a readable list of tasks: {error!s:.200}") from error
    raise DataError(f"{path} has no list of tasks: expected TASKS = [Task(...), ...].")


def _literal(node: ast.expr) -> Any:
    """Returns the value of an expression, in which a call is the dict of its keywords."""
    if isinstance(node, ast.Call) and not node.args:
        return {str(each.arg): _literal(each.value) for each in node.keywords}
    if isinstance(node, ast.List):
        return [_literal(each) for each in node.elts]
    return ast.literal_eval(node)


@cached_by_files("folder", maxsize=4)
def read_original(folder: str, tables: tuple[str, ...], splits: tuple[str, ...]) -> Original:
    """Reads a folder of tau-bench.

    Args:
        folder: the folder.
        tables: the names of the tables.
        splits: the splits that have files, the tests last. Half of a lone one are tests.

    Raises:
        DataError: if a file is missing or damaged.
    """
    found = {split: _original_cases(folder, split) for split in splits}
    names = [[f"{split}/{i}" for i in range(len(cases))] for split, cases in found.items()]
    *others, test = names
    train = [name for each in others for name in each]
    return Original(
        Tasks(train, test) if others else Tasks(test[1::2], test[::2]),
        {f"{split}/{i}": case for split, cases in found.items() for i, case in enumerate(cases)},
        read_tables(folder, tables),
        read_policy(folder, "wiki.md"),
        (read_original, (folder, tables, splits)),
    )


def _original_cases(folder: str, split: str) -> list[Case]:
    name = f"tasks_{split}.py"
    program = os.path.isfile(Path(folder).expanduser() / name)
    if not program:
        name = f"tasks_{split}.json"
    try:
        return [
            Case(
                instruction=str(task["instruction"]),
                calls=tuple(Call(c["name"], c["kwargs"]) for c in task["actions"]),
                outputs=tuple(map(str, task["outputs"])),
                scenario=None,
            )
            for task in (read_program if program else read_json)(folder, name)
        ]
    except (LookupError, TypeError) as error:
        raise DataError(f"{name} in {folder!r} has an entry without {error!s:.80}.") from error
