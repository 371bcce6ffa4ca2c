"""Values in the replies of a server, checked: types and ranges."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any

from agentgym.tasks import NumberedTasks
from agentgym.time_step import LARGEST_REWARD

MOST_TASKS = 1 << 53


def checked(value: Any, name: str, kind: type) -> Any:
    """Returns a value of a server if it has a type. Raises TypeError otherwise."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{name} must be {kind.__name__}, got {reprlib.repr(value)}")
    return value


def checked_number(value: Any, name: str) -> float:
    """Returns a number of a server if it is finite. Raises ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, got {reprlib.repr(value)}")
    if not abs(value) <= LARGEST_REWARD:
        raise ValueError(f"{name} must be finite, got {reprlib.repr(value)}")
    return float(value)


def checked_info(name: str, value: Any) -> Any:
    """Returns a value of `info` that a server sent. Raises an error for another type or range."""
    match name:
        case "task" | "state_key":
            return checked(value, name, str)
        case "valid" | "success" | "timed_out" | "unjudged":
            return checked(value, name, bool)
        case "turn":
            if not 0 <= checked(value, name, int) < 2**53:
                raise ValueError(f"turn must be at least 0, got {reprlib.repr(value)}")
            return value
        case "progress":
            if not 0 <= checked_number(value, name) <= 1:
                raise ValueError(f"progress must be in [0, 1], got {value}")
            return float(value)
        case "admissible":
            return tuple(checked(each, "an admissible action", str) for each in
                         checked(value, name, list))  # fmt: skip
    terms = checked(value, name, dict).items()
    return {term: checked_number(each, f"reward term {term!r:.50}") for term, each in terms}


def checked_snapshot(value: Any) -> dict[str, Any]:
    """Returns the text, digest of the state and chance of a snapshot. Raises an error without."""
    kinds = {"snapshot": str, "state": str, "chance": bool}
    return {name: checked(value[name], name, kind) for name, kind in kinds.items()}


def names_of(split: Any) -> Sequence[str]:
    """Returns the names of a split's tasks, from its JSON. Raises an error for another form."""
    split = checked(split, "a split", dict)
    if "prefix" not in split:
        return tuple(
            checked(name, "a task", str) for name in checked(split["names"], "names", list)
        )
    bounds = [checked(bound, "a bound", int) for bound in checked(split["range"], "range", list)]
    if any(abs(bound) > MOST_TASKS for bound in bounds):
        raise ValueError(f"a range has bounds of at most 2**53, got {reprlib.repr(bounds)}")
    return NumberedTasks(checked(split["prefix"], "prefix", str), range(*bounds))
