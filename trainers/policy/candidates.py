"""Admissible actions: differentiable log-probabilities of a softmax over candidate texts.

Each prompt is computed once. Its candidates follow as one tree of tokens (tree attention), in which
every token attends to the prompt and to its own ancestors. Models that do not support such an
attention mask compute the prompt again for each candidate.

Shapes: B prompts or rows, S positions, P prompt tokens, n tree nodes, C candidates, H hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from agentgym.trainers.data.trajectory import IntArray, Support
from agentgym.trainers.policy.collate import Choice, Collated
from agentgym.trainers.policy.distribution import check_finite, draw
from agentgym.trainers.policy.exploration import mix_candidates
from agentgym.trainers.policy.forward import read, score_places
from agentgym.trainers.policy.language_model import LanguageModel
from agentgym.trainers.policy.sampling import Normalization, Request, Sample, Sampling
from agentgym.trainers.policy.shared_prefix import as_mask


def candidate_logprobs(
    policy: LanguageModel,
    prompts: Sequence[NDArray[np.int32]],
    candidates: Sequence[Sequence[str]],
    normalization: Normalization = "sum",
) -> list[Tensor]:
    """Returns the float32 [C] log-probabilities of the candidates of each prompt.

    Args:
        policy: the model.
        prompts: B arrays of token ids [P].
        candidates: B lists of candidate texts.
        normalization: length normalisation of the scores, see `Policy.score_candidates`.

    Raises:
        ValueError: if the normalization is unknown, a prompt is empty, a prompt has no candidates,
            or a prompt and a candidate together exceed the model's maximum length.
    """
    if normalization not in ("sum", "token", "word"):
        raise ValueError(f"normalization must be sum, token or word, got {normalization!r}.")
    if len(prompts) != len(candidates):
        raise ValueError(f"Got {len(prompts)} prompts but {len(candidates)} lists of candidates.")
    for prompt, texts in zip(prompts, candidates, strict=True):
        _check(policy, prompt, texts)
    totals = (_tree_totals if policy.blocks else _row_totals)(policy, prompts, candidates)
    return _normalized(policy, totals, candidates, normalization)


def _normalized(
    policy: LanguageModel,
    totals: Sequence[Tensor],
    candidates: Sequence[Sequence[str]],
    normalization: Normalization,
) -> list[Tensor]:
    """Returns the log-probabilities [C] of candidates, given the sums of their tokens'."""
    scores = []
    for total, texts in zip(totals, candidates, strict=True):
        lengths = _lengths(policy, texts, normalization)
        scores.append((total / torch.from_numpy(lengths).to(total)).log_softmax(-1))
    return scores


def choose_candidates(
    policy: LanguageModel, requests: Sequence[Request], sampling: Sampling
) -> list[Sample]:
    """Samples one candidate for each request, as a whole. Call it without gradients."""
    assert sampling.normalization is not None
    lists = [request.candidates or () for request in requests]
    prompts = [request.prompt for request in requests]
    samples = []
    scores = candidate_logprobs(policy, prompts, lists, sampling.normalization)
    for request, texts, score in zip(requests, lists, scores, strict=True):
        uniform = torch.tensor([request.rng.random()], dtype=torch.float64, device=score.device)
        if sampling.epsilon and request.explores:
            logprobs = (score[None] / sampling.temperature).log_softmax(-1)
            column, logprob, _ = draw(mix_candidates(logprobs, sampling.epsilon), uniform, 1.0)
        else:
            column, logprob, _ = draw(score[None], uniform, sampling.temperature)
        choice = int(column)
        check_finite(sampled := [float(logprob)])
        tokens = np.array(policy.encode_action(texts[choice]), np.int32)
        logprobs = np.array(sampled + [0.0] * (len(tokens) - 1), np.float32)
        forced = Support(np.arange(len(tokens) + 1, dtype=np.int32), tokens)
        samples.append(Sample(tokens, logprobs, forced, texts[choice], True, choice))
    return samples


def choice_totals(
    policy: LanguageModel, choices: Sequence[Choice], forest: Forest | None, outputs: Tensor
) -> list[Tensor]:
    """Returns the sums [C] of the log-probabilities of each candidate's tokens, for each choice.

    Args:
        policy: the model.
        choices: the actions that were sampled as a whole.
        forest: their trees in the forward pass. None if the model does not support trees.
        outputs: the outputs of `read` at the places of the forest.
    """
    if forest is not None:
        return forest.totals(score_places(policy, outputs, forest.target)[0])
    prompts = [choice.prompt for choice in choices]
    return _row_totals(policy, prompts, [choice.candidates for choice in choices])


