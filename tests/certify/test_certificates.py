"""Certificates of the registered ids: equal in another process, and with known open findings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentgym.certify.registry import BY_ID
from agentgym.certify.report import POLICY
from agentgym.registration.ids import TABLE
from agentgym.registration.verdicts import verdicts

ROOT = Path(__file__).parents[2]
CERTIFIED = 177
"""Least number of ids with a certificate. It only grows."""
IDS = tuple(
    f"AgentGym/{name}-v0"
    for name in ("NumberLine", "SearchQA", "SearchQA-Hard", "Werewolf-Menu", "RockPaperScissors")
)
"""Two share the data of their class, one has hidden roles, and one plays at the same time."""
SMALL = {"tasks": 3, "search": 40, "prints": 3, "turns": 20}
AGAIN = f"""
import json, sys
from agentgym.certify import Budget, certify
from agentgym.certify.processes import Processes
with Processes() as processes:
    for id in sys.argv[1:]:
        report = certify(id, None, Budget(**{SMALL}), processes=processes)
        print(json.dumps(report.to_json()))
"""


@pytest.fixture(scope="module")
def certificates() -> dict[str, Any]:
    text = (ROOT / "benchmarks" / "results" / "certificates.json").read_text(encoding="utf-8")
    return json.loads(text)["environments"]


def open_findings() -> set[tuple[str, str]]:
    file = ROOT / "docs" / "_scripts" / "open_findings.toml"
    rows = tomllib.loads(file.read_text(encoding="utf-8"))["finding"]
    return {(f"AgentGym/{id}", row["check"]) for row in rows for id in row["ids"]}


def test_open_findings_are_those_that_are_listed(certificates: dict[str, Any]):
    """A new one must be mended or declared, and a mended one leaves the list."""
    found = {
        (id, result["id"])
        for id, report in certificates.items()
        for result in report["results"]
        if result["status"] in ("fail", "error")
    }
    assert found == open_findings()


def test_the_list_of_environments_shows_the_verdicts_of_the_certificates(
    certificates: dict[str, Any],
):
    assert verdicts() == {id: report["verdict"] for id, report in certificates.items()}


def test_certificates_are_of_registered_ids_and_known_checks(certificates: dict[str, Any]):
    assert certificates.keys() <= {entry.id for entry in TABLE}
    assert len(certificates) >= CERTIFIED
    for report in certificates.values():
        assert {result["id"] for result in report["results"]} <= BY_ID.keys()


def certificates_elsewhere(ids: Sequence[str], hash_seed: int) -> dict[str, Any]:
    """Returns whole reports of ids, made one after the other in a process of their own."""
    ran = subprocess.run(
        [sys.executable, "-c", AGAIN, *ids],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": str(hash_seed)},
    )
    reports = map(json.loads, ran.stdout.splitlines())
    return {report["env"]: report for report in reports}


def test_certificates_are_equal_for_other_hash_seeds_and_in_another_order():
    one, other = certificates_elsewhere(IDS, 7), certificates_elsewhere(IDS[::-1], 42)
    assert one.keys() == other.keys() == {*IDS}
    for id in IDS:
        assert one[id] == other[id]
    assert any(report["exploit"] for report in one.values())


def test_the_committed_certificates_are_whole_and_of_these_checks(certificates: dict[str, Any]):
    for id, report in certificates.items():
        assert report["policy"] == POLICY, f"{id}: run benchmarks/certificates.py"
        assert not report["out_of_time"], id


def test_a_second_run_gave_the_same_certificates(certificates: dict[str, Any]):
    file = ROOT / "benchmarks" / "results" / "certificates_again.json"
    found = json.loads(file.read_text(encoding="utf-8"))
    assert found["ids"] == len(certificates)
    assert found["equal"] == found["ids"], found["different"]
