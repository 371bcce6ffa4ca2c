"""ETO: preferences between the expert's episodes and the policy's failures.

"Trial and Error: Exploration-Based Trajectory Optimization for LLM Agents" (Song et al., arXiv
2403.02502). The policy plays. In tasks with a failed episode, the scripted expert plays too. Each
of the policy's episodes there with another return than the expert's is paired with it, the one with
the higher return is preferred, and DPO (see `dpo`) learns from the pairs.

Kept: the contrast of the policy's episodes with demonstrations, iterated. Changed: pairs are
learned from in the iteration in which they are collected, not after whole phases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from agentgym.trainers.algorithm import Algorithm, Preference
from agentgym.trainers.data.learn import Learn, Pair
from agentgym.trainers.data.replay import pairs_of
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.hooks.dataset import expert_rollout
from agentgym.trainers.settings import GroupRolloutConfig, RolloutConfig, defaults
from agentgym.trainers.settings.kinds import GAMES, SAMPLED, PreferenceConfig

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run


@dataclass
class Config(PreferenceConfig):
    """Settings of ETO."""

    lacks: ClassVar[tuple[str, ...]] = ("filter_groups", *SAMPLED, *GAMES)

    rollout: RolloutConfig = defaults(GroupRolloutConfig, group_size=4)


class Contrast(RecipeHooks):
    """Adds the expert's episode to every group with a failure.

    Args:
        trainer: the trainer of the policy.
    """

    def __init__(self, trainer: Run):
        super().__init__()
        self.trainer = trainer

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Returns the rollout with demonstrations of the tasks that were not solved.

        The expert's episode is compared with each other one of its group.
        """
        failed = dict.fromkeys((t.task, t.seed) for t in fresh if not t.success)
        shown = expert_rollout(self.trainer, failed, iteration)
        self.env_steps = sum(len(trajectory.turns) for trajectory in shown)
        return Learn(fresh + shown, pairs=expert_pairs(fresh, shown))


def expert_pairs(own: list[Trajectory], shown: list[Trajectory]) -> list[Pair]:
    """Returns (better, worse) for each of the expert's episodes and each other one of its group.

    Args:
        own: the episodes of the policy.
        shown: the episodes of the expert, which are counted after them.
    """
    first = len(own)
    return [Pair(a, b) for a, b in pairs_of(own + shown) if a >= first or b >= first]


def build(config: Config) -> Algorithm:
    """Returns the parts of ETO."""
    signal = Preference(config.beta, thought_coef=config.loss.thought_coef)
    return Algorithm(signal, data="foreign", seats="one", hooks=Contrast)
