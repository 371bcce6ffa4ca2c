"""Descriptions of the ids, read from the code, for `agentgym list` and the documentation."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

from agentgym.errors import ConfigError, MissingExtraError, did_you_mean
from agentgym.registration.entry import Entry
from agentgym.registration.families import FAMILIES, family_of, family_title
from agentgym.registration.ids import TABLE
from agentgym.registration.making import author_class
from agentgym.registration.verdicts import verdicts
from agentgym.utils.arguments import keyword_parameters


@dataclass(frozen=True)
class Description:
    """The line of an id in `agentgym list`.

    Attributes:
        id: the full id.
        family: title of its family, such as "Board games".
        kind: "single-agent" or "multi-agent".
        summary: first line of the docstring, or for a variant its plain id and its arguments.
        max_turns: turns after which an episode is truncated, or ended by the rules. None: no limit.
        extra: the optional dependency, if any.
        certificate: verdict of its certificate, "pass", "warn" or "fail". None: it has none.
    """

    id: str
    family: str
    kind: str
    summary: str
    max_turns: int | None
    extra: str | None
    certificate: str | None

    @property
    def text(self) -> str:
        """All words of the description, without capitals."""
        return " ".join(map(str, astuple(self))).casefold()


def describe(entry: Entry) -> Description:
    """Returns an id's description."""
    kind = "multi-agent" if entry.multi_agent else "single-agent"
    family = family_title(family_of(entry))
    verdict = verdicts().get(entry.id)
    try:
        cls = author_class(entry)
    except MissingExtraError as error:
        return Description(entry.id, family, kind, str(error), None, entry.extra, verdict)
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
    return Description(entry.id, family, kind, summary, limit, entry.extra, verdict)


def find_descriptions(words: Sequence[str]) -> list[Description]:
    """Returns the descriptions in which all words occur, capitals aside, in the order of the table.

    Raises:
        ConfigError: if there is none.
    """
    everything = [describe(entry) for entry in TABLE]
    found = [d for d in everything if all(word.casefold() in d.text for word in words)]
    if not found:
        hint = did_you_mean(" ".join(words), [d.id.partition("/")[2] for d in everything])
        raise ConfigError(f"No environment matches {' '.join(words)!r}.{hint}")
    return found


def by_family(descriptions: Sequence[Description]) -> dict[str, list[Description]]:
    """Returns descriptions by family, in the order of the site."""
    found: dict[str, list[Description]] = {title: [] for title in FAMILIES.values()}
    for each in descriptions:
        found.setdefault(each.family, []).append(each)
    return {family: members for family, members in found.items() if members}


def _default(entry: Entry, cls: type, name: str) -> Any:
    """Returns the value of an id's argument, or the default of its class."""
    return entry.kwargs.get(name, keyword_parameters(cls)[name].default)


def _arguments(entry: Entry) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in (entry.kwargs | entry.seat).items())
