"""Runs and evaluations stay in their folder although an environment changes the working folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from agentgym.cli.main import main
from agentgym.envs.numbers.number_line import NumberLine


class Moving(NumberLine):
    """Changes the working folder in each step."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Plays a turn elsewhere."""
        os.chdir("/")
        return super().step(action)


gymnasium.register("Moving-v0", entry_point=Moving)
ENV = "tests.test_working_folder:Moving-v0"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_files_of_an_evaluation(folder: Path):
    assert main(["eval", ENV, "--episodes", "3", "--save", "s.jsonl", "--json", "r.json"]) == 0
    assert Path.cwd() != folder
    assert {path.name for path in folder.iterdir()} == {"s.jsonl", "r.json"}
    assert len((folder / "s.jsonl").read_text().splitlines()) == 3


@pytest.mark.slow
def test_the_folder_of_a_run(folder: Path):
    pytest.importorskip("torch", reason="needs the extra `train`")
    words = ["train", "grpo", "--env-id", ENV, "--iterations", "2", "--episodes-per-iteration", "4",
             "--group-size", "2", "--eval-episodes", "2", "--run-dir", "run", "--model", "nano",
             "--save-every", "1", "--device", "cpu", "--threads", "1"]  # fmt: skip
    assert main(words) == 0
    names = {path.name for path in (folder / "run").iterdir()}
    assert {"config.json", "metrics.jsonl", "checkpoints", "policy", "report.json"} <= names
    assert [path.name for path in folder.iterdir()] == ["run"]
    assert len(list((folder / "run" / "checkpoints").iterdir())) >= 1
