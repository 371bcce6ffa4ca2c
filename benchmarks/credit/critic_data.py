"""From which episodes a critic learns the values of a policy.

The policy, the states and their continuations are those of `critic.py`. Each row fits a critic to
episodes on training tasks, with about the same number of tokens, at least one epoch:

- 300, 1,000 and 3,000 episodes of the policy, for critics that read the hidden state of the
  environment in place of the prompt ("state") or beside it ("hidden").
- the same with a two-hot head (`--critic-head two_hot`).
- as many episodes of the expert, of an expert that takes a random action in three turns of ten, and
  of random actions, and equal parts of all four. A critic is then fitted before the policy plays.

The columns are the explained variance of the returns of the policy's continuations, and the
correlation with them, which a wrong mean or scale does not lower. The 95 % intervals are from a
bootstrap over held-out episodes, for one seed of episodes and fits. Finished environments are kept.
Prints a table and writes JSON.

    python benchmarks/credit/critic_data.py [--envs WebShop-v0]
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table

from agentgym.agents.basic.expert import ExpertAgent
from agentgym.agents.basic.random import RandomAgent
from agentgym.agents.basic.view import View
from agentgym.trainers.critics.two_hot import BINS
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.update.metrics import correlation
from benchmarks.credit import critic_episodes
from benchmarks.credit.critic_episodes import Player, clone, play
from benchmarks.credit.critic_fits import CRITICS, explained, fit, interval, possible
from benchmarks.shared.figure_results import interval as limits
from benchmarks.shared.result_files import RESULTS, measured, settings_of, versions

CHOSEN = {
    "state": CRITICS["state"],
    "state, two-hot": replace(CRITICS["state"], bins=BINS),
    "hidden": CRITICS["hidden"],
}
ROWS = (
    ("state", "policy", 10),
    ("state", "policy", 3),
    ("state", "policy", 1),
    ("state, two-hot", "policy", 10),
    ("state, two-hot", "policy", 1),
    ("state", "expert", 1),
    ("state", "noisy expert", 1),
    ("state", "random", 1),
    ("state", "all four", 1),
    ("hidden", "policy", 10),
    ("hidden", "policy", 1),
)
"""Critic, player, and the divisor of the largest number of episodes."""


@dataclass
class Settings(critic_episodes.Settings):
    """Settings of the benchmark."""

    envs: tuple[str, ...] = ("WebShop-v0", "TextCraft-v0")
    """Environments, with admissible actions."""
    most: int = 3000
    """Largest number of episodes on training tasks."""
    noise: float = 0.3
    """Probability of a random action of the noisy expert."""
    out: Path = RESULTS / "critic_data.json"
    """Results."""


class NoisyExpert:
    """The expert, with random actions.

    Args:
        noise: probability of a random action.
    """

    name = "noisy expert"

    def __init__(self, noise: float):
        self.noise = noise

    def act(self, views: Sequence[View]) -> list[str]:
        """Returns an action for each view."""
        expert, random = ExpertAgent(), RandomAgent()
        return [
            (random if view.rng.random() < self.noise else expert).act([view])[0] for view in views
        ]


def played_by(who: str, player: Player, settings: Settings) -> Sequence[Trajectory]:
    """Returns the episodes of a player of `ROWS`."""
    count = settings.most
    if who == "policy":
        return player.episodes("train", count).trajectories
    if who == "all four":
        some = replace(settings, most=count // 4)
        kinds = ("policy", "expert", "noisy expert", "random")
        return [each for kind in kinds for each in played_by(kind, player, some)]
    noise = {"expert": 0.0, "noisy expert": settings.noise, "random": 1.0}[who]
    return player.episodes("train", count, teacher=NoisyExpert(noise)).trajectories


def measure(name: str, settings: Settings) -> dict[str, Any]:
    """Returns the explained variances and correlations of the rows in an environment."""
    torch.set_num_threads(1)
    begun = time.process_time()
    agent = clone(name, settings)
    played = play(name, agent, settings)
    held, states, returns = played.held, played.states, played.returns
    episode = held.turn_trajectory[states]
    player = Player(name, agent, settings.seed)
    episodes = cache(lambda who: played_by(who, player, settings))
    rows = {}
    for critic, who, part in ROWS:
        count = settings.most // part
        train = Batch.of(episodes(who)[:count])
        model, epochs = fit(CHOSEN[critic], agent, train, settings)
        values = model.predict(held)[states]
        rows[f"{critic}: {count}, {who}"] = {
            "explained": interval(explained, episode, values, returns),
            "correlation": interval(_correlation, episode, values, returns),
            "states": train.num_turns,
            "return": round(float(np.mean([t.episode_return for t in train.trajectories])), 4),
            "epochs": epochs,
        }
    player.pool.close()
    return {
        "possible": interval(possible, episode, returns),
        "rows": rows,
        "cpu_seconds": round(time.process_time() - begun, 1),
    }


def _correlation(values: np.ndarray, returns: np.ndarray) -> float:
    """Returns the correlation of values [S] with the mean returns of continuations [S, K]."""
    return correlation(values, returns.mean(axis=1))


def main(settings: Settings) -> None:
    """Measures the missing environments, then writes and prints all results."""
    about = {"versions": versions("torch"), "settings": settings_of(settings, "envs", "runs")}
    measures = {name: lambda name=name: measure(name, settings) for name in settings.envs}
    for name, result in measured(settings.out, about, "environments", measures):
        title = f"{name}: best possible {limits(result['possible'])}"
        table = Table("critic", "explained", "correlation", "states", "epochs", title=title)
        for row, found in result["rows"].items():
            numbers = str(found["states"]), str(found["epochs"])
            table.add_row(row, limits(found["explained"]), limits(found["correlation"]), *numbers)
        Console(width=110).print(table)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
