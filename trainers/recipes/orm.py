"""ORM: the return as a model predicts it from the whole episode, in place of the return itself.

An outcome reward model - as in "WebRL: Training LLM Web Agents via Self-Evolving Online Curriculum
Reinforcement Learning" (arXiv 2411.02337), where it stands in for a checker that new tasks lack -
reads an episode and predicts its return; credit is leave-one-out on the predictions.
It is trained on the environment's returns of every `label_every`-th group only, so it shows what is
left of learning where outcomes are expensive to check.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from agentgym.trainers.critics.turn_model import TurnJudge

from agentgym.errors import ConfigError
from agentgym.evaluation.report import Report
from agentgym.trainers.credit import group
from agentgym.trainers.recipes import grpo
from agentgym.trainers.recipes.agentprm import turn_loss
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.trajectory import Batch
from agentgym.trainers.update.learner import Reading


@dataclass
class Config(grpo.GroupConfig):
    """Settings of learning from an outcome reward model."""

    scale: bool = False
    """Divide by the group's standard deviation."""
    model_lr: float = 1e-3
    """Learning rate of the outcome model."""
    model_epochs: int = 4
    """Passes of the outcome model over the labelled part of a round."""
    label_every: int = 2
    """Every so manieth group shows its returns to the model; 1: all do."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if self.label_every < 1:
            raise ConfigError(f"label_every must be at least 1, got {self.label_every}.")


class OutcomeReward(TurnJudge):
    """Returns as a model predicts them."""

    def relabel(
        self, batch: Batch, reading: Reading | None, iteration: int, rng: np.random.Generator
    ) -> Batch:
        """Fits the model to the labelled groups; rewards the last turns by its predictions."""
        numbers = np.unique(batch.groups, return_inverse=True)[1]
        shown = Batch.of(
            [
                batch.trajectories[i]
                for i in np.flatnonzero(numbers % self.config.label_every == 0).tolist()
            ]
        )
        totals = np.add.reduceat(shown.rewards, shown.turn_offsets[:-1])
        error = self.model.fit(shown, turn_loss(totals[shown.turn_trajectory]), rng)
        last = batch.turn_offsets[1:] - 1
        predicted = self.model.predict(batch)[last]
        truth = np.add.reduceat(batch.rewards, batch.turn_offsets[:-1])
        self.metrics = {
            "outcome_loss": error,
            "outcome_error": float(np.abs(predicted - truth).mean()),
        }
        rewards = np.zeros(batch.num_turns)
        rewards[last] = predicted
        return batch.with_rewards(rewards)


def main(config: Config) -> list[Report]:
    """Trains a policy on predicted outcomes; returns its evaluations."""
    return Trainer(
        "orm",
        config,
        credit=group.GroupBaseline(leave_one_out=True, scale=config.scale),
        experience=lambda trainer: OutcomeReward(trainer, config),
    ).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("orm", sys.argv[1:]))
