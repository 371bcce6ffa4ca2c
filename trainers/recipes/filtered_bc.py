"""Filtered behaviour cloning: rejection sampling of the policy's best episodes.

Grow and improve as in "Reinforced Self-Training (ReST) for Language Modeling" (arXiv 2308.08998)
and AgentEvol (arXiv 2406.04151). In every iteration the policy plays, and the best `top_fraction`
of the episodes by return are cloned for a few epochs. It is the baseline for every claim about
credit assignment.

Kept: the filter by return. Changed: the clip of the ratio bounds how far one iteration moves the
policy. Training does not restart from the base model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Gt, Le

from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit.turn_rewards import turn_credit
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.settings import LossConfig, defaults
from agentgym.trainers.trainer import Algorithm
from agentgym.trainers.trajectory import Batch, Credit, Trajectory
from agentgym.trainers.update.learner import ForwardPass


@dataclass
class Config(TrainConfig):
    """Settings of filtered behaviour cloning."""

    loss: LossConfig = defaults(LossConfig, normalize_advantages="none")
    top_fraction: Annotated[float, Gt(0.0), Le(1.0)] = 0.25
    """Share of the episodes of an iteration that are cloned."""
    min_return: float | None = None
    """Minimum return of a cloned episode (None: no minimum)."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        self.fixed(
            "every cloned token has the same weight",
            normalize_advantages="none",
            covariance_clip=0.0,
        )


class Best(RecipeHooks):
    """Keeps the best episodes of an iteration and weighs all of their tokens equally.

    Args:
        config: the settings.
    """

    def __init__(self, config: Config):
        super().__init__()
        self.fraction, self.low = config.top_fraction, config.min_return

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> list[Trajectory]:
        """Returns the best episodes, or the single best if all are below `min_return`."""
        # Ties between equal returns are broken at random, not by position.
        order = rng.permutation(len(fresh)).tolist()
        ranked = sorted(order, key=lambda i: -fresh[i].episode_return)
        kept = [fresh[i] for i in ranked[: math.ceil(self.fraction * len(fresh))]]
        good = [t for t in kept if self.low is None or t.episode_return >= self.low] or kept[:1]
        self.metrics = {"imitated": float(len(good)), "lowest_return": good[-1].episode_return}
        return good

    def credit(
        self, batch: Batch, forward: ForwardPass | None, iteration: int, rng: np.random.Generator
    ) -> Credit:
        """Returns the weight 1 for every token."""
        return turn_credit(np.ones(batch.num_turns), batch)


def build(config: Config) -> Algorithm:
    """Returns the parts of filtered behaviour cloning."""
    return Algorithm(hooks=lambda _: Best(config))
