"""Certificates of all environments: `agentgym certify` with one budget, in one process.

The file of results holds each certificate without times, so that a second run, or another machine,
writes the same file. Parts that the seconds of the budget cut short are named in it. Finished ids
are kept, so that an interrupted run continues.

The verdicts are packaged, for `agentgym list`.

    python -m benchmarks.certificates [--ids WebShop] [--again]
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tyro

from agentgym.certify import Budget, Report, certify
from agentgym.certify.processes import Processes
from agentgym.registration import verdicts
from agentgym.registration.entry import Entry
from agentgym.registration.ids import TABLE
from benchmarks.shared.result_files import RESULTS, kept, settings_of, versions, write

SHOWN_ACTIONS, SHOWN_LINES = 20, 3
"""Actions of an exploit, and lines of evidence of a check, that the file keeps."""
PROCESS_IDS = 8
"""Ids whose replays share processes, which keep the data of each."""


@dataclass
class Settings:
    """Settings of the certificates.

    Attributes:
        ids: certify only ids that contain one of these texts (empty: all).
        again: certify ids anew whose certificate is in the file.
        tasks: test tasks that are played.
        search: environment steps of the searches.
        prints: tasks per split whose transcripts are compared.
        seconds: time of the long parts of each id.
        out: file of the results.
    """

    ids: list[str] = field(default_factory=list)
    again: bool = False
    tasks: int = 20
    search: int = 2000
    prints: int = 100
    seconds: float = 300.0
    out: Path = RESULTS / "certificates.json"


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


def main(settings: Settings) -> None:
    """Certifies the environments and writes the file after each."""
    fixed = settings_of(settings, "ids", "again")
    rows = kept(settings.out, fixed)
    budget = Budget(
        tasks=settings.tasks,
        steps=settings.search,
        prints=settings.prints,
        seconds=settings.seconds,
    )
    entries = [
        entry
        for entry in TABLE
        if available(entry)
        and (not settings.ids or any(text in entry.id for text in settings.ids))
        and (settings.again or entry.id not in rows)
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
                if settings.out == RESULTS / "certificates.json":
                    write_verdicts(rows)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
