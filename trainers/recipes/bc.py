"""Behaviour cloning of the scripted expert, or of episodes in files.

"ALVINN: An Autonomous Land Vehicle in a Neural Network" (Pomerleau, NeurIPS 1988). The policy is
fitted to a sample of a fixed set of demonstrations in every iteration. Its learning curve is the
baseline of learning from reward. `bc_demonstrations` of the other recipes does the same before RL,
with a decaying learning rate.

Kept: the likelihood of the expert's tokens, under the constraint that the policy acts with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agentgym.trainers.algorithm import Algorithm, Imitation
from agentgym.trainers.hooks.dataset import DataSet, DatasetConfig, OfflineConfig
from agentgym.trainers.settings import defaults
from agentgym.trainers.settings.kinds import RATIO


@dataclass
class Config(OfflineConfig):
    """Settings of behaviour cloning."""

    lacks: ClassVar[tuple[str, ...]] = RATIO

    dataset: DatasetConfig = defaults(DatasetConfig, dataset_episodes=0, dataset_demonstrations=512)


def build(config: Config) -> Algorithm:
    """Returns the parts of behaviour cloning."""
    return Algorithm(
        Imitation(),
        data="fixed",
        hooks=lambda trainer: DataSet(trainer, config.dataset, rewarded=False),
    )
