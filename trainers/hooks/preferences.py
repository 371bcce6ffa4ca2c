"""Pairs of trajectories for a preference loss."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import permutations

import numpy as np

from agentgym.trainers.data.learn import Learn, Pair
from agentgym.trainers.data.replay import pairs_of
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.base import RecipeHooks


class GroupPairs(RecipeHooks):
    """Prefers the episodes of a group with the higher returns."""

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Returns the episodes, with all pairs of a group with different returns."""
        return Learn(fresh, pairs=[Pair(*pair) for pair in pairs_of(fresh)])


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
