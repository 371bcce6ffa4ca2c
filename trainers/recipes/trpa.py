"""TRPA: preferences between levels of episodes that rules define.

"Trust Region Preference Approximation: A simple and stable reinforcement learning algorithm for LLM
reasoning" (Su et al., arXiv 2504.04524). A rule gives every episode of a group a level, 1 for the
best. Each pair of episodes with different levels is a preference, and its loss

    -log sigmoid(c beta [h(better) - h(worse)]),    h = mean over tokens of log pi/ref,

compares means over tokens, so long episodes weigh no more than short ones. c is `anisotropy` if the
better episode has level 1, otherwise 1: what is right counts more than what is less wrong.

Kept: levels, all pairs of a group, mean log-ratios, beta 0.1, anisotropy 2.5, groups of 16.
Changed: the clipped ratio keeps the policy near the one that played (the authors: a KL penalty with
the coefficient 0.001, whose gradient is 0 in the first of their steps, and the default is one). A
batch in which all episodes have one level is not learned from (theirs: as good or bad on its own).
By default, successes have level 1, failures with valid actions only 2, other episodes 3 (theirs:
four levels, by format and answer).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from agentgym.trainers.algorithm import Algorithm, Preference
from agentgym.trainers.data.learn import Learn, Pair
from agentgym.trainers.data.replay import members_by_group
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.settings import (
    GroupRolloutConfig,
    LossConfig,
    NonNegative,
    OptimisationConfig,
    RolloutConfig,
    defaults,
)
from agentgym.trainers.settings.kinds import PreferenceConfig
from agentgym.utils.importing import imported


@dataclass
class Config(PreferenceConfig):
    """Settings of TRPA."""

    lacks: ClassVar[tuple[str, ...]] = ("filter_groups",)

    rollout: RolloutConfig = defaults(GroupRolloutConfig, group_size=16)
    optimisation: OptimisationConfig = defaults(OptimisationConfig, epochs=1, minibatches=1)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none", aggregation="trajectory")
    beta: NonNegative = 0.1
    """Temperature of the preference loss."""
    anisotropy: Annotated[float, Ge(1.0)] = 2.5
    """Factor of the temperature for pairs whose better episode has level 1."""
    levels: str = "outcome"
    """Rule of the levels: "outcome" (1 for a success, 2 for a failure with valid actions only, 3
    otherwise), or module:function, which maps a trajectory to a level, an integer from 1."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if self.levels != "outcome":
            imported(self.levels, "levels")


class LevelPreferences(RecipeHooks):
    """Prefers the episodes of a group with the lower levels.

    Args:
        config: the settings.
    """

    def __init__(self, config: Config):
        super().__init__()
        self.anisotropy = config.anisotropy
        self.level: Callable[[Trajectory], int] = (
            outcome_level if config.levels == "outcome" else imported(config.levels, "levels")
        )

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Returns the episodes, with all pairs of a group with different levels."""
        levels = [self.level(trajectory) for trajectory in fresh]
        pairs = [
            Pair(a, b, factor=self.anisotropy if levels[a] == 1 else 1.0)
            for members in members_by_group(fresh)
            for a in members
            for b in members
            if levels[a] < levels[b]
        ]
        return Learn(fresh, pairs=pairs)


def outcome_level(trajectory: Trajectory) -> int:
    """Returns 1 for a success, 2 for a failure with valid actions only, otherwise 3."""
    if trajectory.success:
        return 1
    return 2 if all(turn.valid for turn in trajectory.turns) else 3


def build(config: Config) -> Algorithm:
    """Returns the parts of TRPA."""
    signal = Preference(config.beta, mean=True, thought_coef=config.loss.thought_coef)
    return Algorithm(signal, outcomes="group", hooks=lambda _: LevelPreferences(config))
