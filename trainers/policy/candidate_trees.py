"""Admissible actions as trees of tokens that follow their prompts in one forward pass.

Shapes: B rows, S positions, n tree nodes, C candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentgym.trainers.data.trajectory import IntArray
from agentgym.trainers.policy.collate import Collated
from agentgym.trainers.policy.language_model import LanguageModel


def check(policy: LanguageModel, prompt: NDArray[np.int32], texts: Sequence[str]) -> None:
    """Raises ValueError if there are no candidates, no prompt, or both together are too long."""
    if len(texts) == 0:
        raise ValueError("Expected at least one candidate, got none.")
    if len(prompt) == 0:
        raise ValueError("A prompt needs at least one token, got an empty one.")
    longest = policy.trie(texts)[1]
    if policy.max_length is not None and len(prompt) + longest > policy.max_length:
        raise ValueError(
            f"A prompt of {len(prompt)} tokens and a candidate of {longest} tokens exceed the "
            f"model's maximum length of {policy.max_length} tokens. Shorten the context."
        )


@dataclass
class Tree:
    """Candidates as a tree. Node 0 is the end of the prompt. Parents come before children.

    Attributes:
        token: [n] token of each node (unused for node 0).
        parent: [n] parent of each node.
        depth: [n] distance of each node from node 0.
        paths: nodes of each candidate.
    """

    token: IntArray
    parent: IntArray
    depth: IntArray
    paths: list[list[int]]

    @classmethod
    def of(cls, policy: LanguageModel, texts: Sequence[str]) -> Tree:
        """Returns the tree of some candidates."""
        trie = policy.trie(texts)[0]
        token, parent, depth = (np.zeros(len(trie), np.int64) for _ in range(3))
        paths = []
        for text in texts:
            node, path = 0, []
            for item in policy.encode_action(text):
                child = trie.step(node, item)
                token[child], parent[child], depth[child] = item, node, depth[node] + 1
                path.append(child)
                node = child
            paths.append(path)
        return cls(token, parent, depth, paths)

    @cached_property
    def sees(self) -> NDArray[np.bool_]:
        """[n, n] attention mask: True at ancestors of a node and at the node itself, not node 0."""
        sees = np.eye(len(self.token), dtype=bool)
        for node in range(1, len(self.token)):
            sees[node] |= sees[self.parent[node]]
        return sees

    @cached_property
    def _visits(self) -> tuple[Tensor, Tensor]:
        """The candidate and the edge of each node of the paths."""
        lengths = torch.tensor([len(path) for path in self.paths])
        owner = torch.repeat_interleave(torch.arange(len(self.paths)), lengths)
        return owner, torch.tensor([node - 1 for path in self.paths for node in path])

    def totals(self, edges: Tensor) -> Tensor:
        """Returns the sums [C] of log-probs along the paths, given those [n - 1] of nodes 1..."""
        owner, nodes = (each.to(edges.device) for each in self._visits)
        return edges.new_zeros(len(self.paths)).index_add(0, owner, edges[nodes])


def trees_of(policy: LanguageModel, candidates: Sequence[Sequence[str]]) -> list[Tree]:
    """Returns the tree of each list of candidates. Equal lists have one tree."""
    trees = {texts: Tree.of(policy, texts) for texts in dict.fromkeys(map(tuple, candidates))}
    return [trees[tuple(texts)] for texts in candidates]


Finish = Callable[[Tree, Tensor], Tensor]
"""From a tree and the log-probs of its nodes to a score for each candidate."""


@dataclass
class Forest:
    """Rows of tokens followed by trees of candidates, for one forward pass.

    Attributes:
        inputs: the inputs of the model: token ids and positions [B, T], attention mask. T is the
            largest number of tokens of a row and its trees.
        row: int64 [e] row of each edge, an edge being a node other than a root.
        column: int64 [e] position of its parent, whose hidden state predicts it.
        target: int64 [e] its token.
        trees: the trees.
        place: the index in `trees` of the tree of each list of candidates, which equal ones share.
    """

    inputs: dict[str, Tensor]
    row: Tensor
    column: Tensor
    target: Tensor
    trees: Sequence[Tree]
    place: Sequence[int]

    @classmethod
    def of_choices(cls, policy: LanguageModel, collated: Collated) -> Forest:
        """Returns collated segments followed by the candidates of their choices."""
        at = torch.tensor([choice.place for choice in collated.choices]).to(collated.row.device)
        candidates = [choice.candidates for choice in collated.choices]
        for choice in collated.choices:
            check(policy, choice.prompt, choice.candidates)
        ends = collated.row[at].tolist(), collated.column[at].tolist()
        roots = zip(*ends, candidates, strict=True)
        numbers: dict[tuple[int, int, tuple[str, ...]], int] = {}
        place = [numbers.setdefault(root, len(numbers)) for root in roots]
        rows, columns, texts = zip(*numbers, strict=True)
        lengths = collated.attention_mask.sum(1).cpu().numpy()
        trees = trees_of(policy, texts)
        forest = cls.of(
            policy, collated.tokens, lengths, torch.tensor(rows), torch.tensor(columns), trees
        )
        return replace(forest, place=place)

    @classmethod
    def of(
        cls,
        policy: LanguageModel,
        tokens: Tensor,
        lengths: IntArray,
        rows: Tensor,
        columns: Tensor,
        trees: Sequence[Tree],
    ) -> Forest:
        """Returns rows followed by trees, which take the place of padding.

        Args:
            policy: the model.
            tokens: int64 [B, S] the rows, padded on the right.
            lengths: [B] the lengths of the rows without padding.
            rows: row of each tree.
            columns: position of its root, the last token of the prompt.
            trees: the trees.
        """
        roots = list(zip(rows.tolist(), columns.tolist(), trees, strict=True))
        count, width = tokens.shape
        ends = lengths.copy()
        for row, _, tree in roots:
            ends[row] += len(tree.token) - 1
        whole = int(ends.max())
        fed = np.full((count, whole), policy.pad_token, np.int64)
        fed[:, :width] = tokens.cpu().numpy()
        positions = np.broadcast_to(np.minimum(np.arange(whole), width - 1), fed.shape).copy()
        # Rows attend causally. Every node attends to its prompt, its ancestors and itself.
        inside = np.arange(whole) < lengths[:, None]
        visible = np.tri(whole, dtype=bool) & inside[:, :, None]
        visible[:, range(whole), range(whole)] = True
        next_free = lengths.copy()
        parents = []
        for row, column, tree in roots:
            first = int(next_free[row])
            nodes = slice(first, first + len(tree.token) - 1)
            next_free[row] = nodes.stop
            fed[row, nodes] = tree.token[1:]
            positions[row, nodes] = column + tree.depth[1:]
            visible[row, nodes, : column + 1] = True
            visible[row, nodes, nodes] = tree.sees[1:, 1:]
            parents.append(np.where(tree.parent[1:] == 0, column, first + tree.parent[1:] - 1))
        sizes = torch.tensor([len(tree.token) - 1 for tree in trees])
        inputs = {
            "input_ids": torch.from_numpy(fed),
            "attention_mask": _as_mask(policy, torch.from_numpy(visible)),
            "position_ids": torch.from_numpy(positions),
        }
        device = policy.device
        return cls(
            {name: array.to(device) for name, array in inputs.items()},
            row=torch.repeat_interleave(rows.cpu(), sizes).to(device),
            column=torch.from_numpy(np.concatenate(parents)).to(device),
            target=torch.from_numpy(np.concatenate([t.token[1:] for t in trees])).to(device),
            trees=trees,
            place=range(len(trees)),
        )

    def totals(self, edges: Tensor, finish: Finish = Tree.totals) -> list[Tensor]:
        """Returns the scores [C] of each list of candidates, given the log-probs [e] of edges."""
        lengths = [len(tree.token) - 1 for tree in self.trees]
        parts = zip(self.trees, edges.split(lengths), strict=True)
        found = [finish(tree, some) for tree, some in parts]
        return [found[place] for place in self.place]


def _as_mask(policy: LanguageModel, visible: Tensor) -> Tensor:
    """Returns a mask [..., 1, S, S] as the attention implementation expects it.

    Args:
        policy: the model.
        visible: bool [..., S, S] True where a token attends to another one.
    """
    mask = visible.unsqueeze(-3)
    config = policy.model.config.get_text_config(decoder=True)
    if getattr(config, "_attn_implementation", None) == "sdpa":
        return mask
    dtype = policy.model.get_input_embeddings().weight.dtype
    return torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, torch.finfo(dtype).min)
