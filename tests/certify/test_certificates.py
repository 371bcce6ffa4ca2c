"""Certificates of the registered ids: equal in another process, and with known open findings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from agentgym.certify import Budget, certify
from agentgym.certify.registry import BY_ID
from agentgym.registration.ids import TABLE
from agentgym.registration.verdicts import verdicts

ROOT = Path(__file__).parents[2]
CERTIFIED = 175
"""Least number of ids with a certificate. It only grows."""
IDS = ("AgentGym/NumberLine-v0", "AgentGym/RockPaperScissors-v0")
SMALL = {"tasks": 3, "search": 40, "prints": 3, "turns": 20, "seconds": 1e6}
AGAIN = f"""
import json
from agentgym.certify import Budget, certify
budget = Budget(**{SMALL}, clock=lambda: 0.0)
print(json.dumps([certify(id, None, budget).to_json() for id in {IDS}]))
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


def test_certificates_are_equal_in_another_process():
    budget = Budget(**SMALL, clock=lambda: 0.0)
    here = [certify(id, None, budget).to_json() for id in IDS]
    ran = subprocess.run(
        [sys.executable, "-c", AGAIN],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": "7"},
    )
    assert json.loads(ran.stdout) == json.loads(json.dumps(here))
