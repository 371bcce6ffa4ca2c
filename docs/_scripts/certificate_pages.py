"""The page of certificates, and the section of each environment's page."""

from __future__ import annotations

import functools
import inspect
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import project
from writing import table

from agentgym.registration.entry import Entry
from agentgym.registration.ids import TABLE
from benchmarks.certificates import SHOWN_ACTIONS

FILE = Path(__file__).with_name("open_findings.toml")
"""Failed checks that are known, with the reason for which they are open."""
HEADER = (
    "Id",
    "Verdict",
    "Findings",
    "Expert's return",
    "Expert's turns",
    "Worst exploit",
    "Its actions",
)
INTRO = """
A certificate is the result of 25 checks by `agentgym certify`: is an environment deterministic, do
its rewards and successes stand for solved tasks, does it give solutions away, and are its test
tasks new? An author declares a finding that is meant, with the reason. A failed check that is not
declared is open, and a test refuses any that is not listed here.

The *worst exploit* is the plan without success that earns most, found by a search on snapshots
that knows the future. `python -m benchmarks.certificates` makes all certificates again, and
`agentgym certify ID` makes one. Numbers of tasks and steps limit the work, and no clock.
"""
SHOWN = ("fail", "error", "warn", "declared")
"""The statuses that are findings, the worst first."""


@functools.cache
def open_findings() -> dict[tuple[str, str], str]:
    """Returns the reason of each open finding by name of the environment and id of the check."""
    rows = tomllib.loads(FILE.read_text(encoding="utf-8"))["finding"]
    return {(id, row["check"]): row["reason"] for row in rows for id in row["ids"]}


def certificates() -> dict[str, dict[str, Any]]:
    """Returns the certificates by full id."""
    return project.results("certificates")["environments"]


def page(families: Mapping[str, Sequence[Entry]], links: Mapping[str, str]) -> str:
    """Returns the page of all certificates.

    Args:
        families: the ids of each family, by its title.
        links: the name of each id with a link to its page.
    """
    found = certificates()
    count = Counter(row["verdict"] for row in found.values())
    lines = ["# Certificates", "", *inspect.cleandoc(INTRO).split("\n"), ""]
    lines.append(
        f"Of {len(found)} ids, {count['pass']} pass, {count['warn']} have warnings and "
        f"{count['fail']} have open failures. The other {len(TABLE) - len(found)} ids have no "
        "certificate yet, or need a package or files."
    )
    lines += _again() + _open()
    for title, entries in families.items():
        rows = [_row(entry, links[entry.name]) for entry in entries if entry.id in found]
        if rows:
            lines += ["", f"## {title}", "", *table(HEADER, rows, 4)]
    return "\n".join(lines) + "\n"


def section(entries: Iterable[Entry]) -> list[str]:
    """Returns the lines about the certificates of a class."""
    known = [entry for entry in entries if entry.id in certificates()]
    if not known:
        return []
    lines = ["", "## Certificate", "", "See [Certificates](../certificates.md).", ""]
    lines += table(HEADER, [_row(entry, f"`{entry.name}`") for entry in known], 4)
    notes = dict.fromkeys(note for entry in known for note in _notes(entry))
    return [*lines, "", *notes] if notes else lines


def _again() -> list[str]:
    """Returns the lines about a second run."""
    again = project.results("certificates_again")
    text = (
        f"Made again in another process, in another order and with another hash seed, "
        f"{again['equal']} of {again['ids']} certificates were equal"
    )
    others = ", ".join(id.partition("/")[2] for id in [*again["different"], *again["in one"]])
    return ["", f"{text}: not {others}." if others else f"{text}."]


def _open() -> list[str]:
    """Returns the section of open findings."""
    rows = [(f"`{name}`", f"`{check}`", why) for (name, check), why in open_findings().items()]
    if not rows:
        return []
    return ["", "## Open Findings", "", *table(("Id", "Check", "Reason"), rows)]


def _row(entry: Entry, name: str) -> tuple[str, ...]:
    report = certificates()[entry.id]
    expert, exploit = report["players"].get("expert"), report["exploit"]
    found = [
        f"{result['id'].partition('.')[2]} ({result['status']})"
        for status in SHOWN
        for result in report["results"]
        if result["status"] == status
    ]
    return (
        name,
        report["verdict"],
        ", ".join(found) or "none",
        "-" if expert is None else f"{expert['total']:.2f}",
        "-" if expert is None else f"{expert['turns']:.1f}",
        "-" if exploit is None else f"{exploit['return']:.2f}",
        "-" if exploit is None else _length(exploit["actions"]),
    )


def _length(actions: Sequence[str]) -> str:
    """Returns the number of actions of an exploit, of which the file keeps the first ones."""
    return f"{SHOWN_ACTIONS} or more" if len(actions) == SHOWN_ACTIONS else str(len(actions))


def _notes(entry: Entry) -> list[str]:
    """Returns a list item for each finding, with evidence or reason, and each part cut short."""
    report = certificates()[entry.id]
    found = [
        f"- `{result['id']}`, {result['status']}: {_note(entry, result)}."
        for status in SHOWN
        for result in report["results"]
        if result["status"] == status
    ]
    return found + [
        f"- The budget ended before all {part} of `{entry.name}`: {size}."
        for part, size in report["cut_short"].items()
    ]


def _note(entry: Entry, result: Mapping[str, Any]) -> str:
    reason = result.get("reason") or open_findings().get((entry.name, result["id"]))
    return reason or f"`{result['evidence'][0].replace('`', chr(39))}`"
