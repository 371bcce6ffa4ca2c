"""Behaviour cloning in every environment, to find environments that are too easy.

For every id with an expert, a decoder of 0.2 million parameters is trained by behaviour cloning on
training tasks and evaluated greedily on held-out tasks. In a game it plays one seat against the
default opponents. If it is as good as the expert, a harder configuration is needed to compare
learning methods. The number of demonstrations is the same everywhere, and smaller if episodes are
long. Existing results are kept unless --again is set.

    python benchmarks/imitation.py [--ids Ferry-v0 ...] [--demonstrations 300] [--jobs 4]
"""

from __future__ import annotations

import json
import multiprocessing
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from result_files import write
from rich.console import Console
from rich.table import Table

from agentgym.errors import AgentGymError
from agentgym.evaluation.runner import evaluate
from agentgym.making import make_env
from agentgym.registration import TABLE
from agentgym.trainers import train

RESULT = Path(__file__).parent / "results" / "imitation.json"


@dataclass
class Settings:
    """Settings of the benchmark."""

    ids: tuple[str, ...] = ()
    """Environment ids (empty: all with an expert)."""
    demonstrations: int = 300
    """Maximum number of demonstrations."""
    turns: int = 6000
    """Approximate maximum number of demonstrated turns. At least 20 episodes are played."""
    epochs: int = 5
    """Epochs over the demonstrations."""
    episodes: int = 100
    """Held-out tasks of the evaluation."""
    jobs: int = 1
    """Environments measured in parallel."""
    again: bool = False
    """Measure environments again that have results."""


def shape(name: str, episodes: int = 20) -> tuple[bool, int]:
    """Returns whether actions are listed, and the length of the expert's longest action."""
    env, longest = make_env(name), 0
    lists_actions = bool(env.reset(seed=0)[1]["admissible"])
    for seed in range(episodes):
        env.reset(seed=seed)
        over = False
        while not over and (action := env.unwrapped.expert()) is not None:  # type: ignore[attr-defined]
            longest = max(longest, len(action))
            over = any(env.step(action)[2:4])
    env.close()
    return lists_actions, longest


def cloning(name: str, demonstrations: int, turns: int) -> dict[str, Any]:
    """Returns the settings of behaviour cloning that depend on the environment.

    Args:
        name: id of the environment.
        demonstrations: maximum number of demonstrations.
        turns: approximate maximum number of demonstrated turns. At least 20 episodes are played.

    Raises:
        NoExpertError: if the environment has no expert.
    """
    length = evaluate(name, "expert", tasks=20, split="train").aggregate()["turns"].mean
    lists_actions, longest = shape(name)
    return {
        "bc_demonstrations": min(demonstrations, max(20, round(turns / length))),
        "constrain": lists_actions,
        "max_new_tokens": max(48, longest // 2),  # a token has more than two characters
    }


def measure(name: str, settings: Settings) -> dict[str, Any]:
    """Returns the evaluations of the cloned policy, the random agent and the expert."""
    begun = time.perf_counter()
    chosen = cloning(name, settings.demonstrations, settings.turns)
    with tempfile.TemporaryDirectory() as folder:
        found = train(
            "poad",
            env_id=name,
            model="nano",
            context="window",
            instructions=False,
            **chosen,
            bc_epochs=settings.epochs,
            bc_lr=3e-3,
            bc_batch_tokens=4096,
            iterations=0,
            eval_episodes=settings.episodes,
            eval_baselines=True,
            threads=1,
            device="cpu",
            quiet=True,
            run_dir=folder + "/run",
        )
        reports = {report.agent: report.aggregate() for report in found}
    seconds = round(time.perf_counter() - begun, 1)
    kept = {
        agent: {key: round(means[key].mean, 4) for key in ("reward", "success", "progress")}
        for agent, means in reports.items()
    }
    return {"seconds": seconds, "demonstrations": chosen["bc_demonstrations"], **kept}


def main(settings: Settings) -> None:
    """Measures the missing environments, then writes and prints all results."""
    known: dict[str, Any] = {}
    if RESULT.exists():
        known = json.loads(RESULT.read_text())["environments"]
    names = settings.ids or [entry.name for entry in TABLE if not entry.files]
    missing = [name for name in names if name not in known or settings.again]
    about = {"demonstrations": settings.demonstrations, "turns": settings.turns}
    about["passes"] = settings.epochs
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(settings.jobs, mp_context=spawn) as pool:
        begun = {pool.submit(measure, name, settings): name for name in missing}
        for done in as_completed(begun):
            name = begun[done]
            try:
                known[name] = done.result()
            except AgentGymError as error:
                print(f"{name}: {error}")
                continue
            found = {entry.name: known[entry.name] for entry in TABLE if entry.name in known}
            write(RESULT, {"settings": about, "environments": found})
    table = Table(title="Held-out tasks after behaviour cloning: reward (success)")
    for column in ("environment", "random", "behaviour cloning", "expert"):
        table.add_column(column, justify="left" if column == "environment" else "right")
    for name, found in known.items():
        cells = [
            f"{found[agent]['reward']:.2f} ({100 * found[agent]['success']:.0f} %)"
            for agent in ("random", "imitation", "expert")
        ]
        table.add_row(name, *cells)
    Console(width=100).print(table)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
