"""ETO: preferences between the expert's episodes and the policy's failures.

"Trial and Error: Exploration-Based Trajectory Optimization for LLM Agents" (Song et al., arXiv
2403.02502). The policy plays. In tasks with a failed episode, the scripted expert plays too. Each
of the policy's episodes there with another return than the expert's is paired with it, the one with
the higher return is preferred, and DPO (see `dpo`) learns from the pairs.

Kept: the contrast of the policy's episodes with demonstrations, iterated. Changed: pairs are
learned from in the iteration in which they are collected, not after whole phases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from agentgym.trainers.algorithm import Algorithm
from agentgym.trainers.data.replay import pairs_of
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.dataset import expert_rollout
from agentgym.trainers.hooks.preferences import Preferences
from agentgym.trainers.settings import GroupRolloutConfig, RolloutConfig, defaults
from agentgym.trainers.settings.config import PreferenceConfig

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run

EXPERT = "expert"
"""Key of the expert's episodes in a trajectory's `extras`."""


@dataclass
class Config(PreferenceConfig):
    """Settings of ETO."""

    rollout: RolloutConfig = defaults(GroupRolloutConfig, group_size=4)

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        self.fixed("failed groups are paired with the expert", filter_groups=False)

    @property
    def foreign_actions(self) -> bool:
        """True: the expert's episodes are not the policy's own."""
        return True


class Contrast(Preferences):
    """Adds the expert's episode to every group with a failure.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    games = False

    def __init__(self, trainer: Run, config: Config):
        super().__init__(config.beta, thought_coef=config.loss.thought_coef)
        self.trainer = trainer

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> list[Trajectory]:
        """Returns the rollout with demonstrations of the tasks that were not solved."""
        failed = dict.fromkeys((t.task, t.seed) for t in fresh if not t.success)
        shown = expert_rollout(self.trainer, failed, iteration)
        for each in shown:
            each.extras[EXPERT] = True
        self.env_steps = sum(len(trajectory.turns) for trajectory in shown)
        return fresh + shown

    def pairs(self, trajectories: Sequence[Trajectory]) -> list[tuple[int, int]]:
        """Returns (better, worse) for the expert's episode and each other one of its group."""
        expert = [EXPERT in trajectory.extras for trajectory in trajectories]
        return [(a, b) for a, b in pairs_of(trajectories) if expert[a] or expert[b]]


def build(config: Config) -> Algorithm:
    """Returns the parts of ETO."""
    return Algorithm(hooks=lambda trainer: Contrast(trainer, config))
