"""Tasks of customer service: generated ones, and those of tau-bench."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
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
    name = f"tasks_{split}.json"
    try:
        return [
            Case(
                instruction=str(task["instruction"]),
                calls=tuple(Call(c["name"], c["kwargs"]) for c in task["actions"]),
                outputs=tuple(map(str, task["outputs"])),
                scenario=None,
            )
            for task in read_json(folder, name)
        ]
    except (LookupError, TypeError) as error:
        raise DataError(f"{name} in {folder!r} has an entry without {error!s:.80}.") from error
