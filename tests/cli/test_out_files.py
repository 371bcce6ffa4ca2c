"""The files that commands write: a result replaces an earlier one, and nothing else is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym.cli import main as cli

EVAL = ("eval", "NumberLine-v0", "--episodes", "2")
GAME = ("eval", "KuhnPoker-v0", "--agents", "random", "--episodes", "1")
CERTIFY = ("certify", "NumberLine-v0", "--tasks", "2", "--search", "10", "--steps", "100")
RESULTS = {
    "eval --json": (*EVAL, "--json", "out.json"),
    "eval --agents --json": (*GAME, "--json", "out.json"),
    "eval --picture": (*GAME, "--picture", "out.svg"),
    "compare --json": ("compare", "saved.jsonl", "saved.jsonl", "--json", "out.json"),
    "certify --json": (*CERTIFY, "--json", "out.json"),
    "certify --openenv": (*CERTIFY, "--openenv", "out.json"),
    "view --out": ("view", "saved.jsonl", "--out", "out.html"),
    "view": ("view", "saved.jsonl"),
}


@pytest.mark.parametrize("command", RESULTS)
def test_a_command_can_be_repeated_and_replaces_its_result_alone(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    words = RESULTS[command]
    if "saved.jsonl" in words:
        assert cli.main([*EVAL, "--save", "saved.jsonl"]) == 0
    out = Path("saved.html" if command == "view" else words[-1])
    out.touch()  # as mktemp makes it
    status = cli.main(words)
    first = out.read_bytes()
    assert status < cli.WRONG_USE and first
    assert cli.main(words) == status
    timed = out.suffix == ".svg" or "--openenv" in words  # these hold a date and durations
    assert timed or out.read_bytes() == first
    for other in ('{"task": "train/0"}\n{"task": "train/1"}\n', '["train/0"]', "My notes.", "[3]"):
        out.write_text(other)
        capsys.readouterr()
        assert cli.main(words) == cli.WRONG_USE
        assert "is no earlier result of this command" in capsys.readouterr().err
        assert out.read_text() == other
    assert {each.name for each in tmp_path.iterdir()} <= {"saved.jsonl", out.name}
