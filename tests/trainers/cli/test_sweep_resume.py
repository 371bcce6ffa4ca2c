"""A sweep that is stopped and continued ends with the runs of an uninterrupted one, bit by bit."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from agentgym.cli.main import main
from agentgym.trainers.cli import subprocesses
from benchmarks.learning.kill_resume import outcome

from ...helpers.launch import Child

WORDS = (
    "sweep poad --env-id NumberLine-v0 --env-kwargs size=5 max_turns=6 --model nano --context "
    "current --no-instructions --constrain --iterations 4 --episodes-per-iteration 8 "
    "--eval-episodes 8 --transcripts 0 --device cpu --seeds 0 1 --jobs 2"
).split()
COUNT = 8 + 5
"""Episodes of a process before it waits for the signal: those of the first evaluation, and some."""
WAITS = f"""
import os, sys, time
from agentgym.trainers.rollout.episode import Play
sweep, number, told = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
original, played = Play.trajectory, 0
def counted(*args, **kwargs):
    global played
    played += 1
    if played == {COUNT}:
        if number:
            os.kill(sweep, number)
        while not os.path.exists(told):
            time.sleep(0.005)
    return original(*args, **kwargs)
if number >= 0:
    Play.trajectory = counted
from agentgym.trainers.cli.train import main
sys.exit(main(sys.argv[4:]))
"""
LIMIT, NEVER = 0, -1
"""In place of the number of the signal that a run sends to the sweep."""


class Forked:
    """A `Popen` of a run, which plays a part of an iteration and waits until it is told to stop."""

    number = NEVER
    ended: ClassVar[list[int]] = []

    def __init__(self, command: Sequence[str], env: Mapping[str, str], **_: Any):
        self._told = Path(f"{command[command.index('--run-dir') + 1]}.told")
        self._told.parent.mkdir(parents=True, exist_ok=True)
        self._told.unlink(missing_ok=True)
        about = [str(os.getpid()), str(int(self.number)), str(self._told)]
        self._child = Child(["-c", WAITS, *about, *command[3:]], env)

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *exc: object) -> None:
        self._child.process.kill()

    def terminate(self) -> None:
        self._child.process.terminate()
        self._told.touch()

    def communicate(self) -> tuple[None, str]:
        self.returncode = self._child.wait()
        self.ended.append(self.returncode)
        return None, self._child.errors


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
def test_a_sweep_that_is_stopped_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(subprocesses.subprocess, "Popen", Forked)
    monkeypatch.setattr(Forked, "ended", [])

    def sweep(name: str, number: int, *more: str) -> int:
        monkeypatch.setattr(Forked, "number", number)
        return main([*WORDS, "--out", str(tmp_path / name), *more])

    assert sweep("whole", NEVER) == 0
    assert sweep("parts", signal.SIGINT) == 128 + signal.SIGINT
    assert sweep("parts", LIMIT, "--minutes", "0.02") == 124
    assert len(Forked.ended) == 2 + 2 + 2 and not list((tmp_path / "parts").rglob("report.json"))
    assert sweep("parts", NEVER) == 0
    assert Forked.ended.count(0) == 2 + 2
    folders = [path.parent for path in sorted((tmp_path / "whole").rglob("report.json"))]
    assert len(folders) == 2
    for folder in folders:
        part = tmp_path / "parts" / folder.relative_to(tmp_path / "whole")
        assert outcome(part) == outcome(folder)
    whole, parts = (
        json.loads((tmp_path / name / "sweep.json").read_text())["groups"]
        for name in ("whole", "parts")
    )
    assert [{**row, "seconds": 0} for row in parts] == [{**row, "seconds": 0} for row in whole]
