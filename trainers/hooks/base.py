"""`Experience`: what a recipe does with a round besides assigning credit.

Replay, learned rewards and preferences all hook into the same three places of a round: which
trajectories it learns from, which rewards credit is assigned from, and which advantages enter the
loss. The trainer calls them and keeps their state in the checkpoint; it knows none of them.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from agentgym.trainers.trajectory import Batch, Credit, Segment, Support, Trajectory, Turn
from agentgym.trainers.update.learner import Reading

if TYPE_CHECKING:
    from agentgym.trainers.policy_agent.agent import PolicyAgent


class Experience:
    """Does nothing; a recipe overrides what it needs.

    Attributes:
        needs_reference: whether `relabel` wants the reference policy's log-probabilities.
        plays: whether the policy plays episodes every round; False: `gather` is handed none.
        metrics: numbers of the last round worth logging, under `credit/`.
        env_steps: turns that `gather` played itself in the last round.
    """

    needs_reference = False
    plays = True

    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}
        self.env_steps = 0

    def gather(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> list[Trajectory]:
        """Returns the trajectories that the round learns from; at least one."""
        return fresh

    def relabel(
        self, batch: Batch, reading: Reading | None, iteration: int, rng: np.random.Generator
    ) -> Batch:
        """Returns the batch with the rewards that credit is assigned from."""
        return batch

    def adjust(self, batch: Batch, credit: Credit, iteration: int) -> Credit:
        """Returns the credit as it enters the loss, after normalisation."""
        return credit

    def agent(self, policy: PolicyAgent) -> PolicyAgent:
        """Returns who plays evaluations: the policy, or it with something learnt beside it.

        Policy folders hold whatever the agent's `save` writes.
        """
        return policy

    def state_dict(self) -> dict[str, Any]:
        """Returns tensors and plain Python values from which `load_state_dict` goes on."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a checkpoint."""


class ReplayBuffer:
    """The latest trajectories, as many as fit.

    Args:
        size: how many.
    """

    def __init__(self, size: int):
        if size < 1:
            raise ValueError(f"A replay buffer holds at least one trajectory, got size {size}.")
        self._kept: deque[tuple[int, Trajectory]] = deque(maxlen=size)

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, trajectories: Iterable[Trajectory], iteration: int) -> None:
        """Keeps trajectories of a round; the oldest make room."""
        self._kept.extend((iteration, trajectory) for trajectory in trajectories)

    def since(self, iteration: int) -> list[Trajectory]:
        """Returns what was kept in this round or later, the oldest first."""
        return [trajectory for born, trajectory in self._kept if born >= iteration]

    def state_dict(self) -> dict[str, Any]:
        """Returns plain Python values."""
        return {"kept": [(born, pack(trajectory)) for born, trajectory in self._kept]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a checkpoint."""
        self._kept.clear()
        self._kept.extend((born, unpack(packed)) for born, packed in state["kept"])


def pack(trajectory: Trajectory) -> dict[str, Any]:
    """Returns a trajectory as plain Python values, exactly."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value.tolist()
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return [plain(item) for item in value] if isinstance(value, list) else value

    return plain(trajectory)


def unpack(packed: dict[str, Any]) -> Trajectory:
    """Returns the trajectory that `pack` took apart."""
    turns = []
    for turn in packed["turns"]:
        support = turn["support"]
        if support is not None:
            offsets, ids = (np.array(support[name], np.int32) for name in ("offsets", "ids"))
            support = Support(offsets, ids)
        logprobs = np.array(turn["logprobs"], np.float32)
        rest = {"logprobs": logprobs, "support": support, "admissible": tuple(turn["admissible"])}
        turns.append(Turn(**turn | rest))
    segments = [Segment(np.array(s["tokens"], np.int32)) for s in packed["segments"]]
    return Trajectory(**packed | {"turns": turns, "segments": segments})


def pairs_of(trajectories: Sequence[Trajectory]) -> list[tuple[int, int]]:
    """Returns (better, worse) for all pairs of one group with different returns."""
    groups: dict[tuple[str, str, int, str], list[int]] = {}
    for number, trajectory in enumerate(trajectories):
        groups.setdefault(trajectory.group, []).append(number)
    returns = [trajectory.episode_return for trajectory in trajectories]
    return [
        (a, b)
        for members in groups.values()
        for a in members
        for b in members
        if returns[a] > returns[b] + 1e-9
    ]
