"""Certificates of all environments: `agentgym certify` with one budget, in one process.

The file of results holds each certificate without times, so that a second run, or another machine,
writes the same file. Finished ids are kept, so that an interrupted run continues, unless `--ids`
names them or the version of the checks is another one. The verdicts are packaged, for
`agentgym list`.

A second run writes a file of its own, from the last id to the first: what the process holds of
other environments is different, too. `--compare` then counts the certificates that are equal.

    python -m benchmarks.certificates [--ids WebShop]
    PYTHONHASHSEED=7 python -m benchmarks.certificates --out again.json
    python -m benchmarks.certificates --compare again.json
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tyro

from agentgym.certify import Budget, Report, certify
from agentgym.certify.processes import Processes
from agentgym.certify.report import POLICY
from agentgym.registration import verdicts
from agentgym.registration.entry import Entry
from agentgym.registration.ids import TABLE
from benchmarks.shared.result_files import RESULTS, kept, read, settings_of, versions, write

FILE, COMPARED = RESULTS / "certificates.json", RESULTS / "certificates_again.json"
SHOWN_ACTIONS, SHOWN_LINES = 20, 3
"""Actions of an exploit, and lines of evidence of a check, that the file keeps."""
PROCESS_IDS = 8
"""Ids whose replays share processes, which keep the data of each."""


@dataclass
class Settings:
    """Settings of the certificates.

    Attributes:
        ids: certify ids that contain one of these texts, anew (empty: all that the file lacks).
        tasks: test tasks that are played.
        search: environment steps of the searches.
        prints: tasks per split whose transcripts are compared.
        steps: environment steps of the players and of the transcripts.
        compare: certify nothing, and compare with the certificates of this file.
        out: file of the results.
    """

    ids: list[str] = field(default_factory=list)
    tasks: int = 20
    search: int = 2000
    prints: int = 100
    steps: int = 200_000
    compare: Path | None = None
    out: Path = FILE


def available(entry: Entry) -> bool:
    """Returns whether the packages of an id are installed and it needs no files of the user."""
    installed = entry.package is None or importlib.util.find_spec(entry.package) is not None
    return installed and not entry.files


def saved(report: Report) -> dict[str, Any]:
    """Returns a certificate as the file holds it: without passed checks and long lists."""
    values = report.to_json()
    values["results"] = [r for r in values["results"] if r["status"] != "pass"]
    for result in values["results"]:
        result.pop("remedy", None)  # that of the check
        result["evidence"] = result.get("evidence", [])[:SHOWN_LINES]
    if values["exploit"] is not None:
        values["exploit"]["actions"] = values["exploit"]["actions"][:SHOWN_ACTIONS]
    return values


def write_verdicts(rows: dict[str, Any], path: Path = verdicts.FILE) -> None:
    """Writes the packaged file of verdicts."""
    lines = [f"{id} {row['verdict']}\n" for id, row in rows.items()]
    path.write_text("".join(lines), encoding="utf-8")


def compared(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Returns how many certificates of two runs are equal, and the others.

    Args:
        one: certificates by id.
        other: those of another run.

    Returns:
        The number of ids of either run and of equal certificates, the fields that differ by id,
        ids with one certificate only, and ids that the clock cut short, whose certificates
        may differ.
    """
    both = [id for id in one if id in other]
    fields = {id: [name for name in one[id] if one[id][name] != other[id].get(name)] for id in both}
    different = {id: names for id, names in fields.items() if names}
    return {
        "ids": len(one.keys() | other.keys()),
        "equal": len(both) - len(different),
        "different": different,
        "in one": sorted(one.keys() ^ other.keys()),
        "out of time": [id for id in both if one[id]["out_of_time"] or other[id]["out_of_time"]],
    }


def compare(settings: Settings) -> None:
    """Compares the certificates of two files, which must have the same settings."""
    assert settings.compare is not None
    fixed = settings_of(settings, "ids", "compare")
    files = {path: kept(path, fixed) for path in (settings.out, settings.compare)}
    for path in [path for path, rows in files.items() if not rows]:
        raise SystemExit(f"{path} has no certificates: run with --out {path} first.")
    found = compared(*files.values())
    print(f"{found['equal']} of {found['ids']} certificates are equal")
    for name in ("different", "in one", "out of time"):
        if found[name]:
            print(f"{name}: {found[name]}")
    if settings.out == FILE:
        about = [read(path)["versions"] for path in files]
        write(COMPARED, {"settings": fixed, "versions": about, **found})


def make(settings: Settings) -> None:
    """Certifies the environments and writes the file after each."""
    fixed = settings_of(settings, "ids", "compare")
    rows = {id: row for id, row in kept(settings.out, fixed).items() if row["policy"] == POLICY}
    budget = Budget(settings.tasks, settings.search, settings.prints, steps=settings.steps)
    entries = [
        entry
        for entry in TABLE[:: 1 if settings.out == FILE else -1]
        if available(entry)
        and (any(text in entry.id for text in settings.ids or [""]))
        and (settings.ids or entry.id not in rows)
    ]
    for start in range(0, len(entries), PROCESS_IDS):
        with Processes() as processes:
            for entry in entries[start : start + PROCESS_IDS]:
                rows[entry.id] = saved(certify(entry.id, None, budget, processes=processes))
                found = Counter(result["status"] for result in rows[entry.id]["results"])
                print(entry.id, rows[entry.id]["verdict"], dict(found), flush=True)
                rows = {each.id: rows[each.id] for each in TABLE if each.id in rows}
                result = {"settings": fixed, "versions": versions("numpy", "gymnasium")}
                write(settings.out, result | {"environments": rows})
                if settings.out == FILE:
                    write_verdicts(rows)


if __name__ == "__main__":
    chosen = tyro.cli(Settings, description=__doc__)
    make(chosen) if chosen.compare is None else compare(chosen)
