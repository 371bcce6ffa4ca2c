"""Filtered behaviour cloning: imitate one's own best episodes, again and again.

Online: grow and improve as in "Reinforced Self-Training (ReST) for Language Modeling" (arXiv
2308.08998) and AgentEvol (arXiv 2406.04151). Each round
the policy plays, and the best `top_fraction` of the round, by return, are imitated for a few
passes. The baseline that every claim about credit assignment has to beat.

Kept: the filter by return. Changed: the clip of the ratio bounds how far one round may move the
policy; nothing starts again from the base model.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np

from agentgym.errors import ConfigError
from agentgym.evaluation.report import Report
from agentgym.trainers.config import Normalize, TrainConfig
from agentgym.trainers.credit.turn_rewards import TurnReward
from agentgym.trainers.hooks.base import Experience
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.trajectory import Batch, Trajectory
from agentgym.trainers.update.learner import Reading


@dataclass
class Config(TrainConfig):
    """Settings of filtered behaviour cloning."""

    top_fraction: float = 0.25
    """Share of a round's episodes that are imitated."""
    min_return: float | None = None
    """Imitate no episode with a return below this."""
    normalize_advantages: Normalize = "none"
    """Bring advantages to mean 0 and deviation 1: over the round, each task, agent or group."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if not 0 < self.top_fraction <= 1:
            raise ConfigError(f"top_fraction must be in (0, 1], got {self.top_fraction}.")
        why = "every token that is imitated counts alike"
        self.fixed(why, normalize_advantages="none", kl_in="loss", overlong_margin=0)
        self.fixed(why, covariance_clip=0.0)


class Best(Experience):
    """The best episodes of a round, every token of which is worth imitating."""

    def __init__(self, config: Config):
        super().__init__()
        self.fraction, self.low = config.top_fraction, config.min_return

    def gather(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> list[Trajectory]:
        """Returns the best episodes; the one best where all are below the limit."""
        # Equal returns are told apart by chance, not by their place in the round.
        order = rng.permutation(len(fresh)).tolist()
        ranked = sorted(order, key=lambda i: -fresh[i].episode_return)
        kept = [fresh[i] for i in ranked[: math.ceil(self.fraction * len(fresh))]]
        good = [t for t in kept if self.low is None or t.episode_return >= self.low] or kept[:1]
        self.metrics = {"imitated": float(len(good)), "lowest_return": good[-1].episode_return}
        return good

    def relabel(
        self, batch: Batch, reading: Reading | None, iteration: int, rng: np.random.Generator
    ) -> Batch:
        """Gives every turn the weight 1."""
        return batch.with_rewards(np.ones(batch.num_turns))


def main(config: Config) -> list[Report]:
    """Trains a policy on its best episodes; returns its evaluations."""
    trainer = Trainer("filtered_bc", config, credit=TurnReward(), experience=lambda _: Best(config))
    return trainer.run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("filtered_bc", sys.argv[1:]))
