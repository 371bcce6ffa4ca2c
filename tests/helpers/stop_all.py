"""Runs of several processes, of which one gets SIGTERM: `stop_all.py FOLDER`.

One run is stopped in behaviour cloning, one while it plays the episodes of an iteration, one in an
evaluation. Each is resumed, and each process writes the exit codes. A last run is not stopped.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from accelerate import PartialState

from agentgym.evaluation import runner
from agentgym.trainers.cli.train import main
from agentgym.trainers.imitation import behaviour_cloning
from agentgym.trainers.rollout import episode

from .train_all import quicken

PLACES: dict[str, tuple[Any, str, int]] = {
    "imitation": (behaviour_cloning, "clip_gradients", 6),
    "rollout": (episode.Play, "trajectory", 8 + 8 + 2),  # in the second iteration
    "evaluation": (runner.EpisodeRunner, "record", 4 + 2),  # the second one
}


def run(folder: Path) -> int:
    """Starts or resumes a run and returns its exit code."""
    flags = (
        "--env-id NumberLine-v0 --env-kwargs size=4 max_turns=4 --model nano --context current "
        "--no-instructions --constrain --iterations 2 --episodes-per-iteration 16 --num-envs 4 "
        "--eval-every 1 --eval-episodes 8 --device cpu --threads 1 --bc-demonstrations 8 "
        "--bc-epochs 3 --bc-batch-tokens 8192 --quiet --transcripts 0 --resume --log-with"
    ).split()
    return main(["poad", *flags, "--run-dir", str(folder)])


def stopped(folder: Path, place: str, heard: bool) -> list[int]:
    """Runs until a signal at a certain call of a function, and again to the end."""
    owner, name, count = PLACES[place]
    original, calls = getattr(owner, name), 0

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count and heard:
            os.kill(os.getpid(), signal.SIGTERM)
        return original(*args, **kwargs)

    setattr(owner, name, counted)
    first = run(folder)
    setattr(owner, name, original)
    return [first, run(folder)]


if __name__ == "__main__":
    target, rank = Path(sys.argv[1]), PartialState(cpu=True).process_index
    quicken()
    codes = {place: stopped(target / place, place, heard=rank == 1) for place in PLACES}
    codes["whole"] = [run(target / "whole")]
    (target / f"rank{rank}.json").write_text(json.dumps(codes))
