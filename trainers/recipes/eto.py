"""ETO: explore, fail, and prefer the expert's episode to one's own (Song et al., arXiv 2403.02502).

"Trial and Error: Exploration-Based Trajectory Optimization for LLM Agents". The policy plays; every
episode that falls short of the scripted expert's in the same task is paired with it, and DPO learns
from the pairs, beside those that the policy's own episodes make.

Kept: the contrast of failures with demonstrations, iterated. Changed: the pairs are learnt from as
soon as they are collected, not after whole phases; as everywhere here, no token is tokenised twice.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from agentgym.evaluation.report import Report
from agentgym.trainers.credit.turn_rewards import EpisodeReward
from agentgym.trainers.recipes import dpo
from agentgym.trainers.rollout.collector import Episode, action_room
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.trajectory import Trajectory
from agentgym.trainers.update.behaviour_cloning import demonstrate


@dataclass
class Config(dpo.Config):
    """Settings of ETO."""

    group_size: int = 4
    """Episodes with the same start; at least 2."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        self.fixed("groups that failed throughout are paired with the expert", filter_groups=False)


class Contrast(dpo.Preferences):
    """Adds the expert's episode to every group that has not solved its task throughout."""

    def __init__(self, trainer: Trainer, beta: float):
        super().__init__(beta)
        self.trainer = trainer

    def gather(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> list[Trajectory]:
        """Returns the round with demonstrations of what was not solved."""
        failed = dict.fromkeys((t.task, t.seed) for t in fresh if not t.success)
        episodes = [Episode(task, seed, (i,)) for i, (task, seed) in enumerate(failed)]
        trainer = self.trainer
        shown = demonstrate(
            trainer.policy,
            trainer.pool,
            episodes,
            trainer.context,
            action_room(trainer.policy, trainer.config.sampling(), trainer.config.constrain),
            constrain=trainer.config.constrain,
        )
        self.env_steps = sum(len(trajectory.turns) for trajectory in shown)
        return fresh + shown


def main(config: Config) -> list[Report]:
    """Trains a policy with ETO; returns its evaluations."""
    return Trainer(
        "eto",
        config,
        credit=EpisodeReward(),
        experience=lambda trainer: Contrast(trainer, config.beta),
    ).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("eto", sys.argv[1:]))
