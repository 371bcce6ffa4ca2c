"""DCPO: the return relative to the group, for policies that edit their context.

"Memory as Action: Autonomous Context Curation for Long-Horizon Agentic Tasks" (MemAct, arXiv
2510.12635): dynamic context policy optimisation. An edit of the context, such as a note that is
added or deleted (wrapper `Memory`), ends the prefix that later actions share. The trajectory then
consists of several *segments*, each of which is a sequence of its own in the loss. All segments
share the advantage of the trajectory,

    A = (R - mean) / std over the trajectories of a group, each counted once.

A trajectory with many edits would dominate the loss. From each group, `segments` segments are
drawn: at first one of every trajectory, then another one of each in turn, until there are enough.

Kept: the statistics, the draw, 12 segments from 8 trajectories, a KL penalty of 0.001. Changed: a
segment is never drawn twice, so that a group with fewer segments uses all of them once. Contexts
other than "full" begin a segment wherever the prompt is not a continuation of the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit import group
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.replay import members_by_group
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.settings import LossConfig, Positive, defaults
from agentgym.trainers.settings.kinds import GroupConfig


@dataclass
class Config(GroupConfig):
    """Settings of DCPO."""

    loss: LossConfig = defaults(LossConfig, normalize_advantages="none", kl_coef=0.001)
    segments: Positive = 12
    """Segments per group in the loss."""


class SegmentSample(RecipeHooks):
    """Leaves a sample of the segments of each group in the loss.

    Args:
        count: number of segments per group.
    """

    def __init__(self, count: int):
        super().__init__()
        self.count = count

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Returns all trajectories. Turns outside of the sample have the weight 0."""
        found, total, kept = list(fresh), 0, 0
        for members in members_by_group(fresh):
            owned = [segments_of(fresh[i]) for i in members]
            for i, chosen in zip(members, draw(owned, self.count, rng), strict=True):
                found[i] = only(fresh[i], chosen)
                kept += len(chosen)
            total += sum(map(len, owned))
        self.metrics = {"segments": total / len(fresh), "segments_in_loss": kept / total}
        return Learn(found)


def segments_of(trajectory: Trajectory) -> list[int]:
    """Returns the indices of the segments that hold actions."""
    return sorted({turn.segment for turn in trajectory.turns})


def draw(
    owned: Sequence[Sequence[int]], count: int, rng: np.random.Generator
) -> list[frozenset[int]]:
    """Draws segments of the trajectories of a group, from each in turn.

    Args:
        owned: the segments of each trajectory.
        count: number of segments to draw. If there are fewer, all are drawn.
        rng: random generator.

    Returns:
        The drawn segments of each trajectory.
    """
    orders = [rng.permutation(list(segments)) for segments in owned]
    turns = rng.permutation(len(owned))
    places = [(n, i) for n in range(max(map(len, orders))) for i in turns if n < len(orders[i])]
    taken = np.bincount([i for _, i in places[:count]], minlength=len(owned))
    return [frozenset(order[:n].tolist()) for order, n in zip(orders, taken, strict=True)]


def only(trajectory: Trajectory, segments: frozenset[int]) -> Trajectory:
    """Returns a trajectory in which the turns of other segments have the weight 0."""
    turns = [
        turn if turn.segment in segments else replace(turn, weight=0.0) for turn in trajectory.turns
    ]
    return replace(trajectory, turns=turns)


def build(config: Config) -> Algorithm:
    """Returns the parts of DCPO."""
    return Algorithm(
        PolicyGradient(group.GroupBaseline(scale=config.scale, outcome=config.outcome)),
        outcomes="group",
        hooks=lambda _: SegmentSample(config.segments),
    )
