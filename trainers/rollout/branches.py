"""Branches of episodes: they repeat recorded actions, and go on from there with new ones.

The *order* of a turn is the turn of the game in which an agent acted (`Turn.order`). A state of an
episode is the one before all actions of an order. An environment with a single agent has one action
in each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from agentgym.trainers.data.trajectory import Segment, Trajectory, episode_numbers
from agentgym.trainers.policy.sampling import Sample


def samples_of(trajectory: Trajectory, turns: int) -> tuple[Sample, ...]:
    """Returns the first `turns` actions of a trajectory, as the `opening` of another episode."""
    found = []
    for turn in trajectory.turns[:turns]:
        tokens = trajectory.segments[turn.segment].tokens[turn.start : turn.stop]
        found.append(
            Sample(
                tokens=tokens,
                logprobs=turn.logprobs,
                support=turn.support,
                text=turn.action,
                finished=True,
                choice=turn.choice,
                version=turn.version,
                token_versions=turn.token_versions,
            )
        )
    return tuple(found)


def episodes_of(trajectories: Sequence[Trajectory]) -> list[list[Trajectory]]:
    """Returns the trajectories of each episode, in the order of the first ones."""
    found: dict[int, list[Trajectory]] = {}
    for number, trajectory in zip(episode_numbers(trajectories), trajectories, strict=True):
        found.setdefault(number, []).append(trajectory)
    return list(found.values())


def orders(trajectory: Trajectory) -> list[int]:
    """Returns the order of each turn of an agent."""
    return [n if turn.order is None else turn.order for n, turn in enumerate(trajectory.turns)]


def orders_of(members: Sequence[Trajectory]) -> list[int]:
    """Returns the orders of an episode, in which some of its agents act."""
    return sorted({order for trajectory in members for order in orders(trajectory)})


def turns_before(trajectory: Trajectory, order: int) -> int:
    """Returns the number of an agent's turns before an order."""
    return sum(each < order for each in orders(trajectory))


def turn_at(trajectory: Trajectory, order: int) -> int | None:
    """Returns the index of an agent's turn of an order, or None if it does not act then."""
    found = orders(trajectory)
    return found.index(order) if order in found else None


def state_of(members: Sequence[Trajectory], order: int) -> tuple[object, ...]:
    """Returns a key of a state, equal for episodes with the same start and actions before it."""
    first = members[0]
    acted = [
        (each.agent, each.segments[turn.segment].tokens[turn.start : turn.stop].tobytes())
        for each in members
        for turn in each.turns[: turns_before(each, order)]
    ]
    return (first.env_id, first.task, first.seed, *acted)


def single_turn(trajectory: Trajectory, place: int) -> Trajectory:
    """Returns one turn of a trajectory as a trajectory of its own, which terminates.

    Args:
        trajectory: the trajectory.
        place: index of the turn.
    """
    turn = trajectory.turns[place]
    return replace(
        trajectory,
        segments=[Segment(trajectory.segments[turn.segment].tokens[: turn.stop])],
        turns=[replace(turn, segment=0)],
        terminated=True,
        truncated=False,
        bootstrap=None,
        start_progress=trajectory.turns[place - 1].progress if place else trajectory.start_progress,
    )


def with_action(trajectory: Trajectory, place: int, sample: Sample) -> Trajectory:
    """Returns one turn of a trajectory with another action, like `single_turn`.

    Args:
        trajectory: the trajectory.
        place: index of the turn.
        sample: the action. The outcome of the turn remains that of the action that was played.
    """
    changed = single_turn(trajectory, place)
    [turn], [segment] = changed.turns, changed.segments
    segment.tokens = np.concatenate([segment.tokens[: turn.start], sample.tokens])
    turn.stop, turn.logprobs = turn.start + len(sample.tokens), sample.logprobs
    turn.support, turn.action, turn.choice = sample.support, sample.text, sample.choice
    turn.thought = turn.recomputed = turn.token_versions = turn.version = None
    return changed


def discounted(trajectory: Trajectory, first: int, gamma: float) -> float:
    """Returns the discounted return from turn `first` on, 0 if there is no such turn."""
    rewards = [turn.reward for turn in trajectory.turns[first:]]
    return float(np.dot(rewards, gamma ** np.arange(len(rewards))))
