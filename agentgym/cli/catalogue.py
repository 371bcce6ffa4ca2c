"""Descriptions of the ids, read from the code, for `agentgym list` and the documentation."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from agentgym.errors import MissingExtraError
from agentgym.registration.entry import Entry
from agentgym.registration.ids import TABLE
from agentgym.registration.making import author_class
from agentgym.utils.arguments import keyword_parameters


@dataclass(frozen=True)
class Description:
    """The line of an id in `agentgym list`.

    Attributes:
        id: the full id.
        kind: "single-agent" or "multi-agent".
        summary: first line of the docstring, or for a variant its plain id and its arguments.
        max_turns: turns after which an episode is truncated, or ended by the rules. None: no limit.
        extra: the optional dependency, if any.
    """

    id: str
    kind: str
    summary: str
    max_turns: int | None
    extra: str | None


def describe(entry: Entry) -> Description:
    """Returns an id's description."""
    kind = "multi-agent" if entry.multi_agent else "single-agent"
    try:
        cls = author_class(entry)
    except MissingExtraError as error:
        return Description(entry.id, kind, str(error), None, entry.extra)
    summary = (inspect.getdoc(cls) or "").partition("\n")[0]
    plain = next(e for e in TABLE if e.entry_point == entry.entry_point)
    if plain is not entry:
        summary = f"{plain.name} with {_arguments(entry)}."
    limit = _default(entry, cls, "max_turns")
    if limit == "auto":
        limit = cls(**entry.kwargs).max_turns
    if limit is None:
        bound = getattr(cls, "turn_bound", None)
        limit = _default(entry, cls, bound) if isinstance(bound, str) else bound
    return Description(entry.id, kind, summary, limit, entry.extra)


def _default(entry: Entry, cls: type, name: str) -> Any:
    """Returns the value of an id's argument, or the default of its class."""
    return entry.kwargs.get(name, keyword_parameters(cls)[name].default)


def _arguments(entry: Entry) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in (entry.kwargs | entry.seat).items())
