"""Replay buffers of trajectories, and the trajectories of each group and of each episode."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from agentgym.trainers.data.packing import pack_all, unpack_all
from agentgym.trainers.data.trajectory import Trajectory, episode_numbers


class ReplayBuffer:
    """The latest trajectories, up to a maximum number.

    Args:
        size: the maximum number. None: no limit.
    """

    def __init__(self, size: int | None):
        if size is not None and size < 1:
            raise ValueError(f"A replay buffer holds at least one trajectory, got size {size}.")
        self._kept: deque[tuple[int, Trajectory]] = deque(maxlen=size)

    def __len__(self) -> int:
        return len(self._kept)

    def __getitem__(self, number: int) -> Trajectory:
        return self._kept[number][1]

    def add(self, trajectories: Iterable[Trajectory], iteration: int) -> None:
        """Adds trajectories of an iteration and drops the oldest ones beyond the maximum."""
        self._kept.extend((iteration, trajectory) for trajectory in trajectories)

    def since(self, iteration: int) -> list[Trajectory]:
        """Returns the trajectories of this iteration or later, oldest first."""
        return [trajectory for born, trajectory in self._kept if born >= iteration]

    def state_dict(self) -> dict[str, Any]:
        """Returns plain Python values and tensors."""
        born = [born for born, _ in self._kept]
        return {"born": born, "kept": pack_all(trajectory for _, trajectory in self._kept)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        self._kept.clear()
        self._kept.extend(zip(state["born"], unpack_all(state["kept"]), strict=True))


def members_by_group(trajectories: Sequence[Trajectory]) -> list[list[int]]:
    """Returns the indices of the trajectories of each group."""
    groups: dict[tuple[str, str, int, str], list[int]] = {}
    for number, trajectory in enumerate(trajectories):
        groups.setdefault(trajectory.group, []).append(number)
    return list(groups.values())


def members_by_episode(
    trajectories: Sequence[Trajectory], labels: Sequence[str]
) -> list[tuple[str, list[int]]]:
    """Returns each label in an episode, with the indices of its trajectories that have it.

    Agents with the same role have one label, and what one of them learns must not depend on the
    outcome of another one, which is its own.

    Args:
        trajectories: the trajectories.
        labels: the label of each.
    """
    found: dict[tuple[int, str], list[int]] = {}
    for i, key in enumerate(zip(episode_numbers(trajectories), labels, strict=True)):
        found.setdefault(key, []).append(i)
    return [(label, members) for (_, label), members in found.items()]


def pairs_of(
    trajectories: Sequence[Trajectory], outcome: Literal["return", "success"] = "return"
) -> list[tuple[int, int]]:
    """Returns (better, worse) for all pairs of one group with different outcomes.

    Args:
        trajectories: the trajectories.
        outcome: "return", or "success" to compare 1 for success with 0.
    """
    by_success = outcome == "success"
    outcomes = [float(t.success) if by_success else t.episode_return for t in trajectories]
    return ranked_pairs(trajectories, outcomes)


def ranked_pairs(
    trajectories: Sequence[Trajectory], values: Sequence[float | None]
) -> list[tuple[int, int]]:
    """Returns (better, worse) for all pairs of one group with different values.

    Args:
        trajectories: the trajectories.
        values: their values. Those of None are in no pair.
    """
    value_of = {number: value for number, value in enumerate(values) if value is not None}
    return [
        (a, b)
        for members in members_by_group(trajectories)
        for a in members
        for b in members
        if a in value_of and b in value_of and value_of[a] > value_of[b] + 1e-9
    ]
