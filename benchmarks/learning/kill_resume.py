"""A run that trains a program is killed at random times, and resumed to the same weights.

A run trains a program in processes of its own, on a CPU. It is then repeated, killed by SIGKILL at
a random time after its first episode, and resumed. Its weights and metrics must equal those of the
run that nobody killed, bit by bit, no process of the program may be left, and its port is free.

Prints the results and writes JSON.

    python benchmarks/learning/kill_resume.py [--kills 20]
"""

from __future__ import annotations

import hashlib
import itertools
import json
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from benchmarks.shared.result_files import RESULTS, settings_of, versions, write

POLL = 0.005
"""Seconds between two looks at a run."""
PATIENCE = 30.0
"""Seconds that the processes of a killed run have to end."""


@dataclass
class Settings:
    """Settings of the benchmark."""

    kills: int = 20
    """Runs that are killed, once each."""
    iterations: int = 4
    """Iterations of a run."""
    episodes: int = 12
    """Episodes per iteration, in groups of 4."""
    programs: int = 3
    """Programs at the same time."""
    out: Path = RESULTS / "kill_resume.json"
    """The result file."""


def train(settings: Settings, folder: Path) -> None:
    """Trains in a folder, or resumes the run that is there."""
    from agentgym.trainers import train

    os.setpgrp()  # signals of a terminal are for the parent
    train(
        "grpo",
        env_id="NumberLine-v0",
        env_kwargs={"size": 5, "max_turns": 5},
        model="nano",
        harness="benchmarks.shared.chat_program:play",
        constrain=True,
        iterations=settings.iterations,
        episodes_per_iteration=settings.episodes,
        num_envs=settings.programs,
        group_size=4,
        eval_episodes=0,
        save_every=1,
        device="cpu",
        threads=1,
        log_with=(),
        quiet=True,
        resume=True,
        run_dir=str(folder),
    )


def started(settings: Settings, folder: Path) -> Any:
    """Returns the process of a run, forked so that it need not import PyTorch again."""
    process = multiprocessing.get_context("fork").Process(target=train, args=(settings, folder))
    process.start()
    return process


def wait_for(condition: Callable[[], bool], seconds: float = 600.0) -> bool:
    """Returns whether a condition comes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL)
    return True


def descendants(pid: int) -> list[int]:
    """Returns the processes that a process has started, directly or not."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(words[1])
    found, new = [], [pid]
    while new:
        new = [child for child, parent in parents.items() if parent in new]
        found += new
    return found


def is_alive(pid: int) -> bool:
    """Returns whether a process runs, and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def outcome(folder: Path) -> tuple[str, list[dict[str, Any]]]:
    """Returns the digest of the weights of a run, and its metrics without times."""
    weights = hashlib.sha256()
    for file in sorted((folder / "policy").glob("*.safetensors")):
        weights.update(file.read_bytes())
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    shown = [{k: v for k, v in row.items() if not k.startswith("time/")} for row in rows]
    return weights.hexdigest(), shown


def uninterrupted(settings: Settings, folder: Path) -> float:
    """Runs to the end. Returns the seconds from the first finished episode on."""
    process = started(settings, folder)
    assert wait_for((folder / "journal" / "0.jsonl").exists)
    begun = time.monotonic()
    process.join()
    assert process.exitcode == 0
    return time.monotonic() - begun


def killed(settings: Settings, folder: Path, seconds: float) -> dict[str, Any]:
    """Runs, kills the run some time after its first episode, and resumes it."""
    process = started(settings, folder)
    assert wait_for((folder / "journal" / "0.jsonl").exists)
    time.sleep(seconds)
    programs = descendants(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    journal = folder / "journal" / "0.jsonl"
    episodes = len(journal.read_text().split("\n")) - 1 if journal.exists() else 0
    gone = wait_for(lambda: not any(map(is_alive, programs)), PATIENCE)
    again = started(settings, folder)
    again.join()
    return {
        "seconds": round(seconds, 3),
        "killed": process.exitcode == -signal.SIGKILL,
        "unsaved_episodes": episodes,
        "processes": len(programs),
        "ended": gone,
        "resumed": again.exitcode == 0,
    }


def main(settings: Settings) -> None:
    """Kills and resumes runs, and writes the file."""
    import agentgym.trainers.trainer  # noqa: F401  # once, before the forks

    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as place:
        whole = Path(place) / "whole"
        seconds = uninterrupted(settings, whole)
        expected = outcome(whole)
        rows: list[dict[str, Any]] = []
        for number in itertools.count():
            folder = Path(place) / str(number)
            row = killed(settings, folder, float(rng.uniform(0, seconds)))
            if not row.pop("killed"):
                continue  # it had ended
            rows.append({**row, "equal": outcome(folder) == expected})
            print(rows[-1], flush=True)
            if len(rows) == settings.kills:
                break
    about = {"settings": settings_of(settings), "versions": versions("torch")}
    write(settings.out, {**about, "runs": rows})


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
