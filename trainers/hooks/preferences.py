"""Preferences between episodes of a group: the gradient of DPO as credit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentgym.trainers.credit.turn_rewards import episode_credit
from agentgym.trainers.hooks.base import RecipeHooks, pairs_of
from agentgym.trainers.trajectory import Batch, Credit, Trajectory
from agentgym.trainers.update.learner import ForwardPass


class Preferences(RecipeHooks):
    """Assigns each episode its weight in the gradient of DPO.

    Args:
        beta: temperature of the preference loss.
    """

    needs_reference = True

    def __init__(self, beta: float):
        super().__init__()
        self.beta = beta

    def pairs(self, trajectories: Sequence[Trajectory]) -> list[tuple[int, int]]:
        """Returns the indices (better, worse) of all pairs: here, of a group by their returns."""
        return pairs_of(trajectories)

    def labels(
        self, trajectories: Sequence[Trajectory], pairs: list[tuple[int, int]]
    ) -> np.ndarray:
        """Returns the probability that the first of each pair is preferred [n]: here, 1."""
        return np.ones(len(pairs))

    def credit(
        self, batch: Batch, forward: ForwardPass | None, iteration: int, rng: np.random.Generator
    ) -> Credit:
        """Returns -d loss / d log pi of every episode, times the number of episodes."""
        assert forward is not None
        pairs = self.pairs(batch.trajectories)
        weights = np.zeros(len(batch.trajectories))
        self.metrics = {"pairs": float(len(pairs))}
        if pairs:
            owner = batch.turn_trajectory[batch.token_turn]
            scores = np.bincount(owner, forward.log_ratio, minlength=len(batch.trajectories))
            labels = self.labels(batch.trajectories, pairs)
            weights, accuracy = preference_weights(scores, pairs, self.beta, labels)
            self.metrics["preference_accuracy"] = accuracy
        return episode_credit(weights * len(batch.trajectories), batch)


def preference_weights(
    scores: np.ndarray,
    pairs: list[tuple[int, int]],
    beta: float,
    labels: np.ndarray | float = 1.0,
) -> tuple[np.ndarray, float]:
    """Returns -d loss / d score of the mean DPO loss over pairs [n], and its accuracy.

    Args:
        scores: [n] log pi - log reference of each trajectory.
        pairs: (better, worse), at least one.
        beta: temperature.
        labels: probability that the first of a pair is preferred, for all pairs or each [n].
    """
    better, worse = np.array(pairs).T
    margin = beta * (scores[better] - scores[worse])
    odds = np.exp(np.clip(margin, -50, 50))
    pull = beta * (labels / (1 + odds) - (1 - labels) * odds / (1 + odds)) / len(pairs)
    weights = np.bincount(better, pull, minlength=len(scores))
    weights -= np.bincount(worse, pull, minlength=len(scores))
    preferred = np.asarray(labels) > 0.5
    return weights, float(((margin > 0) == preferred).mean())
