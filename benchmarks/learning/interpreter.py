"""The 2 x 2 of interpreters: kept or reset in training, kept or reset in evaluation.

`PythonMath-v0` keeps variables between cells, and `PythonMath-Reset-v0` does not. A new model is
trained by behaviour cloning on the expert of one of them, which defines in one cell and uses in the
next, or does both in one cell. Each policy is evaluated in both environments on the same held-out
tasks: success, cells with an undefined name, and characters written per episode. A cell of the last
turn of a truncated episode is not counted.

After "Agents Learn Their Runtime: Interpreter Persistence as Training-Time Semantics", with new
models in place of pre-trained ones. Needs the extra `code`. Prints a table and writes JSON.
Finished seeds are kept.

    python benchmarks/learning/interpreter.py [--seeds 3]
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from agentgym.agents import Agent, View
from agentgym.evaluation.runner import evaluate
from agentgym.trainers import train
from agentgym.trainers.policy_agent.loading import load_agent
from benchmarks.shared.result_files import RESULTS, kept, settings_of, versions, whole, write

IDS = {"kept": "PythonMath-v0", "reset": "PythonMath-Reset-v0"}
MEASURES = ("success", "missing_names", "characters")


@dataclass
class Settings:
    """Settings of the benchmark."""

    demonstrations: int = 300
    """Episodes of the expert."""
    epochs: int = 10
    """Epochs over the demonstrations."""
    episodes: int = 100
    """Held-out tasks of an evaluation."""
    seeds: int = 3
    """Random seeds 0, 1, ..."""
    out: Path = RESULTS / "interpreter.json"
    """Results."""


class Counter:
    """An agent that counts undefined names and characters of another agent's episodes."""

    def __init__(self, agent: Agent):
        self.agent, self.name = agent, agent.name
        self.wrap = getattr(agent, "wrap", ())

    def act(self, views: Sequence[View]) -> list[str]:
        """Returns the other agent's action for each view."""
        actions = list(self.agent.act(views))
        for view, action in zip(views, actions, strict=True):
            view.costs["missing_names"] = view.info["missing_names"]
            view.costs["characters"] += len(action)
        return actions


def cloned(env_id: str, seed: int, settings: Settings, folder: str) -> Agent:
    """Returns a policy that imitates the expert of an environment."""
    train(
        "poad", env_id=env_id, model="nano", context="window", instructions=False,
        bc_demonstrations=settings.demonstrations, bc_epochs=settings.epochs, bc_lr=3e-3,
        bc_batch_tokens=4096, max_new_tokens=192, iterations=0, eval_episodes=0, seed=seed,
        threads=1, device="cpu", quiet=True, log_with=(), run_dir=folder,
    )  # fmt: skip
    return load_agent(folder, temperature=0.0)


def measure(agent: Agent, env_id: str, settings: Settings) -> dict[str, float]:
    """Returns the means of an agent's episodes in an environment."""
    report = whole(evaluate(env_id, Counter(agent), tasks=settings.episodes))
    means = {"success": report.aggregate()["success"].mean}
    for name in MEASURES[1:]:
        means[name] = float(np.mean([episode.costs[name] for episode in report.episodes]))
    return {name: round(mean, 4) for name, mean in means.items()}


def main(settings: Settings) -> None:
    """Trains and evaluates all policies, prints a table and writes the results."""
    config = settings_of(settings, "seeds")
    found: dict[str, Any] = kept(settings.out, config, "cells") or {
        f"{a}/{b}": {name: [] for name in MEASURES} for a in IDS for b in IDS
    }
    done = len(found["kept/kept"]["success"])
    for seed in range(done, settings.seeds):
        for trained, env_id in IDS.items():
            with tempfile.TemporaryDirectory() as folder:
                agent = cloned(env_id, seed, settings, folder + "/run")
                for run, other in IDS.items():
                    for name, mean in measure(agent, other, settings).items():
                        found[f"{trained}/{run}"][name].append(mean)
        write(settings.out, {"config": config, "versions": versions("torch"), "cells": found})
    shown = Table("interpreter in training", "in evaluation", *MEASURES)
    for cell, means in found.items():
        texts = (", ".join(f"{mean:.2f}" for mean in means[name]) for name in MEASURES)
        shown.add_row(*cell.split("/"), *texts)
    Console(width=100).print(shown)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
