"""What there is to know about each id, read from the code: for `agentgym list` and the docs page.

Nothing is written by hand: an environment's page is the docstring of its class.
"""

from __future__ import annotations

import importlib
import inspect
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.arguments import keyword_parameters
from agentgym.errors import MissingExtraError
from agentgym.games import TextGame
from agentgym.registration import TABLE, Entry


@dataclass(frozen=True)
class Description:
    """An id in a line.

    Attributes:
        id: the full id.
        kind: "single-agent" or "multi-agent".
        summary: what it is; for a variant, of which id and by which arguments.
        max_turns: turns after which an episode is truncated or ended by the rules of the game;
            None: no fixed number.
        extra: the optional dependency it needs, if any.
    """

    id: str
    kind: str
    summary: str
    max_turns: int | None
    extra: str | None


def author_class(entry: Entry) -> type:
    """Returns the class an author wrote for an id: a `TextEnv`, or the `TextGame` of a module.

    Raises:
        MissingExtraError: if its module needs an optional dependency that is not installed.
    """
    module, _, name = entry.entry_point.partition(":")
    try:
        home = importlib.import_module(module)
    except ImportError as error:
        if entry.extra is None:
            raise
        raise MissingExtraError(entry.id, entry.extra, entry.package) from error
    if name:
        return getattr(home, name)
    games = [
        value
        for value in vars(home).values()
        if isinstance(value, type) and issubclass(value, TextGame) and value.__module__ == module
    ]
    assert len(games) == 1, f"{module} must define exactly one TextGame, has {games}"
    return games[0]


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
    return entry.kwargs.get(name, keyword_parameters(cls)[name].default)


def render_page(results: Path | None = None) -> str:
    """Returns the page of all environments, in Markdown.

    Args:
        results: folder with baselines.json, imitation.json and env_speed.json; None: without
            their tables.
    """
    descriptions = [describe(entry) for entry in TABLE]
    lines = [
        "# Environments",
        "",
        "Written by `agentgym docs` from the docstrings: edit those.",
        "",
        "| id | kind | what it is | turns | extra |",
        "|---|---|---|---|---|",
    ]
    for d in descriptions:
        name = d.id.partition("/")[2]
        limit = "-" if d.max_turns is None else str(d.max_turns)
        lines.append(f"| `{name}` | {d.kind} | {d.summary} | {limit} | {d.extra or ''} |")
    for title, table in (("Baselines", _baselines), ("Speed", _speeds)):
        if results is not None and (rows := table(results)):
            lines += ["", f"## {title}", "", *rows]
    for cls, entries in _by_class().items():
        ids = ", ".join(
            f"`{entry.id}`" + (f" (`{given}`)" if (given := _arguments(entry)) else "")
            for entry in entries
        )
        body = (inspect.getdoc(cls) or "").replace("\n## ", "\n### ")
        lines += ["", f"## {cls.__name__}", "", ids, "", body]
    return "\n".join(lines) + "\n"


def _baselines(results: Path) -> list[str]:
    """Returns the table of random and expert play, and of what imitation alone learns."""
    found = _measured(results / "baselines.json")
    imitated = _measured(results / "imitation.json")
    if not found:
        return []
    lines = [
        "Mean reward with its 95 % confidence interval, and share of successes, by",
        "`benchmarks/baselines.py`. A multi-agent id is one seat against its default opponents.",
        "Imitation: a decoder of 0.2 million parameters that has imitated the expert on at most",
        "300 training tasks, five times over, on 100 test tasks, by `benchmarks/imitation.py`.",
        "",
        "| id | random, test | imitation, test | expert, test | random, train | expert, train "
        "| expert's turns | n |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for entry in TABLE:
        if (row := found.get(entry.name)) is None:
            continue
        cells = [
            _cell(row.get(f"{a}/{s}")) for s in ("test", "train") for a in ("random", "expert")
        ]
        imitation = imitated.get(entry.name, {}).get("imitation")
        cells.insert(1, "-" if imitation is None else _mean(**imitation))
        expert = row.get("expert/test")
        turns = "-" if expert is None else f"{expert['turns'][0]:.1f}"
        cells += [turns, f"{row['random/test']['n']}"]
        lines.append(f"| `{entry.name}` | {' | '.join(cells)} |")
    return lines


def _measured(file: Path) -> Any:
    if not file.exists():
        return {}
    return json.loads(file.read_text(encoding="utf-8"))["environments"]


def _mean(reward: float, success: float, **_: float) -> str:
    return f"{reward:.2f}, {100 * success:.0f} %"


def _cell(found: dict[str, Any] | None) -> str:
    if found is None:
        return "-"
    mean, _, high = found["reward"]
    return f"{mean:.2f} ± {high - mean:.2f}, {100 * found['success'][0]:.0f} %"


def _speeds(results: Path) -> list[str]:
    """Returns the table of speeds."""
    rows = _measured(results / "env_speed.json")
    if not rows:
        return []
    found = {row["id"].partition("/")[2]: row for row in rows}
    lines = [
        "Random admissible actions, one core, resets included: `benchmarks/env_speed.py`. Figures",
        "vary by a third from run to run; the reference was measured on the same class of machine.",
        "",
        "| id | steps/s | resets/s | start, s | MiB | reference |",
        "|---|---|---|---|---|---|",
    ]
    for entry in TABLE:
        if (row := found.get(entry.name)) is None:
            continue
        lines.append(
            f"| `{entry.name}` | {row['steps_per_second']:,.0f} | {row['resets_per_second']:,.0f} "
            f"| {row['start_seconds']:.2f} | {row['megabytes']:.0f} | {row['reference']} |"
        )
    return lines


def _arguments(entry: Entry) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in (entry.kwargs | entry.seat).items())


def _by_class() -> dict[type, list[Entry]]:
    classes: dict[type, list[Entry]] = {}
    for entry in TABLE:
        try:
            classes.setdefault(author_class(entry), []).append(entry)
        except MissingExtraError:  # the page lists it, without its docstring
            continue
    return classes
