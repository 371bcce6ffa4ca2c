"""Preferences between episodes of a group: the gradient of DPO as credit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from agentgym.trainers.credit.turn_rewards import episode_credit
from agentgym.trainers.data.batch import Batch, Credit
from agentgym.trainers.data.replay import pairs_of
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.base import RecipeHooks

if TYPE_CHECKING:
    from agentgym.trainers.update.learner import ForwardPass

STATE, VALUE = "tree_state", "tree_value"
"""Keys of the state and of the value of an action in the `extras` of `ActionPreferences`."""


class Preferences(RecipeHooks):
    """Assigns each episode its weight in the gradient of DPO.

    Args:
        beta: temperature of the preference loss.
        mean: compares means over the tokens of episodes, without forced ones, instead of sums.
        thought_coef: weight of thought tokens in sums and means, as in the loss.
    """

    needs_reference = True

    def __init__(self, beta: float, *, mean: bool = False, thought_coef: float = 1.0):
        super().__init__()
        self.beta, self.mean, self.thought_coef = beta, mean, thought_coef

    def pairs(self, trajectories: Sequence[Trajectory]) -> list[tuple[int, int]]:
        """Returns the indices (better, worse) of all pairs: here, of a group by their returns."""
        return pairs_of(trajectories)

    def temperatures(self, pairs: Sequence[tuple[int, int]]) -> np.ndarray:
        """Returns the temperature of each pair that `pairs` has returned [n]: here, beta."""
        return np.full(len(pairs), self.beta)

    def labels(
        self, trajectories: Sequence[Trajectory], pairs: list[tuple[int, int]]
    ) -> np.ndarray:
        """Returns the probability that the first of each pair is preferred [n]: here, 1."""
        return np.ones(len(pairs))

    def credit(
        self, batch: Batch, forward: ForwardPass | None, iteration: int, rng: np.random.Generator
    ) -> Credit:
        """Returns -d loss / d score of every episode, times the number of episodes.

        The score is log pi/ref of the episode, a sum over its tokens, or their mean. Tokens weigh
        as much in it as in the loss, of which this is the gradient.
        """
        assert forward is not None
        pairs = self.pairs(batch.trajectories)
        weights = np.zeros(len(batch.trajectories))
        self.metrics = {"pairs": float(len(pairs))}
        if pairs:
            owner = batch.turn_trajectory[batch.token_turn]
            shares = batch.weights(self.thought_coef)
            ratios = forward.log_ratio * shares
            if self.mean:
                ratios = ratios / np.maximum(np.bincount(owner, shares), 1e-9)[owner]
            scores = np.bincount(owner, ratios, minlength=len(batch.trajectories))
            labels = self.labels(batch.trajectories, pairs)
            weights, accuracy = preference_weights(scores, pairs, self.temperatures(pairs), labels)
            self.metrics["preference_accuracy"] = accuracy
        return episode_credit(weights * len(batch.trajectories), batch)


class ActionPreferences(Preferences):
    """Pairs actions of one state whose values differ, each in a trajectory of its own.

    Args:
        beta: temperature of the preference loss.
        threshold: difference of two values that makes a pair.
        thought_coef: weight of thought tokens, as in the loss.
    """

    def __init__(self, beta: float, threshold: float = 0.0, *, thought_coef: float = 1.0):
        super().__init__(beta, thought_coef=thought_coef)
        self.threshold = threshold

    def pairs(self, trajectories: Sequence[Trajectory]) -> list[tuple[int, int]]:
        """Returns (better, worse) for actions of a state whose values differ enough."""
        states: dict[tuple[int, ...], list[int]] = {}
        for i, trajectory in enumerate(trajectories):
            if STATE in trajectory.extras:
                states.setdefault(tuple(trajectory.extras[STATE]), []).append(i)
        value = [trajectory.extras.get(VALUE, 0.0) for trajectory in trajectories]
        return [
            (better, worse)
            for members in states.values()
            for better, worse in permutations(members, 2)
            if value[better] - value[worse] > self.threshold
        ]


def preference_weights(
    scores: np.ndarray,
    pairs: list[tuple[int, int]],
    beta: float | np.ndarray,
    labels: float | np.ndarray = 1.0,
) -> tuple[np.ndarray, float]:
    """Returns -d loss / d score of the mean DPO loss over pairs [n], and its accuracy.

    Args:
        scores: [n] log pi - log reference of each trajectory.
        pairs: (better, worse), at least one.
        beta: temperature, of all pairs or of each [n].
        labels: probability that the first of a pair is preferred, of all pairs or of each [n].
    """
    better, worse = np.array(pairs).T
    margin = beta * (scores[better] - scores[worse])
    odds = np.exp(np.clip(margin, -50, 50))
    pull = beta * (labels / (1 + odds) - (1 - labels) * odds / (1 + odds)) / len(pairs)
    weights = np.bincount(better, pull, minlength=len(scores))
    weights -= np.bincount(worse, pull, minlength=len(scores))
    preferred = np.asarray(labels) > 0.5
    return weights, float(((margin > 0) == preferred).mean())
