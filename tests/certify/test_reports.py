"""Reports: their verdict, OpenEnv's format, declared findings, and the command."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentgym.certify import Budget, Report, Result, certify
from agentgym.certify.certificate import check_declared, result_of
from agentgym.certify.findings import Finding
from agentgym.certify.processes import Processes
from agentgym.certify.registry import BY_ID, CHECKS
from agentgym.cli import certify_command
from agentgym.cli.main import main
from agentgym.errors import ConfigError
from tests.certify.planted import CLOCK, Planted

CYCLE = "semantic.positive_cycle"
NAME = "tests.certify.planted:Planted"
SMALL = Budget(tasks=3, search=60, prints=4, turns=20, seconds=1e6, clock=CLOCK)


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    with Processes() as started:
        yield started


@pytest.fixture(scope="module")
def report(processes: Processes) -> Report:
    return certify(NAME, {"flaw": "loop"}, SMALL, processes=processes)


def test_ids_have_the_form_of_openenv_and_are_not_repeated():
    assert len(BY_ID) == len(CHECKS)
    for check in CHECKS:
        level, _, name = check.id.partition(".")
        assert level in ("runtime", "semantic", "statistical") and name.replace("_", "a").isalpha()
        assert check.meaning and check.remedy


def test_checks_need_only_known_checks_and_no_circle():
    def depth(id: str, above: tuple[str, ...] = ()) -> None:
        assert id not in above
        for need in BY_ID[id].needs:
            depth(need, (*above, id))

    for check in CHECKS:
        depth(check.id)


@pytest.mark.parametrize(
    ("statuses", "verdict"),
    [
        (["pass", "skip"], "pass"),
        (["pass", "declared"], "pass"),
        (["warn", "declared"], "warn"),
        (["warn", "fail"], "fail"),
        (["pass", "error"], "fail"),
    ],
)
def test_the_verdict_is_the_worst_status(statuses: list, verdict: str):
    assert Report("x", tuple(Result("a.b", status) for status in statuses)).verdict == verdict


def test_a_report_is_json_without_times(report: Report):
    values = json.loads(json.dumps(report.to_json()))
    assert values["verdict"] == report.verdict == "fail"
    assert "seconds" not in json.dumps(values)


@pytest.mark.skipif(importlib.util.find_spec("openenv") is None, reason="needs the extra openenv")
def test_openenv_accepts_a_report(report: Report):
    from openenv.validation.report import ValidationReportV2  # type: ignore[import-not-found]

    assert ValidationReportV2.model_validate(report.to_openenv()).verdict == "fail"
    declared = Report("x", (Result("runtime.startup", "declared", ("a",), "b", "c"),))
    assert ValidationReportV2.model_validate(declared.to_openenv()).verdict == "warn"


def test_a_declared_finding_keeps_its_evidence_and_is_no_fault(monkeypatch, processes: Processes):
    monkeypatch.setattr(Planted, "declares", {CYCLE: "coins are a game"})
    report = certify(NAME, {"flaw": "loop"}, SMALL, processes=processes)
    [result] = [result for result in report.results if result.id == CYCLE]
    assert (result.status, result.reason) == ("declared", "coins are a game") and result.evidence
    assert report.verdict == "pass"


@pytest.mark.parametrize(
    "declares",
    [
        {"semantic.positive_cycles": "a reason"},
        {"runtime.episode_determinism": "a reason"},
        {"semantic.oracle_max": "a reason"},
        {"runtime.startup": "a reason"},
        {CYCLE: " "},
    ],
)
def test_a_declaration_of_no_finding_or_of_a_fault_is_refused(declares: dict[str, str]):
    with pytest.raises(ConfigError, match="declares"):
        check_declared("Mine-v0", declares)


def test_a_failure_is_worse_than_a_warning():
    findings = [Finding("a", "warn"), Finding("b")]
    assert result_of(BY_ID[CYCLE], findings, "").status == "fail"
    assert result_of(BY_ID[CYCLE], findings[:1], "").status == "warn"


def test_an_environment_that_does_not_start_fails_and_nothing_else_is_checked(monkeypatch):
    monkeypatch.setattr(Planted, "_start", lambda self, task: 1 / 0)
    report = certify(NAME, None, SMALL)
    assert report.results[0].status == "fail"
    assert "division by zero" in report.results[0].evidence[0]
    assert {result.status for result in report.results[1:]} == {"skip"}


@pytest.mark.parametrize(
    "name", ["NoSuch-v0", "no_such_module:Env", f"{NAME}s", "gymnasium:Env", "math:pi"]
)
def test_a_name_of_no_environment_is_refused(name: str):
    with pytest.raises((ConfigError, TypeError)):
        certify(name, None, SMALL)


def test_the_command_prints_a_table_of_80_columns_and_fails(tmp_path: Path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    small = ["--tasks", "3", "--search", "60", "--steps", "1000"]
    files = ["--json", str(tmp_path / "all.json"), "--openenv", str(tmp_path / "one.json")]
    assert main(["certify", NAME, "--env-kwargs", "flaw=loop", *small, *files]) == 1
    shown = capsys.readouterr().out
    assert CYCLE in shown and "take coin" in shown and "→ Pay a step of progress once" in shown
    assert max(map(len, shown.splitlines())) <= 80
    [saved] = json.loads((tmp_path / "all.json").read_text())
    assert saved["verdict"] == "fail"
    assert json.loads((tmp_path / "one.json").read_text())["report_schema_version"] == "2"


def test_the_command_needs_an_environment_and_one_for_openenv(capsys, tmp_path: Path):
    assert main(["certify"]) == 2
    assert main(["certify", "A-v0", "B-v0", "--openenv", str(tmp_path / "x.json")]) == 2
    assert main(["certify", "NumberLine-v0", "--tasks", "1"]) == 2
    assert "at least 2" in capsys.readouterr().err
    for out in ("--json", "--openenv"):  # before the checks, which take a while
        assert main(["certify", "NumberLine-v0", out, str(tmp_path / "none" / "x.json")]) == 2
        assert "There is no folder" in capsys.readouterr().err


def test_names_are_checked_first_and_finished_certificates_outlast_an_error(
    tmp_path, monkeypatch, capsys
):
    made, small = [], ["--tasks", "2", "--search", "10", "--steps", "50"]

    def certified(name: str, *args: Any, **kwargs: Any) -> Report:
        made.append(name)
        if len(made) == 2:
            raise OSError(28, "No space left on device")
        return certify(name, *args, **kwargs)

    monkeypatch.setattr(certify_command, "certify", certified)
    file = tmp_path / "certificates.json"
    for wrong in ("NumberLime-v0", "nowhere:Mine-v0", f"{__name__}:Nothing"):
        assert main(["certify", "NumberLine-v0", wrong, *small, "--json", str(file)]) == 2
        assert not made and not file.exists() and "error: " in capsys.readouterr().err
    assert main(["certify", "NumberLine-v0", "Bandit-v0", *small, "--json", str(file)]) == 2
    [found] = json.loads(file.read_text())
    assert found["env"] == "NumberLine-v0"