def choice_scores(
    policy: LanguageModel, collated: Collated, totals: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Returns log-probabilities and entropies [c] of sampled candidates, with gradients.

    Args:
        policy: the model.
        collated: the segments, with c actions that were sampled as a whole.
        totals: from `choice_totals`.
    """
    choices, normalization = collated.choices, collated.normalization
    assert normalization is not None
    scores = _normalized(policy, totals, [c.candidates for c in choices], normalization)
    logprobs = [(score / collated.temperature).log_softmax(-1) for score in scores]
    chosen = torch.stack([x[c.choice] for x, c in zip(logprobs, choices, strict=True)])
    entropy = torch.stack([-(x.exp() * x).sum() for x in logprobs])
    return chosen, entropy


def sampling_logprobs(
    policy: LanguageModel,
    prompts: Sequence[NDArray[np.int32]],
    candidates: Sequence[Sequence[str]],
    sampling: Sampling,
) -> list[NDArray[np.float32]]:
    """Returns for each prompt the float32 [C] log-probabilities of sampling its candidates.

    With `sampling.normalization`, candidates are sampled as a whole. Else they are sampled token by
    token, each token from those that continue a candidate, as `generate` does; top-k and top-p are
    left out of account.

    Raises:
        LogitsError: if logits are not finite.
        ValueError: as `candidate_logprobs`, and if the model cannot read trees of candidates but
            samples token by token.
    """
    temperature = sampling.temperature

    def finish(tree: _Tree, edges: Tensor) -> Tensor:
        parent = torch.from_numpy(tree.parent[1:]).to(edges.device)
        scaled = edges / temperature
        # Siblings may all be so improbable that only their differences are in the range of exp.
        tops = scaled.new_full((len(tree.token),), -torch.inf)
        scaled = scaled - tops.scatter_reduce(0, parent, scaled, "amax")[parent]
        sums = scaled.new_zeros(len(tree.token)).index_add(0, parent, scaled.exp())
        return tree.totals(scaled - sums.log()[parent])

    training = policy.model.training
    policy.model.eval()
    try:
        with torch.no_grad(), policy.autocast():
            if sampling.normalization is not None:
                scores = candidate_logprobs(policy, prompts, candidates, sampling.normalization)
                scores = [(score / temperature).log_softmax(-1) for score in scores]
            elif policy.blocks:
                for prompt, texts in zip(prompts, candidates, strict=True):
                    _check(policy, prompt, texts)
                scores = _tree_totals(policy, prompts, candidates, finish)
            else:
                raise ValueError("This model does not read trees of candidates.")
        check_finite(float(score.max()) for score in scores)
        return [score.cpu().numpy() for score in scores]
    finally:
        policy.model.train(training)


def _check(policy: LanguageModel, prompt: NDArray[np.int32], texts: Sequence[str]) -> None:
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


def _lengths(policy: LanguageModel, texts: Sequence[str], normalization: Normalization) -> NDArray:
    if normalization == "sum":
        return np.ones(len(texts), np.float32)
    if normalization == "token":
        return np.array([len(policy.encode_action(text)) for text in texts], np.float32)
    return np.array([max(1, len(text.split())) for text in texts], np.float32)


@dataclass
class _Tree:
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
    def of(cls, policy: LanguageModel, texts: Sequence[str]) -> _Tree:
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

    @property
    def sees(self) -> NDArray[np.bool_]:
        """[n, n] attention mask: True at ancestors of a node and at the node itself, not node 0."""
        sees = np.eye(len(self.token), dtype=bool)
        for node in range(1, len(self.token)):
            sees[node] |= sees[self.parent[node]]
        return sees

    def totals(self, edges: Tensor) -> Tensor:
        """Returns the sums [C] of log-probs along the paths, given those [n - 1] of nodes 1..."""
        lengths = torch.tensor([len(path) for path in self.paths])
        owner = torch.repeat_interleave(torch.arange(len(self.paths)), lengths).to(edges.device)
        nodes = torch.tensor([node - 1 for path in self.paths for node in path]).to(edges.device)
        return edges.new_zeros(len(self.paths)).index_add(0, owner, edges[nodes])


Finish = Callable[[_Tree, Tensor], Tensor]
"""From a tree and the log-probs of its nodes to a score for each candidate."""


def _tree_totals(
    policy: LanguageModel,
    prompts: Sequence[NDArray[np.int32]],
    candidates: Sequence[Sequence[str]],
    finish: Finish = _Tree.totals,
) -> list[Tensor]:
    order = sorted(range(len(prompts)), key=lambda i: -len(prompts[i]))
    totals: dict[int, Tensor] = {}
    count = policy.rows_at_once()
    for start in range(0, len(order), count):
        some = order[start : start + count]
        trees = [_Tree.of(policy, candidates[i]) for i in some]
        lengths = torch.tensor([len(prompts[i]) for i in some])
        rows = [torch.from_numpy(np.asarray(prompts[i], np.int64)) for i in some]
        tokens = pad_sequence(rows, batch_first=True, padding_value=policy.pad_token)
        forest = Forest.of(
            policy, tokens, lengths.numpy(), torch.arange(len(some)), lengths - 1, trees
        )
        _, outputs = read(policy, forest.row, forest.column, **forest.inputs)
        edges = score_places(policy, outputs, forest.target)[0]
        totals |= zip(some, forest.totals(edges, finish), strict=True)
    return [totals[i] for i in range(len(prompts))]


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
    """

    inputs: dict[str, Tensor]
    row: Tensor
    column: Tensor
    target: Tensor
    trees: Sequence[_Tree]

    @classmethod
    def of_choices(cls, policy: LanguageModel, collated: Collated) -> Forest:
        """Returns collated segments followed by the candidates of their choices."""
        at = torch.tensor([choice.place for choice in collated.choices]).to(collated.row.device)
        for choice in collated.choices:
            _check(policy, choice.prompt, choice.candidates)
        trees = [_Tree.of(policy, choice.candidates) for choice in collated.choices]
        lengths = collated.attention_mask.sum(1).cpu().numpy()
        rows, columns = collated.row[at], collated.column[at]
        return cls.of(policy, collated.tokens, lengths, rows, columns, trees)

    @classmethod
    def of(
        cls,
        policy: LanguageModel,
        tokens: Tensor,
        lengths: IntArray,
        rows: Tensor,
        columns: Tensor,
        trees: Sequence[_Tree],
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
            "attention_mask": as_mask(policy, torch.from_numpy(visible)),
            "position_ids": torch.from_numpy(positions),
        }
        device = policy.device
        return cls(
            {name: array.to(device) for name, array in inputs.items()},
            row=torch.repeat_interleave(rows.cpu(), sizes).to(device),
            column=torch.from_numpy(np.concatenate(parents)).to(device),
            target=torch.from_numpy(np.concatenate([t.token[1:] for t in trees])).to(device),
            trees=trees,
        )

    def totals(self, edges: Tensor, finish: Finish = _Tree.totals) -> list[Tensor]:
        """Returns the scores [C] of each tree's candidates, given the log-probs [e] of edges."""
        lengths = [len(tree.token) - 1 for tree in self.trees]
        return [finish(t, some) for t, some in zip(self.trees, edges.split(lengths), strict=True)]


def _row_totals(
    policy: LanguageModel, prompts: Sequence[NDArray[np.int32]], candidates: Sequence[Sequence[str]]
) -> list[Tensor]:
    """Like `_tree_totals`, for any model: every candidate follows its own copy of the prompt."""
    totals, count = [], policy.rows_at_once()
    for prompt, texts in zip(prompts, candidates, strict=True):
        endings = [policy.encode_action(text) for text in texts]
        parts = []
        for start in range(0, len(endings), count):
            parts.append(_rows(policy, prompt, endings[start : start + count]))
        totals.append(torch.cat(parts))
    return totals


def _rows(
    policy: LanguageModel, prompt: NDArray[np.int32], endings: Sequence[Sequence[int]]
) -> Tensor:
    lengths = np.array([len(ending) for ending in endings])
    inside = np.arange(lengths.max()) < lengths[:, None]
    tail = np.full(inside.shape, policy.pad_token, np.int64)
    tail[inside] = np.concatenate(endings)
    head = np.broadcast_to(np.asarray(prompt, np.int64), (len(endings), len(prompt)))
    tokens = torch.from_numpy(np.concatenate([head, tail], axis=1)).to(policy.device)
    mask = torch.from_numpy(np.concatenate([np.ones_like(head), inside], axis=1)).to(policy.device)
    row, column = torch.from_numpy(np.stack(np.nonzero(inside))).to(policy.device)
    column = column + len(prompt)
    _, outputs = read(policy, row, column - 1, input_ids=tokens, attention_mask=mask)
    logprobs = score_places(policy, outputs, tokens[row, column])[0]
    return logprobs.new_zeros(len(endings)).index_add(0, row, logprobs)
