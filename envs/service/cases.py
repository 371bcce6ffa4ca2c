"""Tasks of customer service: generated ones, and those of tau-bench."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from agentgym.envs.service.database import Tables, read_json, read_policy, read_tables
from agentgym.envs.service.user import Scenario
from agentgym.errors import DataError
from agentgym.tools import Call
from agentgym.utils.file_cache import cached_by_files


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


@cached_by_files("folder", maxsize=4)
def original_tables(folder: str, names: tuple[str, ...]) -> Tables:
    """Returns the original tables."""
    return read_tables(folder, names)


@cached_by_files("folder", maxsize=4)
def original_policy(folder: str) -> str:
    """Returns the original policy.

    Raises:
        DataError: if the file is missing.
    """
    return read_policy(folder, "wiki.md")


@cached_by_files("folder", maxsize=16)
def original_tasks(folder: str, split: str) -> list[Case]:
    """Returns the original tasks of a split ("train", "dev" or "test").

    Raises:
        DataError: if the file is missing or damaged.
    """
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


def original_case(folder: str, task: str) -> Case:
    """Returns an original task, such as "test/12"."""
    split, _, number = task.partition("/")
    return original_tasks(folder, split)[int(number)]
