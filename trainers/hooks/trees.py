"""Trees of episodes: the policy acts several times in a state, and each action is played on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from agentgym.trainers.data.streams import stream
from agentgym.trainers.data.trajectory import Trajectory, is_judged
from agentgym.trainers.rollout.branches import episodes_of, orders_of, turn_at
from agentgym.trainers.rollout.episode import EpisodeSpec

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run


@dataclass(eq=False)
class Node:
    """An episode, and the branches of it that share its actions up to a turn of the game.

    Attributes:
        members: the trajectories of the episode.
        order: the turn of the game whose actions are valued.
        children: the episodes with the same actions up to this turn, with itself. Empty: it alone.
    """

    members: list[Trajectory]
    order: int
    children: list[Node] = field(default_factory=list)

    def mean(self, outcome: Callable[[list[Trajectory]], float]) -> float:
        """Returns the mean outcome of the episodes below this node, over the children of each.

        Those on which the verdict of a judge is unreadable are left out. NaN: none remains.
        """
        if not self.children:
            return outcome(self.members) if is_judged(self.members) else math.nan
        means = [child.mean(outcome) for child in self.children]
        known = [mean for mean in means if not math.isnan(mean)]
        return float(np.mean(known)) if known else math.nan

    @property
    def following(self) -> int | None:
        """The next turn of the game, or None at the end of the episode."""
        return next((order for order in orders_of(self.members) if order > self.order), None)

    def outputs(self) -> Iterator[tuple[Trajectory, int]]:
        """Yields the trajectories of the agents that act in this turn, and their own turns."""
        for each in self.members:
            place = turn_at(each, self.order)
            if place is not None:
                yield each, place


def roots(fresh: Sequence[Trajectory]) -> list[list[Node]]:
    """Returns the nodes of the first actions of each start."""
    starts: dict[tuple[str, str, int], list[Node]] = {}
    for members in episodes_of(fresh):
        node = Node(members, orders_of(members)[0])
        starts.setdefault(members[0].group[:3], []).append(node)
    return list(starts.values())


def play(trainer: Run, episodes: Sequence[EpisodeSpec]) -> list[list[Trajectory]]:
    """Plays branches, and returns the trajectories of each."""
    return episodes_of(trainer.play(episodes)) if episodes else []


def grow(
    trainer: Run, parents: Sequence[Node], size: int, key: tuple[int, ...]
) -> list[list[Node]]:
    """Plays branches after the turns of some nodes, unless their episodes end there.

    Args:
        trainer: the trainer of the policy.
        parents: the nodes.
        size: number of children of a node, of which its own episode is the first.
        key: the iteration and the number of this growth in it.

    Returns:
        The children of each node that has any.
    """
    open_ = [(node, order) for node in parents if (order := node.following) is not None]
    more, seed = size - 1, trainer.config.run.seed
    branches = play(
        trainer,
        [
            trainer.lineup.branch(node.members, order, stream(seed, "trees", *key, more * i + k))
            for i, (node, order) in enumerate(open_)
            for k in range(more)
        ],
    )
    for i, (node, order) in enumerate(open_):
        found = [node.members, *branches[more * i : more * (i + 1)]]
        node.children = [Node(members, order) for members in found]
    return [node.children for node, _ in open_]
