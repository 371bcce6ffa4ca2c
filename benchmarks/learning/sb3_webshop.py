"""MaskablePPO of sb3-contrib on WebShop, through the wrappers.

Texts are encoded as hashed words. By default, each admissible action is also described by features
of its match with the task (`EncodeObservation`). The policy is the default network of
Stable-Baselines3 with two layers of 64 units. Training and test tasks are disjoint, and random
agent and expert are evaluated on the same test tasks. Prints a table and writes JSON.

    python benchmarks/learning/sb3_webshop.py [--steps 300000] [--no-describe-actions]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table
from sb3_contrib import MaskablePPO
from stable_baselines3.common.env_util import make_vec_env

from agentgym.wrappers import AdmissibleAction, EncodeObservation
from benchmarks.shared.result_files import RESULTS, settings_of, versions, write

Choice = Callable[[AdmissibleAction, np.ndarray], int]


@dataclass
class Settings:
    """Settings of the benchmark.

    Attributes:
        steps: environment steps of training.
        evaluations: number of evaluations during training.
        episodes: test tasks per evaluation.
        envs: environments stepped in parallel.
        size: number of hash buckets for words.
        max_actions: maximum number of admissible actions.
        describe_actions: whether the observation contains features of the actions.
        seed: seed of the network, the order of tasks and the random agent.
        out: file of the results.
    """

    steps: int = 300_000
    evaluations: int = 6
    episodes: int = 200
    envs: int = 8
    size: int = 256
    max_actions: int = 30
    describe_actions: bool = True
    seed: int = 0
    out: Path = RESULTS / "sb3_webshop.json"


def make(settings: Settings, split: str) -> AdmissibleAction:
    """Makes the shop with array observations and discrete actions."""
    env = gymnasium.make("AgentGym/WebShop-v0", split=split)
    described = settings.max_actions if settings.describe_actions else 0
    encoded = EncodeObservation(env, size=settings.size, max_actions=described)
    return AdmissibleAction(encoded, settings.max_actions, overflow="first")


def play(settings: Settings, choose: Choice) -> dict[str, float]:
    """Plays the first test tasks once each; returns means over the episodes."""
    env = make(settings, "test")
    tasks = env.unwrapped.tasks.test[: settings.episodes]  # type: ignore[attr-defined]
    rewards, successes, turns = [], [], []
    for task in tasks:
        observation, info = env.reset(seed=settings.seed, options={"task": task})
        reward, ended = 0.0, False
        while not ended:
            number = choose(env, observation)
            observation, reward, terminated, truncated, info = env.step(number)
            ended = terminated or truncated
        rewards.append(reward)  # the shop rewards the purchase only
        successes.append(info["success"])
        turns.append(info["turn"])
    error = float(np.std(rewards) / np.sqrt(len(rewards)))
    return {
        "reward": float(np.mean(rewards)),
        "standard_error": error,
        "success": float(np.mean(successes)),
        "turns": float(np.mean(turns)),
    }


def baselines(settings: Settings) -> dict[str, dict[str, Any]]:
    """Returns the results of the random agent and the expert."""
    rng = np.random.default_rng(settings.seed)

    def at_random(env: AdmissibleAction, _: np.ndarray) -> int:
        return int(rng.choice(np.flatnonzero(env.action_masks())))

    def as_expert(env: AdmissibleAction, _: np.ndarray) -> int:
        number = env.expert()
        assert number is not None
        return number

    return {"random": play(settings, at_random), "expert": play(settings, as_expert)}


def train(settings: Settings) -> dict[str, dict[str, Any]]:
    """Trains and evaluates the policy; returns one row per evaluation."""
    envs = make_vec_env(lambda: make(settings, "train"), settings.envs, seed=settings.seed)
    model = MaskablePPO(
        "MlpPolicy",
        envs,
        n_steps=256,
        batch_size=256,
        n_epochs=4,
        learning_rate=5e-4,
        gamma=0.99,
        ent_coef=0.01,
        seed=settings.seed,
        device="cpu",
    )

    def choose(env: AdmissibleAction, observation: np.ndarray) -> int:
        number, _ = model.predict(observation, action_masks=env.action_masks(), deterministic=True)
        return int(number)

    rows = {"MaskablePPO, untrained": play(settings, choose)}
    seconds = 0.0
    for _ in range(settings.evaluations):
        start = time.perf_counter()
        model.learn(settings.steps // settings.evaluations, reset_num_timesteps=False)
        seconds += time.perf_counter() - start
        name = f"MaskablePPO, {model.num_timesteps:,} steps"
        rows[name] = play(settings, choose) | {"seconds": seconds}
    return rows


def main(settings: Settings) -> None:
    """Trains and evaluates, prints a table and writes JSON."""
    torch.set_num_threads(1)
    rows = baselines(settings) | train(settings)
    table = Table(title=f"WebShop-v0, {settings.episodes} test tasks, 1 thread")
    for heading in ("player", "reward", "success", "turns", "training, s"):
        table.add_column(heading, justify="left" if heading == "player" else "right", no_wrap=True)
    for name, row in rows.items():
        table.add_row(
            name,
            f"{row['reward']:.3f} ± {row['standard_error']:.3f}",
            f"{row['success']:.1%}",
            f"{row['turns']:.1f}",
            f"{row['seconds']:.0f}" if "seconds" in row else "",
        )
    Console().print(table)
    about = {
        "settings": settings_of(settings),
        **versions("agentgym", "sb3_contrib", "torch"),
    }
    write(settings.out, about | {"players": rows})


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
