"""The files of tau2-bench: a database, a policy and tasks with structured descriptions of users.

"tau2-bench: Evaluating Conversational Agents in a Dual-Control Environment" (arXiv 2506.07982).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentgym.envs.service.cases import Case, Original
from agentgym.envs.service.database import checked_tables, read_json, read_policy
from agentgym.errors import DataError
from agentgym.tasks import Tasks
from agentgym.tools import Call
from agentgym.utils.file_cache import cached_by_files

SPLITS = ("train", "test")


def is_tau2(folder: str) -> bool:
    """Returns whether a folder has the files of tau2-bench."""
    return os.path.isfile(Path(folder).expanduser() / "db.json")


@cached_by_files("folder", maxsize=4)
def read_original(folder: str, tables: tuple[str, ...]) -> Original:
    """Reads a folder of tau2-bench.

    Args:
        folder: the folder.
        tables: the names of the tables.

    Raises:
        DataError: if a file is missing or damaged.
    """
    splits, known = read_json(folder, "split_tasks.json"), _cases(folder)
    try:
        found = {split: tuple(f"{split}/{id}" for id in splits[split]) for split in SPLITS}
        missing = [id for split in SPLITS for id in splits[split] if str(id) not in known]
    except (LookupError, TypeError) as error:
        raise DataError(f"split_tasks.json in {folder!r} has no list {error!s:.80}.") from error
    if missing:
        raise DataError(f"tasks.json in {folder!r} has no task {missing[0]!r}.")
    if not all(found.values()):
        raise DataError(f"split_tasks.json in {folder!r} has a split without tasks.")
    content = read_json(folder, "db.json")
    content = content if isinstance(content, dict) else {}
    names = (name for split in SPLITS for name in found[split])
    return Original(
        Tasks(**found),
        {name: known[name.partition("/")[2]] for name in names},
        checked_tables({name: content.get(name) for name in tables}, folder),
        read_policy(folder, "policy.md"),
        (read_original, (folder, tables)),
    )


def _cases(folder: str) -> dict[str, Case]:
    """Returns the tasks by id.

    Raises:
        DataError: if the file is missing or damaged, or a task begins in another state.
    """
    try:
        return {str(task["id"]): _case(task) for task in read_json(folder, "tasks.json")}
    except (LookupError, TypeError, AttributeError) as error:
        raise DataError(f"tasks.json in {folder!r} has an entry without {error!s:.80}.") from error
    except ValueError as error:
        raise DataError(f"tasks.json in {folder!r}: {error!s:.200}") from error


def _case(task: dict[str, Any]) -> Case:
    if task.get("initial_state"):
        raise ValueError(f"task {task['id']!r} has an initial state, which is not supported.")
    expected = task["evaluation_criteria"]
    told = expected["communicate_info"] if "COMMUNICATE" in expected["reward_basis"] else None
    return Case(
        instruction="\n".join(_description(task["user_scenario"])),
        calls=tuple(Call(c["name"], c["arguments"]) for c in expected["actions"] or ()),
        outputs=tuple(map(str, told or ())),
        scenario=None,
    )


def _description(user: dict[str, Any]) -> Iterator[str]:
    instructions = user["instructions"]
    if isinstance(instructions, str):
        yield instructions
        return
    yield instructions["reason_for_call"]
    for name in ("known_info", "unknown_info", "task_instructions"):
        if instructions.get(name):
            yield instructions[name]
    if user.get("persona"):
        yield user["persona"]
