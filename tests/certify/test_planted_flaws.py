"""Each planted flaw is found by its check and no other. An environment without one passes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentgym.certify import Budget, Report, certify
from agentgym.certify.processes import Processes
from tests.certify.planted import CLOCK

FLAWS = {
    "leak": "semantic.no_solution_leakage",
    "place": "semantic.answer_place",
    "constant": "semantic.canary_floor",
    "loop": "semantic.positive_cycle",
    "loop-agent": "semantic.positive_cycle",
    "unsolvable": "semantic.unsolvable_tasks",
    "unseeded": "runtime.episode_determinism",
    "hash": "runtime.episode_determinism",
    "clock": "runtime.episode_determinism",
    "sticky": "runtime.episode_isolation",
    "snapshot": "runtime.snapshot_fidelity",
    "state-key": "runtime.state_key_exact",
    "revoked": "semantic.success_consistent",
    "vacuous": "semantic.floor_gap",
    "passive": "semantic.nonsense_floor",
    "shortcut": "semantic.canary_floor",
    "gameable": "statistical.gameability_gap",
    "contaminated": "semantic.train_test_disjoint",
    "names": "semantic.train_test_disjoint",
    "duplicates": "semantic.duplicate_tasks",
    "slow": "semantic.resource_envelope",
}
"""The check that finds each flaw."""


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    with Processes() as started:
        yield started


def certificate(flaw: str, processes: Processes) -> Report:
    budget = Budget(tasks=12, search=400, prints=60, turns=20, seconds=1e6, clock=CLOCK, cpu=CLOCK)
    name = "tests.certify.planted:Planted"
    return certify(name, {"flaw": flaw}, budget, processes=processes)


def test_an_environment_without_a_flaw_passes_all_checks(processes: Processes):
    report = certificate("none", processes)
    assert report.verdict == "pass" and not report.findings, report.findings
    passed = [result.id for result in report.results if result.status == "pass"]
    assert {*FLAWS.values()} <= {*passed}


@pytest.mark.filterwarnings("ignore:.*not held out")  # of the flaw "names"
@pytest.mark.parametrize("flaw", FLAWS)
def test_a_planted_flaw_is_found_by_its_check_and_no_other(flaw: str, processes: Processes):
    report = certificate(flaw, processes)
    assert [result.id for result in report.findings] == [FLAWS[flaw]], report.findings


def test_a_certificate_is_the_same_when_it_is_made_again(processes: Processes):
    with Processes() as others:
        again = certificate("loop", others)
    assert certificate("loop", processes).to_json() == again.to_json()
