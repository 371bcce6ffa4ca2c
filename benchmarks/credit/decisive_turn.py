"""Whether the advantage of an estimator points at the turn that decides an episode.

The policy is that of `critic.py`. It plays groups of episodes on held-out tasks, and continuations
from the state before every turn, with fresh randomness of policy and environment. Their mean return
V gives the advantage of each turn without a critic:

    A*_t = r_t + V(s_{t+1}) - V(s_t),    V = 0 after the last turn

The decisive turn of an episode is the one with the largest |A*|, if this exceeds three standard
errors. Each estimator orders the turns of the episode by their advantage, in the direction of A*,
and the decisive turn should come first. The columns of the table:

- place: mean place of the decisive turn, from 0 (first) to 1 (last). 0.5 is chance, and the place
  under estimators with one advantage per episode.
- first: share of episodes in which it comes first. Ties share the place.
- chance: the same share for a random order.

The 95 % intervals are from a bootstrap over the starts of the groups.

Estimators with a critic use a token-level one ("state" in `critic.py`), fitted to the returns of
episodes on training tasks. "vine" uses continuations other than those of A*. The advantage of a
turn is that of its first token. Finished environments are kept. Prints tables and writes JSON.

    python benchmarks/credit/decisive_turn.py [--envs WebShop-v0]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from numpy.typing import ArrayLike, NDArray
from rich.console import Console
from rich.table import Table

from agentgym.trainers.credit.compare import side_by_side
from agentgym.trainers.critics.heads import TokenValueHead
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import FloatArray
from benchmarks.credit import critic_episodes
from benchmarks.credit.critic_episodes import clone, play
from benchmarks.credit.critic_fits import CRITICS, fit, interval
from benchmarks.shared.result_files import RESULTS, kept, settings_of, versions, write


@dataclass
class Settings(critic_episodes.Settings):
    """Settings of the benchmark."""

    envs: tuple[str, ...] = ("WebShop-v0", "Maze-v0", "TextCraft-v0")
    """Environments."""
    held_out: int = 64
    """Episodes on held-out tasks."""
    group: int = 8
    """Episodes with the same start."""
    continuations: int = 32
    """Continuations per state, for A* and for the estimator vine."""
    vine: int = 4
    """Number of these that are those of vine alone."""
    out: Path = RESULTS / "decisive_turn.json"
    """Results."""


def advantages(batch: Batch, returns: ArrayLike) -> FloatArray:
    """Returns one-step advantages of turns [M] from the returns of continuations [M, K]."""
    values = np.asarray(returns, np.float32).mean(axis=1)
    following = np.append(values[1:], 0.0)
    following[batch.turn_offsets[1:] - 1] = 0.0
    return (batch.rewards + following - values).astype(np.float32)


def decisive_turns(batch: Batch, returns: FloatArray) -> Iterator[tuple[slice, int, float]]:
    """Yields the turns of an episode, its decisive one and the sign of A*, if there is one.

    Args:
        batch: the episodes.
        returns: [M, K] returns of continuations from the state before each turn.
    """
    exact = advantages(batch, returns)
    noise = returns.var(axis=1, ddof=1) / returns.shape[1]
    for start, stop in zip(batch.turn_offsets, batch.turn_offsets[1:], strict=False):
        turn = int(start + np.abs(exact[start:stop]).argmax())
        error = np.sqrt(noise[turn] + (noise[turn + 1] if turn + 1 < stop else 0.0))
        if stop - start > 1 and abs(exact[turn]) > max(3 * error, 1e-6):
            yield slice(int(start), int(stop)), turn, float(np.sign(exact[turn]))


def place(scores: NDArray[np.floating], turn: int) -> tuple[float, float]:
    """Returns the place of a turn from 0 to 1 and its share of the first place.

    Args:
        scores: [T] scores of the turns of an episode, T > 1. The highest comes first.
        turn: the index of the turn.
    """
    ahead = float((scores > scores[turn] + 1e-6).sum())
    ties = float((np.abs(scores - scores[turn]) <= 1e-6).sum())
    return (ahead + (ties - 1) / 2) / (len(scores) - 1), 0.0 if ahead else 1 / ties


def measure(name: str, settings: Settings) -> dict[str, Any]:
    """Returns the scores of the estimators in an environment."""
    torch.set_num_threads(1)
    agent = clone(name, settings)
    played = play(name, agent, settings, group=settings.group, every=True)
    held, returns = played.held, played.returns
    model, _ = fit(CRITICS["state"], agent, played.train, settings, TokenValueHead)
    first = held.token_offsets[:-1]
    found = {k: v[first] for k, v in side_by_side(held, model.evaluate(held)).items()}
    found["vine"] = advantages(held, returns[:, : settings.vine])
    decisive = list(decisive_turns(held, returns[:, settings.vine :]))
    result: dict[str, Any] = {
        "episodes": len(held.trajectories),
        "continuations": returns.shape[1],
        "decided": len(decisive),
    }
    if not decisive:
        return {**result, "starts": 0, "chance": None, "estimators": {}}
    starts = held.groups[held.turn_trajectory[[turn for _, turn, _ in decisive]]]
    estimators = {}
    for estimator, each in found.items():
        places = [place(sign * each[span], turn - span.start) for span, turn, sign in decisive]
        columns = zip(("place", "first"), np.array(places).T, strict=True)
        estimators[estimator] = {k: interval(np.mean, starts, x) for k, x in columns}
    chance = float(np.mean([1 / (span.stop - span.start) for span, _, _ in decisive]))
    return {
        **result,
        "starts": len(np.unique(starts)),
        "turns": float(np.mean([span.stop - span.start for span, _, _ in decisive])),
        "chance": chance,
        "estimators": estimators,
    }


def main(settings: Settings) -> None:
    """Measures the missing environments, then writes and prints all results."""
    about = settings_of(settings, "envs", "runs")
    found = kept(settings.out, about)
    for name in settings.envs:
        if name not in found:
            found[name] = measure(name, settings)
            results = {"versions": versions("torch"), "settings": about, "environments": found}
            write(settings.out, results)
    for name, result in found.items():
        table = Table(title=f"{name}: {result['decided']} decided episodes")
        for column in ("estimator", "place", "first", "chance"):
            table.add_column(column, justify="left" if column == "estimator" else "right")
        rows = sorted(result["estimators"].items(), key=lambda row: row[1]["place"])
        for estimator, row in rows:
            place_of = "{:.2f} [{:.2f}, {:.2f}]".format(*row["place"])
            first = "{:.0%} [{:.0%}, {:.0%}]".format(*row["first"])
            table.add_row(estimator, place_of, first, f"{result['chance']:.0%}")
        Console(width=100).print(table)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
