"""`Pool`: frozen copies of the policy in the folder of a run, against which it plays in games.

pool/000010/   weights.pt (of an adapter without its base), checksums.json
pool/mixture.json         the average policy: the probability of each member
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch

from agentgym.errors import CheckpointError
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.system.checkpoint import (
    CHECKSUMS,
    damage,
    loading,
    replace_folder,
    write_text,
)

WEIGHTS = "weights.pt"
MIXTURE = "mixture.json"


class Pool:
    """The members of a pool, by the number of the iteration that they were taken before.

    Args:
        run: the folder of the run.
        policy: a policy of the run. Members share the base of its adapter.
    """

    def __init__(self, run: Path, policy: Policy):
        self._folder, self._policy = run / "pool", policy
        self._loaded: dict[int, Policy] = {}

    def add(self, number: int) -> None:
        """Writes the policy as a member. The folder is complete or absent."""
        weights = self._policy.own_weights()
        write = lambda folder: torch.save(weights, folder / WEIGHTS)  # noqa: E731
        replace_folder(self._member(number), write, checksums=True)

    def prune(self, first: int) -> None:
        """Deletes the members before an iteration."""
        for folder in self._folder.glob("[0-9]*"):
            if int(folder.name) < first:
                shutil.rmtree(folder)

    def digest(self, number: int) -> str:
        """Returns a checksum of a member's weights."""
        file = self._member(number) / CHECKSUMS
        with loading(file):
            return hashlib.sha256(file.read_bytes()).hexdigest()[:16]

    def load(self, numbers: Iterable[int]) -> Mapping[int, Policy]:
        """Returns members as frozen policies, and forgets all others.

        Raises:
            CheckpointError: if a member is missing or damaged.
        """
        self._loaded = {n: self._loaded.get(n) or self._load(n) for n in sorted({*numbers})}
        return self._loaded

    def _load(self, number: int) -> Policy:
        folder = self._member(number)
        problem = damage(folder) if (folder / CHECKSUMS).exists() else f"{CHECKSUMS} is missing"
        if problem is not None:
            raise CheckpointError(
                f"The member {folder} of the pool is damaged ({problem}), so the run cannot be "
                "continued. Restore the folder from a copy, or start again with another --run-dir, "
                "for example from the policy of the latest checkpoint (--model)."
            )
        with loading(folder / WEIGHTS):
            weights = torch.load(folder / WEIGHTS, map_location="cpu", weights_only=True)
            policy = self._policy.frozen_copy()
            policy.load_own_weights(weights)
        return policy

    def write_mixture(self, weights: Mapping[int, float]) -> None:
        """Writes the probabilities of the members in the average policy."""
        text = json.dumps({str(number): weight for number, weight in weights.items()}, indent=1)
        write_text(self._folder / MIXTURE, text + "\n")

    def read_mixture(self) -> dict[int, float]:
        """Returns the probabilities of the members in the average policy.

        Raises:
            CheckpointError: if the folder has none, or they are damaged.
        """
        file = self._folder / MIXTURE
        if not file.exists():
            raise CheckpointError(
                f"{self._folder.parent} has no average policy: only runs whose --opponents keep "
                "earlier policies have one, such as past:5, league or psro. The last policy is "
                "written policy:FOLDER."
            )
        with loading(file):
            found = {int(k): float(v) for k, v in json.loads(file.read_text("utf-8")).items()}
            if not found or abs(sum(found.values()) - 1) > 1e-6 or min(found.values()) < 0:
                raise ValueError(f"expected probabilities of members, got {found}")
        return found

    def _member(self, number: int) -> Path:
        return self._folder / f"{number:06d}"
