"""An agent that owns its loop learns as fast as the loop of the trainer.

A program of twenty lines plays `NumberLine-v0` as a chat, through the OpenAI-compatible address of
the gateway. With the same seeds, the trainer's own loop plays the same tasks. Both start from the
same clone of 32 demonstrations.

Prints a table and writes JSON. Finished runs are kept. The six runs take a few minutes on one core.

    python benchmarks/learning/own_loop.py [--seeds 3]
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from agentgym.evaluation.report import Report
from agentgym.trainers import train
from benchmarks.shared.chat_program import play
from benchmarks.shared.result_files import RESULTS, read, refuse_other, settings_of, versions, write

LOOPS = ("program", "trainer")


@dataclass
class Settings:
    """Settings of the benchmark."""

    recipe: str = "grpo"
    """The recipe."""
    size: int = 6
    """Numbers on the line."""
    turns: int = 8
    """Turn limit."""
    iterations: int = 30
    """Iterations of RL."""
    episodes: int = 64
    """Episodes per iteration, in groups of 8."""
    held_out: int = 100
    """Held-out episodes of an evaluation, with sampled actions."""
    seeds: int = 3
    """Random seeds 0, 1, ..."""
    out: Path = RESULTS / "own_loop.json"
    """The result file."""


def rewards(settings: Settings, loop: str, seed: int, folder: str) -> dict[str, list[float]]:
    """Returns the mean rewards on held-out tasks with their 95 % intervals, before and after."""
    program: dict[str, Any] = {"harness": play} if loop == "program" else {}
    reports = train(
        settings.recipe,
        env_id="NumberLine-v0",
        env_kwargs={"size": settings.size, "max_turns": settings.turns},
        model="nano",
        constrain=True,
        bc_demonstrations=32,
        bc_lr=2e-3,
        bc_batch_tokens=1024,
        iterations=settings.iterations,
        episodes_per_iteration=settings.episodes,
        num_envs=16,
        group_size=8,
        lr=5e-4,
        entropy_coef=0.02,
        eval_episodes=settings.held_out,
        eval_temperature=1.0,
        seed=seed,
        device="cpu",
        threads=1,
        log_with=(),
        quiet=True,
        run_dir=folder,
        **program,
    )
    return {name: _mean(report) for name, report in zip(("before", "after"), reports, strict=True)}


def _mean(report: Report) -> list[float]:
    found = report.aggregate()["reward"]
    assert found.low is not None and found.high is not None
    return [found.mean, found.low, found.high]


def run(settings: Settings) -> dict[str, Any]:
    """Runs what is missing, writes the results after each run, and returns them."""
    found = read(settings.out)
    facts = settings_of(settings, "seeds")
    refuse_other(settings.out, found.get("settings", facts), facts, "--out")
    runs = found.get("runs", {})
    for seed in range(settings.seeds):
        for loop in LOOPS:
            if (name := f"{loop} {seed}") in runs:
                continue
            with tempfile.TemporaryDirectory() as folder:
                runs[name] = rewards(settings, loop, seed, f"{folder}/run")
            results = {"settings": facts, "versions": versions("torch", "transformers")}
            write(settings.out, results | {"runs": runs})
    return runs


def table(runs: dict[str, dict[str, list[float]]]) -> Table:
    """Returns the results as a table."""
    shown = Table("run", "before", "after", title="Reward on held-out tasks, 95 % intervals")
    for name, each in runs.items():
        shown.add_row(name, *("{:.2f} [{:.2f}, {:.2f}]".format(*x) for x in each.values()))
    return shown


if __name__ == "__main__":
    Console().print(table(run(tyro.cli(Settings))))
