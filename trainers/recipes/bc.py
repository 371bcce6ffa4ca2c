"""Behaviour cloning of the scripted expert, or of episodes in files.

"ALVINN: An Autonomous Land Vehicle in a Neural Network" (Pomerleau, NeurIPS 1988). The policy is
fitted to a sample of a fixed set of demonstrations in every iteration. Its learning curve is the
baseline of learning from reward. `bc_demonstrations` of the other recipes does the same before RL,
with a decaying learning rate.

Kept: the likelihood of the expert's tokens, under the constraint that the policy acts with.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.trainers.algorithm import Algorithm, Imitation
from agentgym.trainers.hooks.dataset import DataSet, DatasetConfig, OfflineConfig
from agentgym.trainers.settings import defaults


@dataclass
class Config(OfflineConfig):
    """Settings of behaviour cloning."""

    dataset: DatasetConfig = defaults(DatasetConfig, dataset_episodes=0, dataset_demonstrations=512)

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        self.fixed("every token has the same weight", covariance_clip=0.0)

    @property
    def rewarded(self) -> bool:
        """False: the data are cloned as they are."""
        return False


def build(config: Config) -> Algorithm:
    """Returns the parts of behaviour cloning."""
    return Algorithm(
        Imitation(),
        data="fixed",
        hooks=lambda trainer: DataSet(trainer, config.dataset, rewarded=False),
    )
