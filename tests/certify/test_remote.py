"""Certificates of servers: what can be compared without an expert, and with the local one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra `serve`")

from agentgym.certify import Budget
from agentgym.certify.findings import DETERMINISM, ISOLATION, ORACLE, SNAPSHOTS
from agentgym.certify.remote import HOSTS, SEEDS, certify_url, is_url
from agentgym.cli.main import main
from agentgym.integrations.remote import RemoteError
from agentgym.registration.making import make_env
from agentgym.serving.server import Limits
from tests.certify.planted import Planted
from tests.serving.test_server import TOKEN, serving

FEW = Budget(tasks=4)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    flaws = {
        flaw: partial(Planted, flaw=flaw) for flaw in ("none", "unseeded", "sticky", "snapshot")
    }
    line = partial(make_env, "NumberLine-v0")
    makers = {"NumberLine_v0": line, "Wordle_v0": line, **flaws}
    for address, _ in serving(Limits(sessions=16), **makers):
        yield address


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTGYM_TOKEN", TOKEN)


def found(address: str, **env_kwargs: Any) -> dict[str, str]:
    """The status of each check of a server."""
    return {each.id: each.status for each in certify_url(address, env_kwargs, FEW).results}


def test_a_server_that_plays_as_here_passes_all_that_can_be_checked(url: str):
    report = certify_url(f"{url}/NumberLine-v0", budget=FEW)
    status = {each.id: each.status for each in report.results}
    made = {id for id, each in status.items() if each == "pass"}
    assert made == {"runtime.startup", SEEDS, DETERMINISM, ISOLATION, SNAPSHOTS, HOSTS}
    assert status[ORACLE] == report.verdict == "warn"
    assert report.players.keys() == {"nonsense", "random", "first listed", "last listed"}
    assert report.to_openenv()["target"].endswith("/NumberLine-v0")
    assert certify_url(f"{url}/NumberLine-v0", budget=FEW) == report


def test_another_environment_under_a_known_name_is_found(url: str):
    assert found(f"{url}/NumberLine-v0", size=3)[HOSTS] == "fail"
    assert found(f"{url}/Wordle-v0")[HOSTS] == "fail"


@pytest.mark.parametrize(
    ("flaw", "checks"),
    [("none", set()), ("unseeded", {DETERMINISM}), ("sticky", {DETERMINISM}),
     ("snapshot", {SNAPSHOTS})],
)  # fmt: skip
def test_planted_flaws_are_seen_from_outside(url: str, flaw: str, checks: set[str]):
    Planted.started.clear()  # by other tests of this process
    status = found(f"{url}/{flaw}")
    failed = {id for id, each in status.items() if each == "fail"}
    assert failed == checks
    assert status[HOSTS] == "skip"  # no environment of this name is known here


def test_a_server_whose_steps_fail_has_a_certificate():
    def make() -> Any:
        env = make_env("NumberLine-v0")
        env.step = lambda action: 1 / 0  # type: ignore[method-assign, assignment]
        return env

    [report] = [
        certify_url(address, budget=FEW) for address, _ in serving(Limits(sessions=16), Broken=make)
    ]
    status = {each.id: each.status for each in report.results}
    assert status["runtime.startup"] == "pass" and status[DETERMINISM] == "error"
    assert not report.players and report.verdict == "fail"


def test_the_command_takes_addresses(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "server.json"
    words = ["certify", f"{url}/NumberLine-v0", "--tasks", "3", "--json", str(out)]
    assert main(words) == 0
    assert "a server shows no solutions" in " ".join(capsys.readouterr().out.split())
    [saved] = json.loads(out.read_text())
    assert saved["verdict"] == "warn"
    assert main(["certify", f"{url}/unseeded", "--tasks", "3"]) == 1


def test_a_server_that_does_not_answer_is_named():
    assert is_url("https://host/Env") and not is_url("NumberLine-v0") and not is_url("module:Env")
    with pytest.raises(RemoteError, match="does not answer"):
        certify_url("http://127.0.0.1:9", budget=FEW)
