"""`Buffers`: the tensors at fixed addresses that decode steps read and write.

Shapes: R rows, C columns, K steps, U uniform numbers, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers.cache_utils import Cache

from agentgym.trainers.policy.cache_layers import LayerShape, StaticLayer
from agentgym.trainers.policy.trie_table import IntArray, TrieTable

STEPS = 16
"""Maximum number of steps after which the host looks at the rows."""

PENDING = 64
"""Maximum number of tokens of a row that wait to be fed when steps begin."""

FIELDS = ("at", "left", "read", "taken", "limit", "branch", "active", "listed")
"""Numbers per row, see `RowState`."""


class RowState(NamedTuple):
    """The state of b rows.

    Attributes:
        at: place of the first token to feed in `Buffers.tokens`.
        left: number of tokens to feed before the next one is sampled.
        read: number of columns that are written.
        taken: number of new tokens since the first step.
        limit: maximum of `taken`, for rows without candidates.
        branch: branch of `Buffers.tries` at which the next token is sampled.
        active: 0 if the row is done.
        listed: 1 if the row has candidates.
    """

    at: Tensor
    left: Tensor
    read: Tensor
    taken: Tensor
    limit: Tensor
    branch: Tensor
    active: Tensor
    listed: Tensor


class Capacity(NamedTuple):
    """Sizes of buffers.

    Attributes:
        rows: number of rows R.
        columns: number of columns C.
        uniforms: number U of uniform numbers per row.
        kept: columns of a step of which is recorded whether they could have been sampled.
        branches: number of branches of the tries.
        edges: number of their edges.
        tokens: number of tokens of these.
    """

    rows: int
    columns: int
    uniforms: int
    kept: int
    branches: int
    edges: int
    tokens: int

    def holds(self, need: Capacity) -> bool:
        """Returns whether no size is less than needed."""
        return all(own >= other for own, other in zip(self, need, strict=True))

    def widened(self, need: Capacity) -> Capacity:
        """Returns the larger of each size and the needed one."""
        return Capacity(*map(max, self, need))

    def bytes(self, shapes: Sequence[LayerShape]) -> int:
        """Returns the size of the keys, values and records, which take most of the memory."""
        keys = self.columns * sum(shape.bytes for shape in shapes)
        return self.rows * (keys + STEPS * self.kept)


class Buffers:
    """Tensors of decode steps.

    Args:
        shapes: shapes of the model's layers.
        capacity: sizes.
        end_tokens: tokens that end an action without candidates.
        device: device of the model.

    Attributes:
        cache: keys and values.
        tokens: int64 the tokens of rows, `PENDING` of each, followed by those of the tries.
        uniforms: float64 [R, U] uniform numbers of each row's next tokens.
        tries: the tries of candidates. Tokens are places in `tokens`.
        step: int64 [1] number of the step.
        columns: int64 [K, R] sampled columns: tokens, or numbers of a branch's edges. -1: none.
        logprobs: float32 [K, R] their log-probabilities.
        kept: bool [K, R, kept] the columns that could have been sampled.
    """

    def __init__(
        self,
        shapes: Sequence[LayerShape],
        capacity: Capacity,
        end_tokens: Iterable[int],
        device: torch.device,
    ):
        self.capacity, self.device = capacity, device
        rows, columns = capacity.rows, capacity.columns
        self.layers = [StaticLayer(shape, rows, columns, device) for shape in shapes]
        self.cache = Cache(layers=list(self.layers))

        def numbers(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        self.end_tokens = torch.tensor(sorted(end_tokens), device=device)
        self.tokens = numbers(rows * PENDING + capacity.tokens)
        self.own_tokens = self.tokens[: rows * PENDING].view(rows, PENDING)
        self.uniforms = numbers(rows, capacity.uniforms, dtype=torch.float64)
        self._branches = numbers(2, capacity.branches)
        self._edges = numbers(3, capacity.edges)
        self.step = numbers(1)
        self._state = numbers(len(FIELDS), rows)
        self.columns = numbers(STEPS, rows)
        self.logprobs = numbers(STEPS, rows, dtype=torch.float32)
        self.kept = numbers(STEPS, rows, capacity.kept, dtype=torch.bool)

    def rows(self, count: int) -> RowState:
        """Returns the state of the first rows."""
        return RowState(*self._state[:, :count])

    @property
    def states(self) -> list[Tensor]:
        """Keys and values [R, heads, C, size] of each layer."""
        return [each for layer in self.layers for each in layer.states]

    @property
    def first(self) -> Tensor:
        """Int64 first edge of each branch."""
        return self._branches[0]

    @property
    def count(self) -> Tensor:
        """Int64 number of edges of each branch."""
        return self._branches[1]

    @property
    def edges(self) -> Tensor:
        """Int64 [3, e] place in `tokens`, length and target of each edge (`TrieTable`)."""
        return self._edges

    def clear(self) -> None:
        """Makes all rows inactive."""
        self._state.zero_()
        self._state[FIELDS.index("left")] = 1
        self.step.zero_()

    def load(self, states: IntArray, pending: IntArray, uniforms: NDArray[np.float64]) -> None:
        """Begins with the steps of b rows.

        Args:
            states: [fields, b] their state.
            pending: [b, n] tokens to feed, n <= `PENDING`.
            uniforms: [b, U] uniform numbers.
        """
        count = states.shape[1]
        self._state[:, :count].copy_(torch.from_numpy(states))
        self.own_tokens[:count, : pending.shape[1]].copy_(torch.from_numpy(pending))
        self.uniforms[:count, : uniforms.shape[1]].copy_(torch.from_numpy(uniforms))
        self.step.zero_()

    def load_tries(self, table: TrieTable) -> None:
        """Sets the tries of the rows."""
        first = len(self.own_tokens) * PENDING
        branches, edges = len(table.first), len(table.start)
        self._branches[:, :branches].copy_(torch.from_numpy(np.stack([table.first, table.count])))
        found = np.stack([table.start + first, table.length, table.target])
        self._edges[:, :edges].copy_(torch.from_numpy(found))
        self.tokens[first : first + len(table.tokens)].copy_(torch.from_numpy(table.tokens))
