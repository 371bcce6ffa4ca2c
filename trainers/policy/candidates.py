"""Admissible actions: differentiable log-probabilities of a softmax over candidate texts.

Each prompt is computed once. Its candidates follow as one tree of tokens (tree attention), in which
every token attends to the prompt and to its own ancestors. Models that do not support such an
attention mask compute the prompt again for each candidate.

Shapes: B prompts, P prompt tokens, n tree nodes, C candidates, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentgym.trainers.policy.collate import Choice
from agentgym.trainers.policy.distribution import draw
from agentgym.trainers.policy.lm_head import head_reads
from agentgym.trainers.policy.protocol import LanguageModel
from agentgym.trainers.policy.sampling import Normalization, Request, Sample, Sampling
from agentgym.trainers.trajectory import Support

IntArray = NDArray[np.int64]


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
    # Gradient checkpointing disables the key-value cache, which the tree needs.
    checkpointing = policy.model.training and getattr(policy.model, "is_gradient_checkpointing", 0)
    one_tree = policy.blocks and not checkpointing
    totals = (_tree_totals if one_tree else _row_totals)(policy, prompts, candidates)
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
        column, logprob, _ = draw(score[None], uniform, sampling.temperature)
        choice = int(column)
        tokens = np.array(policy.encode_action(texts[choice]), np.int32)
        logprobs = np.zeros(len(tokens), np.float32)
        logprobs[0] = float(logprob)
        forced = Support(np.arange(len(tokens) + 1, dtype=np.int32), tokens)
        samples.append(Sample(tokens, logprobs, forced, texts[choice], True, choice))
    return samples


def choice_scores(
    policy: LanguageModel,
    choices: Sequence[Choice],
    normalization: Normalization,
    temperature: float,
) -> tuple[Tensor, Tensor]:
    """Returns log-probabilities and entropies [c] of sampled candidates, with gradients.

    Args:
        policy: the model.
        choices: the c actions that were sampled as a whole.
        normalization: length normalisation of the scores.
        temperature: sampling temperature, which divides the scores.
    """
    scores = candidate_logprobs(
        policy, [c.prompt for c in choices], [c.candidates for c in choices], normalization
    )
    logprobs = [(score / temperature).log_softmax(-1) for score in scores]
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
        ValueError: as `candidate_logprobs`, and if the model cannot read trees of candidates but
            samples token by token.
    """
    temperature = sampling.temperature

    def finish(tree: _Tree, edges: Tensor) -> Tensor:
        parent = torch.from_numpy(tree.parent[1:]).to(edges.device)
        scaled = edges / temperature
        top = scaled.max()
        sums = scaled.new_zeros(len(tree.token)).index_add(0, parent, (scaled - top).exp())
        return tree.totals(scaled - top - sums.log()[parent])

    training = policy.model.training
    policy.model.eval()
    try:
        with torch.no_grad():
            if sampling.normalization is not None:
                scores = candidate_logprobs(policy, prompts, candidates, sampling.normalization)
                scores = [(score / temperature).log_softmax(-1) for score in scores]
            elif policy.blocks:
                for prompt, texts in zip(prompts, candidates, strict=True):
                    _check(policy, prompt, texts)
                scores = _tree_totals(policy, prompts, candidates, finish)
            else:
                raise ValueError("This model does not read trees of candidates.")
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
    for start in range(0, len(order), policy.batch_size):
        some = order[start : start + policy.batch_size]
        trees = [_Tree.of(policy, candidates[i]) for i in some]
        found = _forest(policy, [prompts[i] for i in some], trees, finish)
        for i, total in zip(some, found, strict=True):
            totals[i] = total
    return [totals[i] for i in range(len(prompts))]


def _forest(
    policy: LanguageModel,
    prompts: Sequence[NDArray[np.int32]],
    trees: Sequence[_Tree],
    finish: Finish,
) -> list[Tensor]:
    """Returns the candidates' total log-probabilities [C] for each prompt's tree."""
    device, model = policy.device, policy.model
    lengths = np.array([len(prompt) for prompt in prompts])
    width, nodes = int(lengths.max()), max(len(tree.token) for tree in trees) - 1
    known = np.arange(width) >= width - lengths[:, None]
    tokens = np.full(known.shape, policy.pad_token, np.int64)
    tokens[known] = np.concatenate(prompts)
    positions = np.maximum(np.arange(width) - (width - lengths[:, None]), 0)
    cache = policy.new_cache()
    first = policy.next_logits(tokens, known, positions, cache)

    # Every node attends to the prompt, its ancestors and itself. Padding attends to the prompt.
    fed = np.full((len(prompts), nodes), policy.pad_token, np.int64)
    places = np.zeros((len(prompts), nodes), np.int64)
    visible = np.zeros((len(prompts), 1, nodes, width + nodes), bool)
    visible[..., :width] = known[:, None, None, :]
    for row, tree in enumerate(trees):
        n = len(tree.token) - 1
        fed[row, :n] = tree.token[1:]
        places[row, :n] = lengths[row] + tree.depth[1:] - 1
        visible[row, 0, :n, width : width + n] = tree.sees[1:, 1:]
    dtype = model.get_input_embeddings().weight.dtype
    mask = torch.zeros(visible.shape, dtype=dtype).masked_fill(
        ~torch.from_numpy(visible), torch.finfo(dtype).min
    )
    # The logits at a node give the log-probs of its children, so only parents need logits.
    pairs = [(row, node) for row, tree in enumerate(trees) for node in _inner(tree)]
    where = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).to(device)
    with head_reads(model, lambda hidden: hidden[where[:, 0], where[:, 1] - 1][None]):
        rest = model(
            input_ids=torch.from_numpy(fed).to(device),
            attention_mask=mask.to(device),
            position_ids=torch.from_numpy(places).to(device),
            past_key_values=cache,
            use_cache=True,
        ).logits[0]
    logprobs = torch.cat([first, rest.float()]).log_softmax(-1)
    number = {pair: len(prompts) + i for i, pair in enumerate(pairs)}
    totals = []
    for row, tree in enumerate(trees):
        at = [number.get((row, int(p)), row) for p in tree.parent[1:]]
        edges = logprobs[torch.tensor(at).to(device), torch.from_numpy(tree.token[1:]).to(device)]
        totals.append(finish(tree, edges))
    return totals


def _inner(tree: _Tree) -> list[int]:
    """Returns the nodes that have children, except node 0."""
    return [int(node) for node in np.unique(tree.parent[1:]) if node]


def _row_totals(
    policy: LanguageModel, prompts: Sequence[NDArray[np.int32]], candidates: Sequence[Sequence[str]]
) -> list[Tensor]:
    """Like `_tree_totals`, for any model: every candidate follows its own copy of the prompt."""
    totals = []
    for prompt, texts in zip(prompts, candidates, strict=True):
        endings = [policy.encode_action(text) for text in texts]
        parts = []
        for start in range(0, len(endings), policy.batch_size):
            parts.append(_rows(policy, prompt, endings[start : start + policy.batch_size]))
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
    first = len(prompt) - 1
    with head_reads(policy.model, lambda hidden: hidden[:, first:-1]):
        logits = policy.model(input_ids=tokens, attention_mask=mask, use_cache=False).logits
    logprobs = logits.float().log_softmax(-1).gather(-1, tokens[:, first + 1 :, None])[..., 0]
    return logprobs.masked_fill(~torch.from_numpy(inside).to(policy.device), 0.0).sum(-1)
