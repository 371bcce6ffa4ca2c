"""`TokenTrie`: prefix tree of candidates, for constrained decoding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class TokenTrie:
    """A prefix tree of token sequences.

    Node 0 is the root. A sequence that is a prefix of another one ends at an inner node. With an
    `end` token, which is appended to every sequence, all sequences end at leaves. Of equal
    sequences, `leaf` returns the index of the first.

    Args:
        sequences: token ids of the candidates.
        end: a token appended to every sequence, such as the end-of-sequence token. None: none.

    Attributes:
        equal: the indices of sequences that are equal to an earlier one, with that one's.
    """

    def __init__(self, sequences: Iterable[Sequence[int]], end: int | None = None):
        self.end = end
        self._next: list[dict[int, int]] = [{}]
        self._leaf: dict[int, int] = {}
        self._children: dict[int, tuple[int, ...]] = {}
        self._leaves: list[int] = []
        self.equal: dict[int, int] = {}
        nodes = self._next
        for index, sequence in enumerate(sequences):
            node = 0
            for token in sequence if end is None else (*sequence, end):
                child = nodes[node].get(token)
                if child is None:
                    child = len(nodes)
                    nodes[node][int(token)] = child
                    nodes.append({})
                node = child
            if (first := self._leaf.setdefault(node, index)) != index:
                self.equal[index] = first

    def __len__(self) -> int:
        """Returns the number of nodes, including the root."""
        return len(self._next)

    def children(self, node: int) -> tuple[int, ...]:
        """Returns the tokens that may follow at a node, in ascending order."""
        tokens = self._children.get(node)
        if tokens is None:
            tokens = self._children[node] = tuple(sorted(self._next[node]))
        return tokens

    def step(self, node: int, token: int) -> int:
        """Returns the child of a node for a token.

        Raises:
            ValueError: if the token is not one of `children(node)`.
        """
        child = self._next[node].get(token)
        if child is None:
            raise ValueError(
                f"Token {token} does not follow at node {node}; "
                f"expected one of {self.children(node)[:20]}."
            )
        return child

    def walk(self, tokens: Iterable[int]) -> int | None:
        """Returns the node reached from the root by the tokens, or None if there is none."""
        node: int | None = 0
        for token in tokens:
            node = self._next[node].get(token)
            if node is None:
                return None
        return node

    def leaf(self, node: int) -> int | None:
        """Returns the index of the sequence that ends at a node, or None."""
        return self._leaf.get(node)

    def leaves(self, node: int) -> int:
        """Returns the number of different sequences that end at a node or below it."""
        if not self._leaves:
            counts = [int(number in self._leaf) for number in range(len(self))]
            for number in reversed(range(len(self))):  # children come after their parents
                counts[number] += sum(counts[child] for child in self._next[number].values())
            self._leaves = counts
        return self._leaves[node]

    def is_complete(self, node: int) -> bool:
        """Returns whether a sequence ends at a node. A longer one may continue there."""
        return node in self._leaf
