"""SPEAR: imitate one's own good episodes, while they are good (arXiv 2509.22601).

"Self-imitation with Progressive Exploration for Agentic Reinforcement Learning". Episodes that beat
their group go into a buffer and come back in later rounds, with an advantage against what is usual
*now*: the median of recent returns. Only positive ones count, and their weight grows from 0 to 1
along a cosine, so that early luck does not end exploration. On top of it: GRPO without a standard
deviation, a higher upper clip, and the covariance clip that keeps entropy up (the "Dr.BoT" of the
paper).

Kept: buffer size, age limit, P50 baseline, cosine, clip 0.2 / 0.28, masking 2 % by covariance.
Changed: no bonus for tool calls.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agentgym.errors import ConfigError
from agentgym.evaluation.report import Report
from agentgym.trainers.config import Normalize
from agentgym.trainers.credit import group
from agentgym.trainers.hooks.base import Experience, ReplayBuffer
from agentgym.trainers.recipes import grpo
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.trajectory import Batch, Credit, Trajectory


@dataclass
class Config(grpo.Config):
    """Settings of SPEAR."""

    scale: bool = False
    """Divide by the group's standard deviation."""
    normalize_advantages: Normalize = "batch"
    """Bring advantages to mean 0 and deviation 1: over the round, each task, agent or group."""
    clip_high: float | None = 0.28
    """Upper clip; None: the same as `clip`."""
    covariance_clip: float = 0.02
    """Largest share of tokens that give no gradient because they drive the entropy down."""
    buffer_size: int = 2048
    """Episodes kept."""
    max_age: int = 5
    """Rounds after which an episode is forgotten."""
    replayed: int = 64
    """Episodes replayed in a round at most."""
    ramp: int = 100
    """Rounds in which the weight of replayed episodes grows from 0 to 1."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        for name in ("buffer_size", "max_age", "replayed", "ramp"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}.")


class SelfImitation(Experience):
    """A buffer of good episodes, and what they are worth now."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.buffer = ReplayBuffer(config.buffer_size)
        self.recent: deque[float] = deque(maxlen=max(256, 4 * config.episodes_per_iteration))
        self._fresh = 0

    def gather(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> list[Trajectory]:
        """Returns the round with good episodes of earlier ones; keeps the good ones of this."""
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
        return fresh + good

    def _weight(self, iteration: int) -> float:
        return 0.5 * (1 - math.cos(math.pi * min(1.0, iteration / self.config.ramp)))

    def adjust(self, batch: Batch, credit: Credit, iteration: int) -> Credit:
        """Gives replayed episodes their advantage against the usual return of today.

        It is measured in deviations of recent returns, like the others are in those of the round.
        """
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
        """Goes on from a checkpoint."""
        self.buffer.load_state_dict(state["buffer"])
        self.recent.extend(state["recent"])


def main(config: Config) -> list[Report]:
    """Trains a policy with SPEAR; returns its evaluations."""
    return Trainer(
        "spear",
        config,
        credit=group.GroupBaseline(scale=config.scale, outcome=config.outcome),
        experience=lambda _: SelfImitation(config),
    ).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("spear", sys.argv[1:]))
