"""Self-play that becomes exploitable, and the remedies that its alarms name.

A new model of 0.1 million parameters learns one round of rock, paper, scissors, and one hand of
Kuhn poker, with `rae` and little entropy: by plain self-play ("mirror"), with a share of past
opponents that follows the alarms ("automatic"), with half of the games against them ("half"), and
close to a moving reference ("reference"). The exact exploitability is measured every few
iterations.

Prints a table and writes JSON. Finished runs are kept. It takes ten minutes on one core.

    python benchmarks/games/alarms.py [--seeds 3]
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from agentgym.evaluation.report import mean_interval
from agentgym.trainers import train
from agentgym.trainers.run.logger import read_metrics
from benchmarks.games.multiagent_settings import NANO
from benchmarks.shared.result_files import RESULTS, measured, settings_of, versions

GAMES: dict[str, dict[str, Any]] = {
    "RockPaperScissors-v0": {"max_turns": 1},
    "KuhnPoker-v0": {"hands": 1},
}
"""The games with their arguments."""
VARIANTS: dict[str, dict[str, Any]] = {
    "mirror": {"opponents": "mirror"},
    "automatic": {"opponents": ("mirror", "past:5=auto")},
    "half": {"opponents": ("mirror=0.5", "past:5=0.5")},
    "reference": {"opponents": "mirror", "kl_coef": 0.2, "kl_reference": "moving:10"},
}
"""Plain self-play, and the remedies."""


@dataclass
class Settings:
    """Settings of the benchmark."""

    iterations: int = 60
    """Iterations of each run."""
    episodes: int = 128
    """Games per iteration."""
    lr: float = 1e-3
    """Learning rate."""
    entropy_coef: float = 0.005
    """Weight of the entropy bonus."""
    every: int = 5
    """Iterations between evaluations, and between snapshots."""
    seeds: int = 3
    """Random seeds 0, 1, ..."""
    out: Path = RESULTS / "alarms.json"
    """Results."""


def measure(game: str, variant: str, seed: int, settings: Settings) -> dict[str, Any]:
    """Returns the exploitability of all evaluations of a run, and the share of past opponents."""
    options = NANO | VARIANTS[variant]
    if variant in ("automatic", "half"):
        options["snapshot_every"] = settings.every
    with tempfile.TemporaryDirectory() as name:
        train(
            "rae", **options | {
                "env_id": game, "env_kwargs": GAMES[game], "iterations": settings.iterations,
                "episodes_per_iteration": settings.episodes, "num_envs": settings.episodes,
                "lr": settings.lr, "entropy_coef": settings.entropy_coef, "eval_temperature": 1.0,
                "eval_every": settings.every, "eval_episodes": 2, "eval_exploitability": 2000,
                "save_every": 1000, "quiet": True, "seed": seed, "run_dir": name,
            },
        )  # fmt: skip
        rows = read_metrics(Path(name))
    values = [row["eval/exploitability"] for row in rows if "eval/exploitability" in row]
    found = {
        "exploitability": [round(value, 4) for value in values],
        "random": round(next(r[k] for r in rows if (k := "eval/exploitability_random") in r), 4),
        "entropy": [round(row["losses/entropy"], 3) for row in rows if "losses/entropy" in row],
    }
    shares = [row["pool/share"] for row in rows if "pool/share" in row and "losses/kl" in row]
    return found | ({"share": shares} if shares else {})


def last(run: Mapping[str, Any]) -> float:
    """Returns the mean exploitability of the last quarter of the evaluations of a run."""
    values = run["exploitability"]
    return fmean(values[-max(1, len(values) // 4) :])


def main(settings: Settings) -> None:
    """Measures all runs, prints a table and writes the results."""
    about = {"config": settings_of(settings, "seeds"), "versions": versions("torch")}
    names = [(g, v, s) for g in GAMES for s in range(settings.seeds) for v in VARIANTS]
    runs = {
        f"{game} {variant} {seed}": partial(measure, game, variant, seed, settings)
        for game, variant, seed in names
    }
    found: dict[str, list[dict[str, Any]]] = {}
    for name, run in measured(settings.out, about, "runs", runs):
        found.setdefault(name.rpartition(" ")[0], []).append(run)
    shown = Table("game", "self-play", "lowest", "last quarter", "by seed")
    for name, mine in found.items():
        ends = [last(run) for run in mine]
        mean = mean_interval(ends)
        low, high = (mean.mean if end is None else end for end in (mean.low, mean.high))
        lowest = fmean(min(run["exploitability"]) for run in mine)
        by_seed = ", ".join(f"{end:.3f}" for end in ends)
        shown.add_row(
            *name.split(" "), f"{lowest:.3f}", f"{mean.mean:.3f} [{low:.3f}, {high:.3f}]", by_seed
        )
    Console(width=100).print(shown)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
