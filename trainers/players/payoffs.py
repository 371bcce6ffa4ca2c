"""The payoff matrix of the members of a pool, completed by simulated games.

    pool/payoffs.jsonl    a line per pair of members: checksums of their weights, mean returns

Each pair is written when its games are finished, so that a killed run does not play them again.
Pairs of other weights, such as those of an iteration that is repeated, have other checksums.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from accelerate import Accelerator

from agentgym.agents import Agent
from agentgym.evaluation.crossplay import CrossPlay
from agentgym.evaluation.meta_games import Floats
from agentgym.trainers.system.checkpoint import writing
from agentgym.trainers.system.processes import broadcast_value, map_across_processes

Pair = tuple[int, int]
Simulate = Callable[[Sequence[Agent]], CrossPlay]
"""Lets one agent play itself, or two agents each other in all seats."""


class Payoffs:
    """Mean returns between members, over all seats.

    Args:
        folder: the folder of the pool.
        accelerator: its processes share the pairs.
        agents: returns members as agents.
        digest: returns the checksum of a member's weights.
        simulate: plays the games of a pair.
    """

    def __init__(
        self,
        folder: Path,
        accelerator: Accelerator,
        *,
        agents: Callable[[Sequence[int]], list[Agent]],
        digest: Callable[[int], str],
        simulate: Simulate,
    ):
        self._file, self._accelerator = folder / "payoffs.jsonl", accelerator
        self._agents, self._digest, self._simulate = agents, digest, simulate
        self._known: dict[tuple[str, str], tuple[float, float]] | None = None

    def matrix(self, members: Sequence[int]) -> Floats:
        """Returns the mean return [m, m] of each member (row) against each member (column)."""
        if self._known is None:
            self._known = self._read()
        digests = broadcast_value(self._accelerator, [self._digest(number) for number in members])
        size = range(len(members))
        pairs = [(i, j) for i in size for j in size if i <= j]
        missing = [(i, j) for i, j in pairs if (digests[i], digests[j]) not in self._known]
        missing = broadcast_value(self._accelerator, missing)
        played = map_across_processes(
            self._accelerator,
            missing,
            lambda some: [self._play(pair, members, digests) for pair in some],
        )
        for (i, j), found in zip(missing, played, strict=True):
            self._known[digests[i], digests[j]] = found
        payoffs = np.zeros((len(members), len(members)))
        for i, j in pairs:
            payoffs[i, j], payoffs[j, i] = self._known[digests[i], digests[j]]
        return broadcast_value(self._accelerator, payoffs)

    def _play(
        self, pair: Pair, members: Sequence[int], digests: Sequence[str]
    ) -> tuple[float, float]:
        """Returns the mean returns of both members of a pair, and writes them."""
        i, j = pair
        result = self._simulate(self._agents(sorted({members[i], members[j]})))
        last = int(i != j)
        mine, theirs = (float(np.mean(result.returns(*each))) for each in ((0, last), (last, 0)))
        with writing(self._file), self._file.open("a", encoding="utf-8") as file:
            # The line break comes first, as a killed process may have left half a line.
            file.write(f"\n{json.dumps([digests[i], digests[j], mine, theirs])}")
        return mine, theirs

    def _read(self) -> dict[tuple[str, str], tuple[float, float]]:
        found = {}
        text = (
            self._file.read_text(encoding="utf-8", errors="replace") if self._file.exists() else ""
        )
        for line in text.split("\n"):
            try:
                row, column, mine, theirs = json.loads(line)
                found[str(row), str(column)] = float(mine), float(theirs)
            except (ValueError, TypeError):
                continue  # half a line
        return found
