"""`Learn`: the trajectories that an iteration learns from, and the credit that hooks give them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trainers.data.trajectory import Trajectory


class Pair(NamedTuple):
    """Two trajectories, of which the first is preferred.

    Attributes:
        better: index of the preferred trajectory.
        worse: index of the other one.
        label: probability that the first one is preferred.
        factor: factor of the temperature of the preference loss.
    """

    better: int
    worse: int
    label: float = 1.0
    factor: float = 1.0


@dataclass(frozen=True)
class Learn:
    """The trajectories to learn from, and their credit if the hooks know it.

    Attributes:
        trajectories: the N trajectories, at least one.
        weights: [M] advantage of each turn, or its weight in a loss of imitation. One per token
            [K] is possible, too. None: the signal of the algorithm assigns credit by itself.
        pairs: the pairs of a preference loss. None: there are no preferences in this iteration.
    """

    trajectories: Sequence[Trajectory]
    weights: ArrayLike | None = None
    pairs: Sequence[Pair] | None = None


def from_turns(found: Sequence[tuple[Trajectory, int]]) -> Learn:
    """Returns trajectories to imitate, each from the turn with this index on."""
    weights = [np.arange(len(trajectory.turns)) >= first for trajectory, first in found]
    return Learn([trajectory for trajectory, _ in found], np.concatenate(weights).astype(float))
