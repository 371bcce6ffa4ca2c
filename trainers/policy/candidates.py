"""Admissible actions: differentiable log-probabilities of a softmax over candidate texts.

Each prompt is computed once. Its candidates follow as one tree of tokens (tree attention), in which
every token attends to the prompt and to its own ancestors. Models that do not support such an
attention mask compute the prompt again for each candidate.

Shapes: B prompts or rows, S positions, P prompt tokens, n tree nodes, C candidates, H hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from agentgym.trainers.data.trajectory import Support
from agentgym.trainers.policy.candidate_trees import Finish, Forest, Tree, check, trees_of
from agentgym.trainers.policy.collate import Choice, Collated
from agentgym.trainers.policy.distribution import check_finite, draw
from agentgym.trainers.policy.exploration import mix_candidates
from agentgym.trainers.policy.forward import read, score_places
from agentgym.trainers.policy.language_model import LanguageModel
from agentgym.trainers.policy.sampling import Normalization, Request, Sample, Sampling

Prompts = Sequence[NDArray[np.int32]]


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

    def score(prompts: Prompts, candidates: Sequence[Sequence[str]]) -> list[Tensor]:
        for prompt, texts in zip(prompts, candidates, strict=True):
            check(policy, prompt, texts)
        totals = (_tree_totals if policy.blocks else _row_totals)(policy, prompts, candidates)
        return _normalized(policy, totals, candidates, normalization)

    return _each_once(score, prompts, candidates)


def _each_once(
    score: Callable[[Prompts, Sequence[Sequence[str]]], list[Tensor]],
    prompts: Prompts,
    candidates: Sequence[Sequence[str]],
) -> list[Tensor]:
    """Returns the scores of all prompts. Prompts recur in groups and buffers, equal ones share."""
    keys = [
        (np.asarray(prompt, np.int64).tobytes(), tuple(texts))
        for prompt, texts in zip(prompts, candidates, strict=True)
    ]
    first = {key: i for i, key in reversed(list(enumerate(keys)))}
    some = sorted(first.values())
    scores = score([prompts[i] for i in some], [candidates[i] for i in some])
    found = dict(zip(some, scores, strict=True))
    return [found[first[key]] for key in keys]


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
    scores = candidate_logprobs(policy, prompts, lists, sampling.normalization)
    uniforms = np.array([request.rng.random() for request in requests])
    drawn: list[tuple[int, float]] = [(0, 0.0)] * len(requests)
    kinds: dict[tuple[int, bool], list[int]] = {}
    for place, (request, score) in enumerate(zip(requests, scores, strict=True)):
        explores = bool(sampling.epsilon) and request.explores
        kinds.setdefault((len(score), explores), []).append(place)
    for (_, explores), places in kinds.items():
        some, temperature = torch.stack([scores[place] for place in places]), sampling.temperature
        if explores:
            logprobs = (some / temperature).log_softmax(-1)
            some, temperature = mix_candidates(logprobs, sampling.epsilon), 1.0
        uniform = torch.from_numpy(uniforms[places]).to(some.device)
        column, logprob, _ = draw(some, uniform, temperature)
        for place, *found in zip(places, column.tolist(), logprob.tolist(), strict=True):
            drawn[place] = found[0], found[1]
    check_finite(logprob for _, logprob in drawn)
    return [
        _whole(policy, texts[choice], choice, logprob)
        for texts, (choice, logprob) in zip(lists, drawn, strict=True)
    ]


def _whole(policy: LanguageModel, text: str, choice: int, logprob: float) -> Sample:
    """Returns a candidate that was sampled as a whole, with its log-probability."""
    tokens = np.array(policy.encode_action(text), np.int32)
    logprobs = np.array([logprob] + [0.0] * (len(tokens) - 1), np.float32)
    forced = Support(np.arange(len(tokens) + 1, dtype=np.int32), tokens)
    return Sample(tokens, logprobs, forced, text, True, choice)


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
    return _each_once(partial(_row_totals, policy), prompts, [each.candidates for each in choices])


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
    # Equal choices share their totals.
    numbers: dict[int, int] = {}
    place = [numbers.setdefault(id(total), len(numbers)) for total in totals]
    some = np.unique(place, return_index=True)[1].tolist()
    scores = _normalized(
        policy, [totals[i] for i in some], [choices[i].candidates for i in some], normalization
    )
    logprobs = [(score / collated.temperature).log_softmax(-1) for score in scores]
    entropy = torch.stack([-(x.exp() * x).sum() for x in logprobs])
    of_choice = torch.tensor(place, device=entropy.device)
    counts = np.array([len(x) for x in logprobs])
    first = (np.cumsum(counts) - counts)[place]
    chosen = torch.from_numpy(first + np.array([choice.choice for choice in choices]))
    return torch.cat(logprobs)[chosen.to(entropy.device)], entropy[of_choice]


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

    def finish(tree: Tree, edges: Tensor) -> Tensor:
        parent = torch.from_numpy(tree.parent[1:]).to(edges.device)
        scaled = edges / temperature
        # Siblings may all be so improbable that only their differences are in the range of exp.
        tops = scaled.new_full((len(tree.token),), -torch.inf)
        scaled = scaled - tops.scatter_reduce(0, parent, scaled, "amax")[parent]
        sums = scaled.new_zeros(len(tree.token)).index_add(0, parent, scaled.exp())
        return tree.totals(scaled - sums.log()[parent])

    def score(prompts: Prompts, candidates: Sequence[Sequence[str]]) -> list[Tensor]:
        for prompt, texts in zip(prompts, candidates, strict=True):
            check(policy, prompt, texts)
        return _tree_totals(policy, prompts, candidates, finish)

    training = policy.model.training
    policy.model.eval()
    try:
        with torch.no_grad(), policy.autocast():
            if sampling.normalization is not None:
                scores = candidate_logprobs(policy, prompts, candidates, sampling.normalization)
                scores = [(score / temperature).log_softmax(-1) for score in scores]
            elif policy.blocks:
                scores = _each_once(score, prompts, candidates)
            else:
                raise ValueError("This model does not read trees of candidates.")
        check_finite(float(score.max()) for score in scores)
        return [score.cpu().numpy().copy() for score in scores]
    finally:
        policy.model.train(training)


def _lengths(policy: LanguageModel, texts: Sequence[str], normalization: Normalization) -> NDArray:
    if normalization == "sum":
        return np.ones(len(texts), np.float32)
    if normalization == "token":
        return np.array([len(policy.encode_action(text)) for text in texts], np.float32)
    return np.array([max(1, len(text.split())) for text in texts], np.float32)


def _tree_totals(
    policy: LanguageModel,
    prompts: Sequence[NDArray[np.int32]],
    candidates: Sequence[Sequence[str]],
    finish: Finish = Tree.totals,
) -> list[Tensor]:
    sizes = [len(policy.trie(texts)[0]) - 1 for texts in candidates]
    widths = [len(prompt) + size for prompt, size in zip(prompts, sizes, strict=True)]
    order = sorted(range(len(prompts)), key=lambda i: -widths[i])
    totals: dict[int, Tensor] = {}
    while len(totals) < len(order):
        some = order[len(totals) :]
        some = some[: policy.rows_at_once(width=widths[some[0]])]
        trees = trees_of(policy, [candidates[i] for i in some])
        lengths = torch.tensor([len(prompts[i]) for i in some])
        rows = [torch.from_numpy(np.asarray(prompts[i], np.int64)) for i in some]
        tokens = pad_sequence(rows, batch_first=True, padding_value=policy.pad_token)
        forest = Forest.of(
            policy, tokens, lengths.numpy(), torch.arange(len(some)), lengths - 1, trees
        )
        outputs, _ = read(policy, forest.row, forest.column, **forest.inputs)
        edges = score_places(policy, outputs, forest.target)[0]
        totals |= zip(some, forest.totals(edges, finish), strict=True)
    return [totals[i] for i in range(len(prompts))]


def _row_totals(
    policy: LanguageModel, prompts: Sequence[NDArray[np.int32]], candidates: Sequence[Sequence[str]]
) -> list[Tensor]:
    """Like `_tree_totals`, for any model: every candidate follows its own copy of the prompt."""
    totals = []
    for prompt, texts in zip(prompts, candidates, strict=True):
        endings = [policy.encode_action(text) for text in texts]
        count = policy.rows_at_once(width=len(prompt) + max(map(len, endings)))
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
    outputs, _ = read(policy, row, column - 1, input_ids=tokens, attention_mask=mask)
    logprobs = score_places(policy, outputs, tokens[row, column])[0]
    return logprobs.new_zeros(len(endings)).index_add(0, row, logprobs)
