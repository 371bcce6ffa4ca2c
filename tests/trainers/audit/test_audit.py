"""`agentgym audit`: a small run, and runs that cannot be audited."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym.cli.command_line import INTERRUPTED
from agentgym.cli.main import main
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.trainers.api import train
from agentgym.trainers.audit.given import given_credit
from agentgym.trainers.audit.recorded import read_run
from agentgym.trainers.audit.report import CEILING, RUN, audit_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audited") / "run"
    train(
        "poad", env_id="NumberLine-v0", env_kwargs={"size": 5, "max_turns": 6}, constrain=True,
        iterations=2, episodes_per_iteration=12, transcripts=6, bc_demonstrations=4, bc_epochs=1,
        eval_episodes=2, save_every=1, keep=2, seed=3, run_dir=str(folder), quiet=True,
    )  # fmt: skip
    return folder


def test_a_run_is_audited_and_its_replay_equals_the_record(run: Path, capsys):
    assert main(["audit", str(run), "--continuations", "8", "--episodes", "4"]) == 0
    shown = capsys.readouterr().out
    assert all(each in shown for each in ("sign errors", RUN, "poad", CEILING, "critic:"))
    found = json.loads((run / "audit.json").read_text())
    assert found["largest_logprob_difference"] < 1e-3
    assert {RUN, "turn", "poad", CEILING} <= found["estimators"].keys()
    lines = [json.loads(line) for line in (run / "trajectories.jsonl").read_text().splitlines()]
    lengths = [len(line["turns"]) for line in lines if line["iteration"] == found["iteration"]]
    assert [len(each["turns"]) for each in found["episodes"]] == lengths[:4]


def test_an_audit_is_the_same_when_it_is_repeated(run: Path):
    once, again = (audit_run(run, continuations=4, episodes=2) for _ in range(2))
    assert once.to_json() == again.to_json()
    assert np.array_equal(once.played.returns, again.played.returns)


@pytest.mark.parametrize("every", [1, 9])
def test_continuations_end_at_the_turn_limit_of_their_iteration(tmp_path: Path, every: int):
    train(
        "poad", env_id="NumberLine-v0", env_kwargs={"size": 5, "max_turns": 30}, iterations=2,
        horizons=(2, 4), horizon_every=every, episodes_per_iteration=8, transcripts=8,
        eval_episodes=0, constrain=True, quiet=True, run_dir=str(tmp_path),
    )  # fmt: skip
    recorded, audit = read_run(tmp_path), audit_run(tmp_path, continuations=4)
    limit = 4 if every == 1 else 2
    assert recorded.max_turns == limit
    assert max(len(line["turns"]) for line in recorded.trajectories) == limit
    turns = [number for line in recorded.trajectories for number, _ in enumerate(line["turns"])]
    assert audit.played.env_steps <= 4 * sum(limit - number for number in turns)


def test_what_was_audited_before_an_error_is_shown_and_written_beside_an_earlier_audit(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    copy, calls = tmp_path / "run", []
    shutil.copytree(run, copy)
    (copy / "audit.json").unlink(missing_ok=True)
    step, lines = NumberLine.step, read_run(copy).trajectories
    first = [line["turns"] for line in lines][:3]

    def fails(env: NumberLine, action: str) -> Any:
        calls.append(action)
        if len(calls) > most:
            raise KeyboardInterrupt
        return step(env, action)

    monkeypatch.setattr(NumberLine, "step", fails)
    words = ["audit", str(copy), "--continuations", "4"]
    most = 4 * 6 * sum(map(len, first))
    assert main(words) == INTERRUPTED
    part = json.loads((copy / "audit.json").read_text())
    assert 0 < len(part["episodes"]) < len(lines)
    assert "sign errors" in capsys.readouterr().out
    most = 10**9
    assert main(words) == 0
    whole = json.loads((copy / "audit.json").read_text())
    count = len(part["episodes"])
    assert len(whole["episodes"]) == len(lines)
    assert whole["episodes"][:count] == part["episodes"]
    calls.clear()
    most = 4 * 6 * sum(map(len, first))
    assert main(words) == INTERRUPTED
    assert json.loads((copy / "audit.json").read_text()) == whole
    assert json.loads((copy / "audit.partial.json").read_text()) == part
    calls.clear()
    most = 1
    assert main(words) == INTERRUPTED


def last_return(lines: list[dict[str, Any]]) -> list[list[float]]:
    """Credit of another trainer: the return of the episode, on its last turn alone."""
    return [[0.0] * (len(line["turns"]) - 1) + [line["reward"]] for line in lines]


def test_credit_of_other_trainers_is_judged_on_the_same_turns(run: Path, tmp_path: Path, capsys):
    lines = [json.loads(line) for line in (run / "trajectories.jsonl").read_text().splitlines()]
    rows = [
        {"task": line["task"], "seed": line["seed"],
         "advantages": [turn["estimators"]["turn"][0] for turn in line["turns"]]}
        for line in reversed(lines)
    ]  # fmt: skip
    file = tmp_path / "others.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["--continuations", "4", "--episodes", "4", "--credit", str(file)]
    assert main(["audit", str(run), *words, f"{__name__}:last_return"]) == 0
    shown = capsys.readouterr().out
    assert all(each in shown for each in ("others", "last_return"))
    found = json.loads((run / "audit.json").read_text())["estimators"]
    assert found["others"] == found["turn"] and "last_return" in found
    name, credit = given_credit(f"{__name__}:last_return", lines)
    assert name == "last_return"
    assert credit.sum() == sum(line["reward"] for line in lines)


def test_lines_of_the_same_start_are_those_of_its_trajectories_in_order(tmp_path: Path):
    """Groups of episodes share a task and a seed."""
    turns = [{"reward": 0.0}, {"reward": 1.0}]
    lines = [{"task": task, "seed": 1, "turns": turns} for task in ("a", "b", "a")]
    file, given = tmp_path / "credit.jsonl", [[3.0, 4.0], [1.0, 2.0], [5.0, 6.0]]
    rows = [
        {"task": task, "seed": 1, "advantages": each, "note": "a\u2028b"}
        for task, each in zip("baa", given, strict=True)
    ]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\r\n \r\n" for row in rows)
    file.write_text(f"\ufeff{text}", encoding="utf-8")
    assert given_credit(str(file), lines)[1].tolist() == [1, 2, 3, 4, 5, 6]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows[:2]), encoding="utf-8")
    with pytest.raises(ConfigError, match="no line for 1 of 3 trajectories"):
        given_credit(str(file), lines)


def none_at_all(lines: list[dict[str, Any]]) -> None:
    """No credit."""


def of_episodes(lines: list[dict[str, Any]]) -> list[float]:
    """A number per trajectory."""
    return [line["reward"] for line in lines]


def unbounded(lines: list[dict[str, Any]]) -> list[list[float]]:
    """Numbers that are not finite."""
    return [[float("inf")] * len(line["turns"]) for line in lines]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (f"{__name__}:nothing", "--credit must name a module:function"),
        (f"{__name__}:none_at_all", "must return a sequence of numbers for each trajectory"),
        (f"{__name__}:of_episodes", "finite numbers, one per turn, for task .* got"),
        (f"{__name__}:unbounded", r"got \[inf"),
        ("nowhere.jsonl", "must have lines with task, seed and advantages"),
    ],
)
def test_credit_that_does_not_fit_is_explained(run: Path, source: str, message: str):
    with pytest.raises(ConfigError, match=message):
        audit_run(run, continuations=4, episodes=2, credit=[source])


def test_a_file_without_some_trajectories_is_explained(run: Path, tmp_path: Path):
    file = tmp_path / "some.jsonl"
    file.write_text('{"task": "other", "seed": 0, "advantages": [1]}\n')
    with pytest.raises(ConfigError, match="has no line for 2 of 2 trajectories, such as task"):
        audit_run(run, continuations=4, episodes=2, credit=[str(file)])


Change = Callable[[Path], None]


def without_checkpoints(run: Path) -> None:
    shutil.rmtree(run / "checkpoints")


def with_setting(**settings: Any) -> Change:
    def change(run: Path) -> None:
        path = run / "config.json"
        found = json.loads(path.read_text())
        found["config"] |= settings
        path.write_text(json.dumps(found))

    return change


def with_turn(**fields: Any) -> Change:
    def change(run: Path) -> None:
        path = run / "trajectories.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            line["turns"][0] |= fields
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without_checkpoints, "--keep"),
        (with_setting(max_staleness=1), "--max-staleness"),
        (with_setting(horizons=[3], horizon_every=0), "--horizon-every above 0"),
        (with_setting(opponents="mirror"), "--opponents scripted"),
        (with_setting(env_kwargs={"size": 7, "max_turns": 6}), "another version"),
        (with_turn(logprobs=[-9.0]), "Other weights"),
        (with_turn(advantages=[]), "policy-gradient recipe"),
        (lambda run: (run / "trajectories.jsonl").unlink(), "--transcripts"),
        (lambda run: (run / "config.json").unlink(), "settings"),
    ],
)
def test_a_run_that_cannot_be_audited_is_refused_with_the_remedy(
    run: Path, tmp_path: Path, change: Change, message: str
):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    change(copy)
    with pytest.raises(ConfigError, match=message):
        audit_run(copy, continuations=4, episodes=2)


def test_the_last_line_is_read_if_it_is_whole(run: Path, tmp_path: Path):
    """Editors may leave out its end, and a run that was killed leaves a part of it."""
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    file, known = copy / "trajectories.jsonl", read_run(run, episodes=99).trajectories
    text = file.read_text()
    for changed in (text.removesuffix("\n"), text + text.partition("\n")[0][:-1]):
        file.write_text(changed)
        assert read_run(copy, episodes=99).trajectories == known


def test_an_iteration_without_its_policy_is_refused(run: Path):
    with pytest.raises(ConfigError, match="Iteration 9"):
        audit_run(run, iteration=9)


@pytest.mark.parametrize("words", [["--continuations", "3"], ["--episodes", "0"]])
def test_too_few_continuations_or_episodes_are_refused(run: Path, words: list[str], capsys):
    assert main(["audit", str(run), *words]) == 2
    assert "must be at least" in capsys.readouterr().err
