"""A process that trains ends when it is told to, whatever its environments do."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentgym.cli.main import main
from agentgym.trainers.policy.tiny import tiny_policy

ROOT = Path(__file__).parents[3]
FLAGS = (
    "--group-size 2 --iterations 3 --episodes-per-iteration 8 --num-envs 8 --eval-episodes 0 "
    "--max-new-tokens 2 --device cpu --threads 1 --log-with"
).split()


def command(folder: Path, env: str, workers: int, *arguments: str) -> list[str]:
    """Returns the words of a command that trains in an environment, without the program."""
    words = ["train", "grpo", *FLAGS, "--env-id", f"tests.helpers.hangs:{env}-v0"]
    words += ["--env-workers", str(workers), "--env-kwargs", "max_turns=2", *arguments]
    return [*words, "--model", str(folder / "model"), "--run-dir", str(folder / "run")]


def forked(words: list[str], output: int, errors: int) -> None:
    """Runs a command as a new process does. The process ends when its threads let it."""
    os.dup2(output, 1)
    os.dup2(errors, 2)
    os.closerange(3, max(output, errors) + 1)  # the pipe ends with this process
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1) for number in (1, 2))
    os.chdir(ROOT)
    warnings.simplefilter("default")
    sys.exit(main(words))


class Run:
    """A run in a process of its own, which waits for a step.

    The process is a copy of this one, which has imported everything. `anew`: it is started anew.
    """

    def __init__(self, folder: Path, env: str, workers: int, *arguments: str, anew: bool = False):
        self.errors = folder / "errors"
        # A new model would be made from episodes, whose steps would take an hour, too.
        tiny_policy("NumberLine-v0", size="nano").save(folder / "model")
        words = command(folder, env, workers, *arguments)
        reads, writes = os.pipe()
        with self.errors.open("wb") as errors:
            if anew:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "agentgym", *words],
                    cwd=ROOT,
                    env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
                    stdout=writes,
                    stderr=errors,
                )
            else:
                fork = multiprocessing.get_context("fork")
                self.process = fork.Process(target=forked, args=(words, writes, errors.fileno()))
                self.process.start()
        os.close(writes)
        self.output = open(reads)  # noqa: SIM115 - a process that writes to a closed pipe ends
        if "a step begins\n" not in iter(self.output.readline, ""):
            raise AssertionError(self.errors.read_text())

    @property
    def code(self) -> int | None:
        """The exit code, None while the process runs."""
        if isinstance(self.process, subprocess.Popen):
            return self.process.poll()
        return self.process.exitcode

    def signal(self, number: int) -> None:
        """Sends a signal."""
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def wait(self) -> int | None:
        """Waits for the end and returns the exit code, None if there is no end."""
        deadline = time.monotonic() + 60
        while self.code is None and time.monotonic() < deadline:
            time.sleep(0.05)
        return self.code

    def end(self) -> None:
        """Ends the process if it runs."""
        self.process.kill()
        self.wait()
        self.output.close()

    def wait_for(self, words: str) -> None:
        """Waits until the run has written some words."""
        deadline = time.monotonic() + 60
        while words not in self.errors.read_text():
            assert time.monotonic() < deadline, self.errors.read_text()
            assert self.code is None, self.errors.read_text()
            time.sleep(0.05)


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[list[Run]]:
    started: list[Run] = []
    yield started
    for run in started:
        run.end()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "workers"), [(signal.SIGTERM, 4), (signal.SIGINT, 0)])
def test_the_second_signal_ends_a_run_whose_environments_hang(number, workers, runs, tmp_path):
    runs.append(run := Run(tmp_path, "Hangs", workers))
    run.signal(number)
    run.wait_for("Waiting for `step` of Hangs in task 'train/")
    run.signal(number)
    assert run.wait() == 128 + signal.SIGINT
    errors = run.errors.read_text()
    assert "Stopping immediately, in the middle of `step` of Hangs in task" in errors
    assert "--resume continues" in errors


@pytest.mark.slow
def test_the_first_signal_alone_saves_a_run_whose_environments_hang(runs, tmp_path):
    runs.append(run := Run(tmp_path, "Hangs", 4, "patience=1.0"))
    run.signal(signal.SIGTERM)
    assert run.wait() == 128 + signal.SIGTERM
    assert "Stopped after iteration 0" in run.errors.read_text()


@pytest.mark.slow
def test_threads_of_an_environment_do_not_keep_a_process(runs, tmp_path):
    runs.append(run := Run(tmp_path, "KeepsThreads", 0, anew=True))
    for word in ("Stopping at the next safe point", "Stopped without waiting"):
        run.signal(signal.SIGINT)
        run.wait_for(word)
    assert run.wait() == 128 + signal.SIGINT
