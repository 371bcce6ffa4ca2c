"""DPO: better episodes against worse ones of the same group (arXiv 2305.18290), online.

"Direct Preference Optimization" on pairs of whole episodes, as in ETO (arXiv 2403.02502): for each
pair of a group, -log sigmoid(beta [log pi/ref (better) - log pi/ref (worse)]). The gradient of this
loss weighs all tokens of an episode alike, by a number that is known once the policy has read the
batch: that number is the credit, and one step on it (one pass, one minibatch, the default) is one
step of DPO, exactly but for a constant factor, which Adam does not see.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from agentgym.evaluation.report import Report
from agentgym.trainers.credit.turn_rewards import EpisodeReward
from agentgym.trainers.hooks.base import Experience, pairs_of
from agentgym.trainers.recipes import grpo
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.trajectory import Batch
from agentgym.trainers.update.learner import Reading
from agentgym.trainers.update.losses import Aggregation


@dataclass
class Config(grpo.GroupConfig):
    """Settings of DPO."""

    beta: float = 0.1
    """Temperature: small values let the policy move far from where it started."""
    epochs: int = 1
    """Passes over what was collected; more than one make the step an approximation."""
    minibatches: int = 1
    """Optimiser steps in a pass; more than one make them approximations."""
    aggregation: Aggregation = "constant"
    """What counts the same in the loss: every token, turn or trajectory."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        why = "credit is the gradient of the preference loss, not a comparison of rewards"
        self.fixed(why, normalize_advantages="none", kl_in="loss", overlong_margin=0)

    @property
    def recompute_logprobs(self) -> bool:
        """Always: a preferred episode need not be the policy's own."""
        return True


class Preferences(Experience):
    """The weight of every episode in the gradient of DPO, as its only reward."""

    needs_reference = True

    def __init__(self, beta: float):
        super().__init__()
        self.beta = beta

    def relabel(
        self, batch: Batch, reading: Reading | None, iteration: int, rng: np.random.Generator
    ) -> Batch:
        """Returns the batch with each episode's weight as the reward of its last turn."""
        assert reading is not None and reading.reference is not None
        pairs = pairs_of(batch.trajectories)
        rewards = np.zeros(batch.num_turns)
        self.metrics = {"pairs": float(len(pairs))}
        if pairs:
            owner = batch.turn_trajectory[batch.token_turn]
            ratios = reading.logprobs.astype(np.float64) - reading.reference
            scores = np.bincount(owner, ratios, minlength=len(batch.trajectories))
            weights, accuracy = preference_weights(scores, pairs, self.beta)
            rewards[batch.turn_offsets[1:] - 1] = weights * len(batch.trajectories)
            self.metrics["preference_accuracy"] = accuracy
        return batch.with_rewards(rewards)


def preference_weights(
    scores: np.ndarray, pairs: list[tuple[int, int]], beta: float
) -> tuple[np.ndarray, float]:
    """Returns -d loss / d score of the mean DPO loss over pairs [n], and its accuracy.

    Args:
        scores: [n] log pi - log reference of each trajectory.
        pairs: (better, worse), at least one.
        beta: temperature.
    """
    better, worse = np.array(pairs).T
    margin = beta * (scores[better] - scores[worse])
    pull = beta / (1 + np.exp(np.clip(margin, -50, 50))) / len(pairs)
    weights = np.bincount(better, pull, minlength=len(scores))
    return weights - np.bincount(worse, pull, minlength=len(scores)), float((margin > 0).mean())


def main(config: Config) -> list[Report]:
    """Trains a policy with DPO on its own episodes; returns its evaluations."""
    return Trainer(
        "dpo",
        config,
        credit=EpisodeReward(),
        experience=lambda _: Preferences(config.beta),
    ).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("dpo", sys.argv[1:]))
