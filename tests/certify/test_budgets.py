"""Budgets: steps decide what a certificate holds, and the clock ends only what hangs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.certify import Budget, Report, certify
from agentgym.certify.budget import SLOW
from agentgym.certify.processes import Processes
from agentgym.certify.report import POLICY
from agentgym.cli.main import main
from agentgym.errors import ConfigError
from agentgym.registration.ids import TABLE
from benchmarks import certificates
from benchmarks.shared.result_files import write
from tests.certify.planted import CLOCK

NAME = "tests.certify.planted:Planted"
SMALL = Budget(tasks=6, search=60, prints=12, turns=20, seconds=1e6, clock=CLOCK)


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    with Processes() as started:
        yield started


def certificate(budget: Budget, processes: Processes, flaw: str = "none") -> Report:
    return certify(NAME, {"flaw": flaw}, budget, processes=processes)


def test_steps_cut_the_long_parts_short_and_the_certificate_names_them(processes: Processes):
    # The expert needs two steps of a task, and nonsense ten: three tasks, two tasks, three of each.
    report = certificate(replace(SMALL, steps=20), processes)
    parts = {"expert": "3 tasks", "players": "2 tasks", "fingerprints": "2 + 2 tasks"}
    assert report.cut_short == parts and not report.out_of_time
    assert report.players["expert"].tasks == 3 and report.players["nonsense"].tasks == 2
    assert certificate(SMALL, processes).cut_short == {}


def test_a_clock_of_any_speed_gives_the_same_certificate(processes: Processes):
    ticks = iter(range(10**9))
    fast = replace(SMALL, steps=30, clock=lambda: 1e-4 * next(ticks))
    assert certificate(fast, processes) == certificate(replace(SMALL, steps=30), processes)


def test_the_time_of_other_programs_makes_no_step_slow(processes: Processes):
    hours = iter(range(0, 10**9, 5))  # a loaded machine: five seconds pass at each look
    report = certificate(replace(SMALL, clock=lambda: next(hours), cpu=lambda: 0.0), processes)
    assert report.verdict == "pass" and not report.findings
    [slow] = certificate(replace(SMALL, cpu=lambda: next(hours)), processes).findings
    assert slow.evidence == ("one step of a hundred computes for more than 1 s",)


def test_what_the_clock_cuts_short_is_named_apart(processes: Processes):
    report = certificate(replace(SMALL, seconds=40), processes, "slow")
    assert report.out_of_time["expert"] == "5 tasks" and not report.cut_short
    assert {"players", "search", "fingerprints"} <= report.out_of_time.keys()


@pytest.mark.parametrize(
    ("flaw", "call"),
    [
        ("endless start", r"reset\(seed=\d+, options=\{'task': 'test/\d+'\}\)"),
        ("endless step", r"step\('zzz'\)"),
    ],
)
def test_a_call_that_never_returns_is_given_up_and_named(
    flaw: str, call: str, processes: Processes
):
    report = certificate(replace(SMALL, call_seconds=2.0), processes, flaw)
    assert report.verdict == "fail"
    stopped = [each for each in report.results if "took more than 2 s" in str(each.evidence)]
    assert len(stopped) >= 2  # the checks after the first one are given up at once
    assert all(re.search(f"took more than 2 s: {call}", each.evidence[0]) for each in stopped)


def test_slow_ids_are_registered_and_have_lower_limits():
    default = Budget()
    assert SLOW.keys() <= {entry.id for entry in TABLE}
    for id, limits in SLOW.items():
        assert all(value < getattr(default, name) for name, value in limits.items())
        assert default.of(id) == replace(default, **limits)
    assert replace(default, prints=2).of(next(iter(SLOW))).prints == 2
    assert default.of(NAME) == default


def test_the_lower_limits_of_a_slow_id_are_named(monkeypatch, processes: Processes):
    monkeypatch.setitem(SLOW, NAME, {"prints": 3, "search": 20})
    report = certificate(SMALL, processes)
    assert report.cut_short == {"search": "20 steps", "fingerprints": "3 + 3 tasks"}


def test_the_command_names_what_its_steps_cut_short(capsys: pytest.CaptureFixture[str]):
    words = ["--tasks", "4", "--search", "20", "--steps", "10", "--env-kwargs", "flaw=none"]
    main(["certify", NAME, *words])
    assert "The budget ended before all expert: 2 tasks." in capsys.readouterr().out
    with pytest.raises(ConfigError, match="steps must be at least 1, got 0"):
        Budget(steps=0)


def row(**values: object) -> dict[str, object]:
    return {"policy": POLICY, "verdict": "pass", "digest": "a", "out_of_time": {}} | values


def test_a_comparison_counts_equal_certificates_and_names_the_others():
    one = {"A": row(), "B": row(), "C": row(out_of_time={"players": "2 tasks"}), "D": row()}
    other = {"A": row(), "B": row(verdict="warn", digest="b"), "C": row(), "E": row()}
    assert certificates.compared(one, other) == {
        "ids": 5,
        "equal": 1,
        "different": {"B": ["verdict", "digest"], "C": ["out_of_time"]},
        "in one": ["D", "E"],
        "out of time": ["C"],
    }


def test_a_comparison_prints_its_result_and_needs_two_files(tmp_path: Path, capsys):
    fixed = {"tasks": 20, "search": 2000, "prints": 100, "steps": 200_000}
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    write(one, {"settings": fixed, "environments": {"A": row(), "B": row()}})
    settings = certificates.Settings(out=one, compare=other)
    with pytest.raises(SystemExit, match="has no certificates"):
        certificates.compare(settings)
    write(other, {"settings": fixed, "environments": {"A": row(), "B": row(verdict="fail")}})
    certificates.compare(settings)
    assert "1 of 2 certificates are equal\ndifferent: {'B': ['verdict']}" in capsys.readouterr().out


def test_finished_certificates_are_kept_and_those_of_other_checks_made_again(
    tmp_path: Path, monkeypatch
):
    made: list[str] = []

    def certified(id: str, *_: object, **__: object) -> Report:
        made.append(id)
        return Report(id, ())

    monkeypatch.setattr(certificates, "certify", certified)
    line, team = (e for e in TABLE if e.name in ("NumberLine-v0", "Team-NumberLine-v0"))
    monkeypatch.setattr(certificates, "TABLE", (line, team))
    settings = certificates.Settings(out=tmp_path / "some.json")
    certificates.make(settings)
    assert made == [team.id, line.id]  # another file than the committed one: the last id first
    certificates.make(settings)
    assert len(made) == 2
    certificates.make(replace(settings, ids=["Team"]))
    assert made[2:] == [team.id]
    monkeypatch.setattr(certificates, "POLICY", "another")
    certificates.make(settings)
    assert made[3:] == [team.id, line.id]
