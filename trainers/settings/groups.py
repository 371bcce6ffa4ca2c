"""Groups of settings: dataclasses that are fields of a configuration class."""

from __future__ import annotations

from dataclasses import field, fields, is_dataclass
from functools import cache
from typing import Any, get_type_hints


@cache
def groups_of(kind: type) -> dict[str, type]:
    """Returns the groups of settings of a configuration class: its fields that are dataclasses."""
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind) if is_dataclass(hints[each.name])}


@cache
def group_of(kind: type) -> dict[str, str]:
    """Returns the group of each grouped setting of a configuration class."""
    return {each.name: name for name, group in groups_of(kind).items() for each in fields(group)}


def defaults(group: type, **changes: Any) -> Any:
    """Returns a dataclass field for a group of settings with other defaults.

    Args:
        group: the dataclass of the group.
        **changes: the settings that differ, by name.
    """
    group(**changes)  # an unknown name fails where the recipe is defined
    return field(default_factory=lambda: group(**changes))
