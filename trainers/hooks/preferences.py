"""Pairs of trajectories for a preference loss."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import permutations

import numpy as np

from agentgym.trainers.data.learn import Learn, Pair
from agentgym.trainers.data.replay import pairs_of, ranked_pairs
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.rewards.judged_episodes import readable_scores
from agentgym.trainers.rewards.shaping import Scorer


class GroupPairs(RecipeHooks):
    """Prefers the episodes of a group with the higher returns."""

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Returns the episodes, with all pairs of a group with different returns."""
        return Learn(fresh, pairs=[Pair(*pair) for pair in pairs_of(fresh)])


class JudgedPairs(RecipeHooks):
    """Prefers the episodes of a group with the higher mean scores of their turns by a judge.

    An episode on which the judge's reply is unreadable is in no pair.

    Args:
        source: the source of the scores (see `turn_scores`).
        score: its function.
    """

    def __init__(self, source: str, score: Scorer):
        super().__init__()
        self.source, self.score = source, score

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Returns the episodes, with all pairs of a group with different scores."""
        scores = readable_scores(fresh, self.source, self.score)
        pairs = [Pair(*pair) for pair in ranked_pairs(fresh, scores)]
        self.metrics = {
            "judged": sum(score is not None for score in scores) / len(scores),
            "judged_pairs": float(len(pairs)),
        }
        return Learn(fresh, pairs=pairs)


def action_pairs(
    states: Sequence[Hashable], values: Sequence[float], threshold: float = 0.0
) -> list[Pair]:
    """Returns (better, worse) for the actions of a state whose values differ enough.

    Args:
        states: the state of each action. Actions of None are in no pair.
        values: the value of each action.
        threshold: difference of two values that makes a pair.
    """
    members: dict[Hashable, list[int]] = {}
    for number, state in enumerate(states):
        if state is not None:
            members.setdefault(state, []).append(number)
    return [
        Pair(better, worse)
        for some in members.values()
        for better, worse in permutations(some, 2)
        if values[better] - values[worse] > threshold
    ]
