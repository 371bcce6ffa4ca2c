"""Snapshots of the policy in the folder of a run, against which it plays in games.

    pool/000010.pt    the weights at the start of iteration 10, of an adapter without its base

The members of an iteration depend on its number alone, so a resumed run plays against the same.
"""

from __future__ import annotations

from pathlib import Path

import torch

from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.run.checkpoint import loading, writing


class Snapshots:
    """The latest snapshots of a policy, as frozen policies by name.

    Args:
        folder: the folder of the run.
        policy: the policy in training.
        size: the number of snapshots to play against.
        every: iterations between snapshots. The first one is of the policy before iteration 0.
    """

    def __init__(self, folder: Path, policy: Policy, size: int, every: int):
        self._folder, self._policy = folder / "pool", policy
        self._size, self._every = size, every
        self.policies: dict[str, Policy] = {}

    def members(self, iteration: int) -> dict[str, int]:
        """Returns the snapshots of an iteration, oldest first: names and their iterations."""
        newest = iteration // self._every
        numbers = range(max(0, newest - self._size + 1), newest + 1)
        return {f"iteration {n * self._every}": n * self._every for n in numbers}

    def write(self, iteration: int, oldest: int) -> None:
        """Writes the snapshot of an iteration if it is due, and deletes those that no one needs.

        Args:
            iteration: the iteration that begins.
            oldest: the oldest iteration from which the run may be resumed.
        """
        if iteration % self._every:
            return
        file, half = self._file(iteration), self._file(iteration).with_suffix(".half")
        with writing(file):
            self._folder.mkdir(exist_ok=True)
            torch.save(self._policy.own_weights(), half)
            half.replace(file)
        needed = {*self.members(oldest).values(), *self.members(iteration).values()}
        for other in self._folder.glob("[0-9]*.pt"):
            if int(other.stem) < min(needed):
                other.unlink()

    def load(self, iteration: int) -> None:
        """Sets `policies` to the members of an iteration."""
        members = self.members(iteration)
        self.policies = {
            name: self.policies[name] if name in self.policies else self._load(number)
            for name, number in members.items()
        }

    def _load(self, iteration: int) -> Policy:
        file = self._file(iteration)
        with loading(file):
            weights = torch.load(file, map_location="cpu", weights_only=True)
            policy = self._policy.frozen_copy()
            policy.load_own_weights(weights)
        return policy

    def _file(self, iteration: int) -> Path:
        return self._folder / f"{iteration:06d}.pt"
