"""Behaviour cloning in every environment, to find environments that are too easy.

For every id with an expert, a decoder of 0.2 million parameters is trained by behaviour cloning on
training tasks and evaluated greedily on held-out tasks. In a game it plays one seat against the
default opponents. If it is as good as the expert, a harder configuration is needed to compare
learning methods. The number of demonstrations is the same everywhere, and smaller if episodes or
prompts are long. There are fewer held-out tasks if episodes are long. Existing results are kept
unless --again is set. Other demonstrations, turns or epochs need another --out. Ids that cannot be
measured are written with the reason.

Rows without `characters` were measured with `--characters None --evaluated-turns None`.

    python benchmarks/learning/imitation.py [--ids Ferry-v0 ...] [--demonstrations 300] [--jobs 4]
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from agentgym.agents.basic.expert import NoExpertError
from agentgym.errors import MissingExtraError
from agentgym.evaluation.runner import evaluate
from agentgym.registration.entry import Entry
from agentgym.registration.ids import TABLE
from agentgym.registration.making import make_env
from agentgym.trainers import train
from benchmarks.shared.parallel_jobs import end, finished
from benchmarks.shared.result_files import RESULTS, kept, whole, write

RESULT = RESULTS / "imitation.json"
WINDOW = 3
"""Earlier turns in a prompt."""
LONGEST_PROMPT = 6000
"""Characters that fit into a prompt: 2,048 tokens of about three."""


@dataclass
class Settings:
    """Settings of the benchmark."""

    ids: tuple[str, ...] = ()
    """Environment ids (empty: all with an expert)."""
    demonstrations: int = 300
    """Maximum number of demonstrations."""
    turns: int = 6000
    """Approximate maximum number of demonstrated turns. At least 20 episodes are played."""
    characters: int | None = 500_000
    """Approximate maximum number of characters of the prompts of all demonstrated turns. At least 3
    episodes are played, also if these have more turns than `turns`. None: unlimited."""
    epochs: int = 5
    """Epochs over the demonstrations."""
    episodes: int = 100
    """Maximum number of held-out tasks of the evaluation."""
    evaluated_turns: int | None = 2000
    """Approximate maximum number of turns of an evaluation. At least 20 tasks are played. None:
    unlimited."""
    jobs: int = 1
    """Environments measured in parallel."""
    again: bool = False
    """Measure environments again that have results."""
    out: Path = RESULT
    """Results."""


@dataclass(frozen=True)
class Shape:
    """Form of an environment, from episodes of the expert.

    Attributes:
        lists_actions: whether actions are listed.
        longest: length of the longest action in characters.
        characters: mean number of characters of all prompts of an episode together.
    """

    lists_actions: bool
    longest: int
    characters: float


def shape(name: str, episodes: int = 20) -> Shape:
    """Returns the form of an environment."""
    env, longest, characters = make_env(name), 0, 0
    lists_actions = bool(env.reset(seed=0)[1]["admissible"])
    for seed in range(episodes):
        observation, _ = env.reset(seed=seed)
        earlier: list[int] = []
        over = False
        while not over and (action := env.unwrapped.expert()) is not None:  # type: ignore[attr-defined]
            longest = max(longest, len(action))
            characters += min(LONGEST_PROMPT, sum(earlier[-WINDOW:]) + len(observation))
            earlier.append(len(observation) + len(action))
            observation, _, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
    env.close()
    return Shape(lists_actions, longest, characters / episodes)


@cache
def mean_turns(name: str, agent: str) -> float:
    """Returns the mean length of an agent's episodes in 20 training tasks."""
    report = whole(evaluate(name, agent, tasks=20, split="train"))
    return report.aggregate()["turns"].mean


def cloning(
    name: str, demonstrations: int, turns: int, characters: int | None = None
) -> dict[str, Any]:
    """Returns the settings of behaviour cloning that depend on the environment.

    Args:
        name: id of the environment.
        demonstrations: maximum number of demonstrations.
        turns: approximate maximum number of demonstrated turns. At least 20 episodes are played.
        characters: approximate maximum number of characters of the prompts of all demonstrated
            turns. At least 3 episodes are played. None: unlimited.

    Raises:
        NoExpertError: if the environment has no expert.
    """
    found = min(demonstrations, max(20, round(turns / mean_turns(name, "expert"))))
    form = shape(name)
    if characters is not None:
        found = min(found, max(3, round(characters / form.characters)))
    return {
        "bc_demonstrations": found,
        "constrain": form.lists_actions,
        "max_new_tokens": max(48, form.longest // 2),  # a token has more than two characters
    }


def held_out(name: str, episodes: int, turns: int | None) -> int:
    """Returns the number of held-out tasks of an evaluation of about `turns` turns, at least 20."""
    if turns is None:
        return episodes
    length = (mean_turns(name, "random") + mean_turns(name, "expert")) / 2
    return min(episodes, max(20, round(turns / length)))


def measure(name: str, settings: Settings) -> dict[str, Any]:
    """Returns the evaluations of the cloned policy, the random agent and the expert."""
    begun = time.perf_counter()
    chosen = cloning(name, settings.demonstrations, settings.turns, settings.characters)
    episodes = held_out(name, settings.episodes, settings.evaluated_turns)
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
            eval_episodes=episodes,
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
    return {
        "seconds": seconds,
        "demonstrations": chosen["bc_demonstrations"],
        "characters": settings.characters,
        "episodes": episodes,
        **kept,
    }


def reason(entry: Entry, error: BaseException | None = None) -> str | None:
    """Returns the reason why an id has no result, None if there is no good one."""
    if entry.files:
        return "needs files of the user"
    if isinstance(error, MissingExtraError):
        return f"the extra `{entry.extra}` is not installed"
    if isinstance(error, NoExpertError):
        return "no scripted expert"
    return None


def main(settings: Settings) -> None:
    """Measures the missing environments, then writes and prints all results."""
    shared = {
        "demonstrations": settings.demonstrations,
        "turns": settings.turns,
        "passes": settings.epochs,
    }
    known, skipped = (kept(settings.out, shared, rows) for rows in ("environments", "skipped"))
    entries = {entry.name: entry for entry in TABLE}
    skipped |= {name: reason(entry) for name, entry in entries.items() if entry.files}
    names = settings.ids or [name for name, entry in entries.items() if not entry.files]
    missing = [name for name in names if name not in known or settings.again]
    about = shared | {
        "characters": settings.characters,
        "evaluated_turns": settings.evaluated_turns,
    }
    failed: dict[str, BaseException] = {}

    def save() -> None:
        found, reasons = (
            {name: rows[name] for name in entries if name in rows} for rows in (known, skipped)
        )
        write(settings.out, {"settings": about, "environments": found, "skipped": reasons})

    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(settings.jobs, mp_context=spawn)
    jobs = {name: (name, settings) for name in missing}
    for name, row in finished(pool, measure, jobs, failed):
        known[name] = row
        skipped.pop(name, None)
        save()
    reasons = {name: reason(entries[name], error) for name, error in failed.items()}
    if found := {name: why for name, why in reasons.items() if why}:
        skipped |= found
        save()
    show(known)
    end(name for name, why in reasons.items() if not why)


def show(known: Mapping[str, Any]) -> None:
    """Prints the rows of environments."""
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
