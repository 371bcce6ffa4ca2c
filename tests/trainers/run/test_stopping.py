"""A process that trains ends when it is told to, whatever its environments do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentgym.trainers.policy.tiny import tiny_policy

ROOT = Path(__file__).parents[3]
FLAGS = (
    "--group-size 2 --iterations 3 --episodes-per-iteration 8 --num-envs 8 --eval-episodes 0 "
    "--max-new-tokens 2 --device cpu --threads 1 --log-with"
).split()


class Run:
    """A run in a process of its own, which waits for a step."""

    def __init__(self, folder: Path, env: str, workers: int, *arguments: str):
        self.errors = folder / "errors"
        # A new model would be made from episodes, whose steps would take an hour, too.
        tiny_policy("NumberLine-v0", size="nano").save(folder / "model")
        places = ["--model", str(folder / "model"), "--run-dir", str(folder / "run")]
        env_flags = ["--env-id", f"tests.helpers.hangs:{env}-v0", "--env-workers", str(workers)]
        env_flags += ["--env-kwargs", "max_turns=2", *arguments]
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "agentgym", "train", "grpo", *FLAGS, *env_flags, *places],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line == "a step begins\n":
                return
        raise AssertionError(self.errors.read_text())

    def wait_for(self, words: str) -> None:
        """Waits until the run has written some words."""
        deadline = time.monotonic() + 60
        while words not in self.errors.read_text():
            assert time.monotonic() < deadline, self.errors.read_text()
            assert self.process.poll() is None, self.errors.read_text()
            time.sleep(0.05)


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[list[Run]]:
    started: list[Run] = []
    yield started
    for run in started:
        run.process.kill()
        run.process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "workers"), [(signal.SIGTERM, 4), (signal.SIGINT, 0)])
def test_the_second_signal_ends_a_run_whose_environments_hang(number, workers, runs, tmp_path):
    runs.append(run := Run(tmp_path, "Hangs", workers))
    run.process.send_signal(number)
    run.wait_for("Waiting for `step` of Hangs in task 'train/")
    run.process.send_signal(number)
    assert run.process.wait(timeout=60) == 128 + signal.SIGINT
    errors = run.errors.read_text()
    assert "Stopping immediately, in the middle of `step` of Hangs in task" in errors
    assert "--resume continues" in errors


@pytest.mark.slow
def test_the_first_signal_alone_saves_a_run_whose_environments_hang(runs, tmp_path):
    runs.append(run := Run(tmp_path, "Hangs", 4, "patience=1.0"))
    run.process.send_signal(signal.SIGTERM)
    assert run.process.wait(timeout=60) == 128 + signal.SIGTERM
    assert "Stopped after iteration 0" in run.errors.read_text()


@pytest.mark.slow
def test_threads_of_an_environment_do_not_keep_a_process(runs, tmp_path):
    runs.append(run := Run(tmp_path, "KeepsThreads", 0))
    for word in ("Stopping at the next safe point", "Stopped without waiting"):
        run.process.send_signal(signal.SIGINT)
        run.wait_for(word)
    assert run.process.wait(timeout=60) == 128 + signal.SIGINT
