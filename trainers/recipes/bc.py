"""Behaviour cloning: imitate the scripted expert's episodes, and nothing else.

The oldest way to train an agent: "ALVINN: An Autonomous Land Vehicle in a Neural Network"
(Pomerleau, NeurIPS 1988). A fixed set of demonstrations, a part of which is imitated every round:
the curve says how far imitation alone gets, which is where learning from reward has to start from.
The warm start of the other recipes (`bc_demonstrations`) is the same with a decaying learning rate
and no rounds.

Kept: the likelihood of the expert's tokens, under the constraint that the policy acts with.
Changed: a round may not move a token's probability beyond the clip.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from agentgym.evaluation.report import Report
from agentgym.trainers.credit.turn_rewards import TurnReward
from agentgym.trainers.hooks import dataset as offline
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.trajectory import Batch
from agentgym.trainers.update.learner import Reading


@dataclass
class Config(offline.Config):
    """Settings of behaviour cloning."""

    dataset_episodes: int = 0
    """Episodes of the starting policy in the data set."""
    dataset_demonstrations: int = 512
    """Episodes of the scripted expert in the data set."""
    clip: float = 1.0
    """The ratio is clipped to [1 - clip, 1 + clip_high]."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        self.fixed("every token counts alike", overlong_margin=0, covariance_clip=0.0)


class Demonstrations(offline.DataSet):
    """Hands on demonstrations, every turn of which is worth imitating."""

    def relabel(
        self, batch: Batch, reading: Reading | None, iteration: int, rng: np.random.Generator
    ) -> Batch:
        """Gives every turn the weight 1."""
        return batch.with_rewards(np.ones(batch.num_turns))


def main(config: Config) -> list[Report]:
    """Trains a policy on demonstrations; returns its evaluations."""
    return Trainer(
        "bc",
        config,
        credit=TurnReward(),
        experience=lambda trainer: Demonstrations(trainer, config),
    ).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("bc", sys.argv[1:]))
