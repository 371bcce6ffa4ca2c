"""A run whose trainer is killed in the middle of an episode, and resumed."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.gateway.test_harness_training import rows
from tests.helpers.launch import Child

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

KILLER = """
import os, signal, sys
from pathlib import Path
from agentgym.trainers.gateway.task import Task
from tests.gateway import episodes

asked, kill_at = Path(sys.argv[1]), int(sys.argv[2])
killed = asked.with_suffix(".killed")
first = episodes.ask

def ask(task, messages):
    with asked.open("ab") as file:
        file.write(b".")
    if 0 < kill_at <= asked.stat().st_size and not killed.exists():
        killed.touch()
        os.kill(os.getppid(), signal.SIGKILL)
    return first(task, messages)

episodes.ask = ask
episodes.chat(Task.of_environ())
"""
"""A program that kills the trainer once, before its n-th request, counted over all episodes."""
WORDS = """grpo --env-id NumberLine-v0 --env-kwargs size=5 max_turns=3 --model nano --group-size 2
--iterations 2 --episodes-per-iteration 4 --num-envs 2 --eval-episodes 0 --max-new-tokens 2
--save-every 1 --device cpu --threads 1 --seed 3 --log-with --quiet --resume"""


def train(folder: Path, script: Path, kill_at: int) -> int:
    """Trains in a process of its own, or resumes the run. Returns the exit code."""
    harness = f"python {script} {folder}.asked {kill_at}"
    words = [*WORDS.split(), "--run-dir", str(folder), "--harness", harness]
    return Child(["-m", "agentgym.trainers", *words]).wait()


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("program") / "killer.py"
    file.write_text(KILLER)
    return file


@pytest.fixture(scope="module")
def whole(script: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that is not killed. The tests only read it."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert train(folder, script, 0) == 0
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kill_at", [5, 17])
def test_a_run_killed_in_an_episode_is_repeated_bit_by_bit(
    kill_at: int, script: Path, whole: Path, tmp_path: Path
):
    killed = tmp_path / "killed"
    assert train(killed, script, kill_at) == -signal.SIGKILL
    assert train(killed, script, kill_at) == 0
    assert rows(killed) == rows(whole)
    weights = [folder / "policy" / "model.safetensors" for folder in (whole, killed)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
