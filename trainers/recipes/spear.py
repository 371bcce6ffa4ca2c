"""SPEAR: self-imitation of good episodes with group-relative credit.

"Self-imitation with Progressive Exploration for Agentic Reinforcement Learning" (arXiv 2509.22601).
Episodes that exceed their group enter a buffer and are replayed in later iterations, with an
advantage over the *current* median of recent returns. Only positive advantages count, and their
weight grows from 0 to 1 along a cosine, so early successes do not end exploration. The fresh
episodes use GRPO without a standard deviation, a higher upper clip, and the covariance clip that
keeps entropy up (the paper's "Dr.BoT").

Kept: buffer size, age limit, P50 baseline, cosine, clip 0.2 / 0.28, masking 2 % by covariance.
Changed: no bonus for tool calls, and none of Dr.BoT's filters (overlong answers, void turns).
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit import group
from agentgym.trainers.hooks.base import RecipeHooks, ReplayBuffer
from agentgym.trainers.settings import (
    GroupRolloutConfig,
    LossConfig,
    Positive,
    RolloutConfig,
    defaults,
)
from agentgym.trainers.trainer import Algorithm
from agentgym.trainers.trajectory import Batch, Credit, Trajectory


@dataclass
class Config(TrainConfig):
    """Settings of SPEAR."""

    rollout: RolloutConfig = defaults(GroupRolloutConfig)
    loss: LossConfig = defaults(LossConfig, clip_high=0.28, covariance_clip=0.02)
    scale: bool = False
    """Divide by the group's standard deviation."""
    outcome: Literal["return", "success"] = "return"
    """Compared outcome: the return, or 1 for success and 0 otherwise."""
    buffer_size: Positive = 2048
    """Capacity of the buffer in episodes."""
    max_age: Positive = 5
    """Iterations after which an episode is dropped."""
    replayed: Positive = 64
    """Maximum number of replayed episodes per iteration."""
    ramp: Positive = 100
    """Iterations in which the weight of replayed episodes grows from 0 to 1."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        self.check_outcome(self.outcome)


class SelfImitation(RecipeHooks):
    """Replays good episodes with their advantage over recent returns.

    Args:
        config: the settings.
    """

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.buffer = ReplayBuffer(config.buffer_size)
        self.recent: deque[float] = deque(
            maxlen=max(256, 4 * config.rollout.episodes_per_iteration)
        )
        self._fresh = 0

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> list[Trajectory]:
        """Stores the good episodes of the rollout and adds good earlier ones to it."""
        self.recent.extend(trajectory.episode_return for trajectory in fresh)
        usual = float(np.median(self.recent))
        old = self.buffer.since(iteration - self.config.max_age)
        good = [trajectory for trajectory in old if trajectory.episode_return > usual]
        if len(good) > self.config.replayed:
            chosen = rng.choice(len(good), self.config.replayed, replace=False)
            good = [good[i] for i in np.sort(chosen)]
        self._fresh = len(fresh)
        advantages = group.dr_grpo()(batch := Batch.of(fresh)).advantages
        first = advantages[batch.token_offsets[batch.turn_offsets[:-1]]]
        self.buffer.add((t for t, a in zip(fresh, first, strict=True) if a > 0), iteration)
        self.metrics = {
            "replayed": float(len(good)),
            "replay_weight": self._weight(iteration),
            "usual_return": usual,
        }
        return fresh + [replace(trajectory, replayed=True) for trajectory in good]

    def _weight(self, iteration: int) -> float:
        return 0.5 * (1 - math.cos(math.pi * min(1.0, iteration / self.config.ramp)))

    def on_advantages(self, batch: Batch, credit: Credit, iteration: int) -> Credit:
        """Sets the advantage of replayed episodes, in standard deviations of recent returns."""
        returns = np.array([trajectory.episode_return for trajectory in batch.trajectories])
        gain = (returns - np.median(self.recent)) / (np.std(self.recent) + 1e-6)
        owner = batch.turn_trajectory[batch.token_turn]
        replayed = self._weight(iteration) * np.maximum(gain, 0.0)[owner]
        advantages = np.where(owner < self._fresh, credit.advantages, replayed)
        return replace(credit, advantages=advantages.astype(np.float32))

    def state_dict(self) -> dict[str, Any]:
        """Returns the buffer and the recent returns."""
        return {"buffer": self.buffer.state_dict(), "recent": list(self.recent)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        self.buffer.load_state_dict(state["buffer"])
        self.recent.extend(state["recent"])


def build(config: Config) -> Algorithm:
    """Returns the parts of SPEAR."""
    return Algorithm(
        credit=group.GroupBaseline(scale=config.scale, outcome=config.outcome),
        hooks=lambda _: SelfImitation(config),
    )
