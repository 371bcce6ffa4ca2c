"""`TrieTable`: a trie of candidates as arrays, in which only branches are nodes.

A sampled token leads, along the forced tokens after it, to the next branch or to the end of an
action. Such an edge is fed to the model at once.

Shapes: v branches, e edges, t tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from agentgym.tokens.trie import TokenTrie

IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class TrieTable:
    """A trie, or several of them one after another.

    Attributes:
        first: [v] the first edge of each branch. Those of a branch follow one another, in ascending
            order of their first tokens.
        count: [v] its number of edges.
        start: [e] place of the first token of each edge.
        length: [e] its number of tokens.
        target: [e] the branch that follows. -1: the action ends.
        tokens: [t] the tokens of all edges.
        branch: number of each branch by its node of the trie.
        steps: number [v] of steps after each branch, at most, by the tokens that a step feeds.
    """

    first: IntArray
    count: IntArray
    start: IntArray
    length: IntArray
    target: IntArray
    tokens: IntArray
    branch: dict[int, int]
    steps: dict[int, IntArray]

    @classmethod
    def of(cls, trie: TokenTrie) -> TrieTable:
        """Returns the table of a trie whose sequences end at leaves."""
        found = _TABLES.get(trie)
        if found is None:
            found = _TABLES[trie] = cls._build(trie)
        return found

    @classmethod
    def _build(cls, trie: TokenTrie) -> TrieTable:
        nodes = [node for node in range(len(trie)) if len(trie.children(node)) > 1]
        branch = {node: number for number, node in enumerate(nodes)}
        edges = [_edge(trie, node, token) for node in nodes for token in trie.children(node)]
        count = np.array([len(trie.children(node)) for node in nodes], np.int64)
        length = np.array([len(tokens) for tokens, _ in edges], np.int64)
        return cls(
            first=np.cumsum(count) - count,
            count=count,
            start=np.cumsum(length) - length,
            length=length,
            target=np.array([branch.get(node, -1) for _, node in edges], np.int64),
            tokens=np.array([token for tokens, _ in edges for token in tokens], np.int64),
            branch=branch,
            steps={},
        )

    @classmethod
    def joined(cls, tables: Sequence[TrieTable]) -> tuple[TrieTable, list[int]]:
        """Returns several tables as one, and the number of the first branch of each."""
        tables = [_NONE, *tables]
        branches, edges, tokens = (
            np.cumsum([len(getattr(table, name)) for table in tables])[:-1]
            for name in ("first", "start", "tokens")
        )

        def join(name: str, offsets: IntArray | None = None) -> IntArray:
            parts = [getattr(table, name) for table in tables[1:]]
            if offsets is not None:
                parts = [np.where(x < 0, x, x + by) for x, by in zip(parts, offsets, strict=True)]
            return np.concatenate([getattr(_NONE, name), *parts])

        whole = cls(
            first=join("first", edges),
            count=join("count"),
            start=join("start", tokens),
            length=join("length"),
            target=join("target", branches),
            tokens=join("tokens"),
            branch={},
            steps={},
        )
        return whole, branches.tolist()

    def steps_after(self, branch: int, width: int) -> int:
        """Returns the number of steps after a branch, at most, that feed `width` tokens."""
        if width not in self.steps:
            self.steps[width] = self._count_steps(width)
        return int(self.steps[width][branch])

    def _count_steps(self, width: int) -> IntArray:
        found = np.zeros(len(self.first), np.int64)
        for number in reversed(range(len(found))):  # branches come after those that lead to them
            edges = slice(self.first[number], self.first[number] + self.count[number])
            target = self.target[edges]
            fed = -(-self.length[edges] // width) + found[target]
            found[number] = np.where(target < 0, 0, fed).max()
        return found


_EMPTY = np.zeros(0, np.int64)
_NONE = TrieTable(_EMPTY, _EMPTY, _EMPTY, _EMPTY, _EMPTY, _EMPTY, {}, {})

_TABLES: WeakKeyDictionary[TokenTrie, TrieTable] = WeakKeyDictionary()


def _edge(trie: TokenTrie, node: int, token: int) -> tuple[list[int], int]:
    """Returns a token with the forced ones after it, and the node where they end."""
    tokens, node = [token], trie.step(node, token)
    while len(only := trie.children(node)) == 1:
        tokens.append(only[0])
        node = trie.step(node, only[0])
    return tokens, node
