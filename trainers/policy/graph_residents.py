"""`Residents`: the rows whose keys and values are in the buffers of decode steps.

Rows move in their `PrefixCache` when others end. Here they stay at their place until they end, so
their keys and values are copied once, and afterwards only those of new tokens are copied back.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from agentgym.trainers.policy.graph_buffers import Buffers
from agentgym.trainers.policy.prefix_cache import PrefixCache
from agentgym.trainers.policy.request_state import Row
from agentgym.trainers.policy.trie_table import IntArray


class Residents:
    """Rows with a place in the buffers, and the number of their columns there."""

    def __init__(self) -> None:
        self._places: dict[Row, int] = {}
        self._columns: dict[Row, int] = {}

    def enter(
        self, buffers: Buffers, rows: Sequence[Row], count: int, first: int, store: PrefixCache
    ) -> list[int]:
        """Gives each row one of the first places, and copies its keys and values if it is new.

        Args:
            buffers: the buffers.
            rows: the rows in progress. All others lose their place.
            count: number of places.
            first: the row of the store that belongs to the first one.
            store: keys and values.

        Returns:
            The place of each row.
        """
        stay = {
            row: self._places[row]
            for row in rows
            if self._columns.get(row) == row.read and self._places[row] < count
        }
        taken = set(stay.values())
        free = (place for place in range(count) if place not in taken)
        self._places = {row: stay[row] if row in stay else next(free) for row in rows}
        self._columns = {row: row.read for row in rows}
        if new := [i for i, row in enumerate(rows) if row not in stay]:
            to = torch.tensor([self._places[rows[i]] for i in new], device=buffers.device)
            of = torch.tensor([first + i for i in new], device=buffers.device)
            columns = slice(max(rows[i].read for i in new))
            for own, other in zip(buffers.states, store.states, strict=True):
                own[to, :, columns] = other[of, :, columns]
        return list(self._places.values())

    def give_back(
        self, buffers: Buffers, rows: Sequence[Row], first: int, store: PrefixCache
    ) -> None:
        """Copies the keys and values of columns that rows have read since `enter` to the store."""
        ends = np.array([row.read for row in rows])
        counts = ends - np.array([self._columns[row] for row in rows])
        number = np.repeat(np.arange(len(rows)), counts)
        place = np.array([self._places[row] for row in rows])[number]
        before = np.cumsum(counts)[number]
        column = ends[number] - before + np.arange(len(number))
        to, of, columns = (_on(buffers, each) for each in (first + number, place, column))
        store.reserve(int(ends.max()))
        for own, other in zip(buffers.states, store.states, strict=True):
            other[to, :, columns] = own[of, :, columns]
        self._columns = dict(zip(rows, ends.tolist(), strict=True))


def _on(buffers: Buffers, numbers: IntArray) -> torch.Tensor:
    return torch.from_numpy(numbers).to(buffers.device)
