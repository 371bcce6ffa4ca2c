"""Runs survive: kill, resume, signals, two processes in one folder, folders that cannot be used."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError

from agentgym.errors import CheckpointError
from agentgym.trainers.run.checkpoint import RunFolder, replace_folder, truncate_jsonl
from agentgym.trainers.run.logger import read_metrics

FLAGS = (
    "--env-id NumberLine-v0 --env-kwargs size=5 max_turns=6 --model nano --context current "
    "--no-instructions --constrain --iterations 6 --episodes-per-iteration 16 --eval-every 3 "
    "--eval-episodes 8 --device cpu --threads 1 --bc-demonstrations 8 --bc-epochs 1"
).split()


def command(folder: Path, *flags: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "agentgym.trainers",
        "poad",
        *FLAGS,
        "--run-dir",
        str(folder),
        *flags,
    ]


def run(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(folder, *flags), capture_output=True, text=True, timeout=300)


def curve(folder: Path) -> list[dict[str, Any]]:
    """What a run logged, without what depends on the clock."""
    return [
        {name: value for name, value in row.items() if not name.startswith("time/")}
        for row in read_metrics(folder)
    ]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "whole"
    done = run(folder)
    assert done.returncode == 0, done.stderr
    return folder


# The child kills itself the moment it has logged, or begins to write, what the marker says: a
# SIGKILL at a point that is the same in every test run.
KILL = """
import os, signal, sys
import agentgym.trainers.run.checkpoint as checkpoint
import agentgym.trainers.run.logger as log
place, count = sys.argv[1], int(sys.argv[2])
target = {"row": (log.RunLog, "row"), "save": (checkpoint, "replace_folder")}[place]
original = getattr(*target)
calls = 0
def counted(*args, **kwargs):
    global calls
    calls += 1
    if calls == count and place == "save":
        path, write = args
        def half(folder):
            (folder / "half").write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
        return original(path, half)
    result = original(*args, **kwargs)
    if calls == count:
        os.kill(os.getpid(), signal.SIGKILL)
    return result
setattr(*target, counted)
if place == "save":
    import agentgym.trainers.trainer as trainer
    trainer.replace_folder = counted
from agentgym.trainers.run.cli import main
main(["poad", *sys.argv[3:]])
"""


@pytest.mark.slow
@pytest.mark.parametrize(("place", "count"), [("row", 1), ("row", 4), ("save", 2), ("save", 6)])
def test_a_killed_run_goes_on_as_if_nothing_had_happened(
    place: str, count: int, uninterrupted: Path, tmp_path: Path
):
    folder = tmp_path / "killed"
    child = [sys.executable, "-c", KILL, place, str(count), *FLAGS, "--run-dir", str(folder)]
    killed = subprocess.run(child, capture_output=True, text=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    resumed = run(folder, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert curve(folder) == curve(uninterrupted)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_ends_cleanly(number: signal.Signals, tmp_path: Path):
    folder = tmp_path / "run"
    flags = command(folder, "--iterations", "1000")
    with subprocess.Popen(
        flags, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith("round    1"):
                break
        child.send_signal(number)
        _, errors = child.communicate(timeout=120)
    assert child.returncode == 128 + number
    assert "Stopping at the next safe point" in errors
    assert "--resume" in errors
    assert "Traceback" not in errors
    newest = RunFolder(folder, resume=True)
    assert newest.latest() is not None
    newest.close()


def test_other_settings_are_listed(uninterrupted: Path):
    changed = run(uninterrupted, "--resume", "--lr", "0.5", "--gamma", "0.5")
    assert changed.returncode == 2
    assert "lr: 0.0003 -> 0.5" in changed.stderr
    assert "gamma: 0.99 -> 0.5" in changed.stderr
    assert "Traceback" not in changed.stderr


def test_a_finished_run_is_not_overwritten(uninterrupted: Path):
    again = run(uninterrupted)
    assert again.returncode == 2
    assert "--resume" in again.stderr


@pytest.mark.parametrize("text", ["{", "[]", '{"config": 5}'])
def test_damaged_settings_are_named(text: str, tmp_path: Path):
    folder = RunFolder(tmp_path)
    (folder.checkpoints / "000001").mkdir(parents=True)
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"config\.json is damaged"):
        folder.record_config("poad", {})
    folder.close()


def test_two_runs_in_one_folder(tmp_path: Path):
    first = RunFolder(tmp_path / "run")
    with pytest.raises(CheckpointError, match=f"pid {os.getpid()}"):
        RunFolder(tmp_path / "run", resume=True)
    first.close()
    RunFolder(tmp_path / "run").close()


def test_a_folder_that_cannot_be_written(tmp_path: Path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(CheckpointError, match="cannot be written"):
        RunFolder(file / "run")


# What plain Python, safetensors and torch say when a disk is full.
FULL = (
    OSError(28, "No space left on device"),
    SafetensorError("I/O error: No space left on device (os error 28)"),
    RuntimeError("No space left on device: unexpected pos 576 vs 534"),
)


@pytest.mark.parametrize("error", FULL, ids=lambda error: type(error).__name__)
def test_a_checkpoint_is_whole_or_absent(error: Exception, tmp_path: Path):
    def fail(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise error

    target = tmp_path / "000001"
    replace_folder(target, lambda folder: (folder / "whole").touch())
    with pytest.raises(CheckpointError, match="No space left"):
        replace_folder(target, fail)
    assert [path.name for path in target.iterdir()] == ["whole"]
    assert [path.name for path in tmp_path.iterdir()] == ["000001"]


def test_the_newest_and_the_best_checkpoints_are_kept(tmp_path: Path):
    folder = RunFolder(tmp_path / "run")
    for iteration in range(6):
        folder.save(iteration, lambda path: (path / "x").touch(), keep=2, best=1)
    kept = sorted(path.name for path in folder.checkpoints.iterdir())
    folder.close()
    assert kept == ["000001", "000004", "000005"]


def test_logs_are_cut_back_to_the_checkpoint(tmp_path: Path):
    log = tmp_path / "metrics.jsonl"
    lines = [json.dumps({"iteration": i}) + "\n" for i in range(4)]
    log.write_text("".join(lines) + '{"iteration": 4, "re')
    truncate_jsonl(log, lambda line: line["iteration"] <= 2)
    assert log.read_text() == "".join(lines[:3])
