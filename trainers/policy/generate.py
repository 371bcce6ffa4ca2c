"""The generation loop: batched sampling of actions with a key-value cache.

Tokens are sampled by inverse CDF with uniform numbers from each request's own generator, so a
sample does not depend on the other requests in the batch. The log-probability stored with a token
is that of the distribution it was sampled from, after temperature, constraint, top-k and top-p, in
this order.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentgym.trainers.policy.continuous_batching import Advance, Burst, Refill, Window
from agentgym.trainers.policy.distribution import check_finite, draw
from agentgym.trainers.policy.exploration import TokenMixture
from agentgym.trainers.policy.graph_decoder import GraphDecoder
from agentgym.trainers.policy.language_model import LanguageModel
from agentgym.trainers.policy.prefix_cache import PrefixCache
from agentgym.trainers.policy.request_state import Row
from agentgym.trainers.policy.sampling import Request, Sample, Sampling
from agentgym.trainers.policy.support import listed, places_of

Choice = tuple[int, float, Sequence[int]]
"""A token, its log-probability, and the tokens that could have been sampled."""

Answer = Callable[[Sequence[tuple[Request, Sample]], bool], Sequence[Request]]
"""Takes finished actions, and whether others are in progress, and returns further requests."""


def generate(
    model: LanguageModel,
    requests: Sequence[Request],
    sampling: Sampling,
    cache: PrefixCache | None = None,
    decoder: GraphDecoder | None = None,
) -> list[Sample]:
    """Generates one action for each request.

    Args:
        model: the language model.
        requests: prompts, each with its random generator and optional candidates.
        sampling: sampling parameters.
        cache: key-value cache of earlier prompts. Ignored if the model does not support it or has a
            guide.
        decoder: generates several tokens per look of the host. None: each token is a pass.

    Raises:
        ValueError: if a prompt or a list of candidates is empty, or a prompt and its action
            together exceed the model's maximum length.
    """
    rows = [Row(request, model, sampling) for request in requests]
    waiting = [row for row in rows if not row.done]
    burst = None if decoder is None else decoder.burst(sampling)
    if model.blocks:
        _window(waiting, model, sampling, cache, burst).run()
    else:
        for batch in _batches(waiting, model):
            _Batch(batch, model, _guide(model, sampling), _advance(sampling)).run()
    return finish(rows, model, sampling)


def serve(
    model: LanguageModel,
    requests: Sequence[Request],
    sampling: Sampling,
    cache: PrefixCache | None,
    answer: Answer,
    decoder: GraphDecoder | None = None,
    *,
    eager: bool = False,
) -> None:
    """Generates one action for each request, and for the further requests that `answer` returns.

    Args:
        model: a language model with `blocks`.
        requests: as in `generate`.
        sampling: sampling parameters.
        cache: as in `generate`.
        answer: called with finished actions while others are in progress.
        decoder: as in `generate`.
        eager: further requests begin at once, see `Window`.

    Raises:
        ValueError: as in `generate`.
    """

    def refill(finished: Sequence[Row], busy: bool) -> list[Row]:
        begun: list[Row] = []
        while True:
            samples = finish(finished, model, sampling)
            done = [(row.request, sample) for row, sample in zip(finished, samples, strict=True)]
            rows = [Row(each, model, sampling) for each in answer(done, busy or bool(begun))]
            begun += [row for row in rows if not row.done]
            finished = [row for row in rows if row.done]  # without a choice
            if not finished:
                return begun

    rows = [Row(request, model, sampling) for request in requests]
    waiting = [row for row in rows if not row.done]
    if len(waiting) < len(rows):
        waiting += refill([row for row in rows if row.done], bool(waiting))
    burst = None if decoder is None else decoder.burst(sampling)
    _window(waiting, model, sampling, cache, burst, refill, eager=eager).run()


def _window(
    rows: Sequence[Row],
    model: LanguageModel,
    sampling: Sampling,
    cache: PrefixCache | None,
    burst: Burst | None,
    refill: Refill | None = None,
    *,
    eager: bool = False,
) -> Window:
    guide = _guide(model, sampling)
    cache = cache if guide is None else None
    return Window(rows, model, guide, cache, _advance(sampling), refill, burst, eager=eager)


def _guide(model: LanguageModel, sampling: Sampling) -> LanguageModel | None:
    return model.guide if sampling.temperature > 0 else None


def _advance(sampling: Sampling) -> Advance:
    """Returns a function that samples a token for each row."""

    def advance(ready: Sequence[Row], logits: Tensor, guide_logits: Tensor | None) -> None:
        choices = choose(ready, logits, sampling, guide_logits)
        for row, choice in zip(ready, choices, strict=True):
            row.add(*choice)

    return advance


def finish(rows: Sequence[Row], model: LanguageModel, sampling: Sampling) -> list[Sample]:
    """Counts the work of finished rows and returns their actions."""
    stats = model.stats
    stats.requests += len(rows)
    stats.prompt_tokens += sum(len(row.request.prompt) for row in rows)
    stats.new_tokens += sum(len(row.tokens) for row in rows)
    stats.forced_tokens += sum(row.forced for row in rows)
    return [row.sample(sampling.restricts) for row in rows]


def _batches(rows: list[Row], model: LanguageModel) -> Iterator[list[Row]]:
    """Yields batches of rows with similar lengths, the longest first."""
    rows.sort(key=lambda row: -len(row.pending))
    batch: list[Row] = []
    for row in rows:
        if batch:
            longest, length = len(batch[0].pending), len(row.pending)
            fits = length * 2 > longest if model.padding else length == longest
            if not fits or len(batch) == model.rows_at_once():
                yield batch
                batch = []
        batch.append(row)
    if batch:
        yield batch


class _Batch:
    """Rows of a model without `blocks` (sliding windows, recurrent states), padded on the left.

    A row is removed when its action is complete.
    """

    def __init__(
        self,
        rows: list[Row],
        model: LanguageModel,
        guide: LanguageModel | None,
        advance: Advance,
    ):
        self.rows, self.model, self.guide, self.advance = rows, model, guide, advance
        self.cache, self.mask = model.new_cache(), np.zeros((len(rows), 0), bool)
        self.guide_cache = None if guide is None else guide.new_cache()

    def run(self) -> None:
        """Generates until all rows are done."""
        while self.rows:
            logits, guide = self._read()
            # If the model allows no padding inside a sequence, some rows may still have pending
            # forced tokens.
            ready = [place for place, row in enumerate(self.rows) if not len(row.pending)]
            if not ready:
                continue
            if len(ready) < len(self.rows):
                logits, guide = logits[ready], None if guide is None else guide[ready]
            self.advance([self.rows[place] for place in ready], logits, guide)
            self._let_go()

    def _read(self) -> tuple[Tensor, Tensor | None]:
        """Feeds pending tokens, padded on the left. Returns the model's and the guide's logits."""
        rows, model = self.rows, self.model
        lengths = np.array([len(row.pending) for row in rows])
        if not self.mask.size:
            width = int(lengths.max())
        else:
            # Recurrent models continue from a state by one token at a time.
            width = int(lengths.min()) if model.padding else 1
        positions = np.array([[row.read] for row in rows]) + np.arange(width)
        lengths = np.minimum(lengths, width)
        positions -= width - lengths[:, None]
        block = np.arange(width) >= width - lengths[:, None]
        tokens = np.full(block.shape, model.pad_token, np.int64)
        tokens[block] = np.concatenate([row.feed(width) for row in rows])
        self.mask = np.concatenate([self.mask, block], axis=1)
        model.stats.forward_passes += 1
        model.stats.fed_tokens += int(block.sum())
        model.stats.padded_tokens += int((~block).sum())
        positions = np.maximum(positions, 0)
        logits = model.next_logits(tokens, self.mask, positions, self.cache)
        if self.guide is None:
            return logits, None
        return logits, self.guide.next_logits(tokens, self.mask, positions, self.guide_cache)

    def _let_go(self) -> None:
        """Removes finished rows from the batch."""
        stay = [place for place, row in enumerate(self.rows) if not row.done]
        if len(stay) == len(self.rows):
            return
        self.rows = [self.rows[place] for place in stay]
        self.mask = self.mask[stay]
        if stay:
            self.cache.reorder_cache(torch.tensor(stay))
            if self.guide_cache is not None:
                self.guide_cache.reorder_cache(torch.tensor(stay))


def choose(
    rows: Sequence[Row], logits: Tensor, sampling: Sampling, guide: Tensor | None = None
) -> list[Choice]:
    """Samples the next token of each row.

    Args:
        rows: the b rows.
        logits: [b, V] logits.
        sampling: sampling parameters.
        guide: [b, V] logits that rank tokens for top-k and top-p. If None, `logits` do.

    Returns:
        For each row the token, its log-probability and the tokens that could have been sampled, as
        in `Support.ids` (empty for the whole vocabulary).

    Raises:
        LogitsError: if logits are not finite.
    """
    kinds: dict[tuple[bool, bool], list[int]] = {}
    for place, row in enumerate(rows):
        kinds.setdefault((row.trie is not None, row.spelling is not None), []).append(place)
    choices: list[Choice] = [(0, 0.0, ())] * len(rows)
    for _, places in sorted(kinds.items()):
        some = logits if len(places) == len(rows) else logits[places]
        by = None if guide is None else guide[places]
        found = _choose_alike([rows[place] for place in places], some, sampling, by)
        for place, choice in zip(places, found, strict=True):
            choices[place] = choice
    return choices


def _choose_alike(
    rows: Sequence[Row], logits: Tensor, sampling: Sampling, guide: Tensor | None
) -> list[Choice]:
    """`choose` for rows that all have a trie, all have a spelling, or have neither."""
    ids: list[Sequence[int]] = [
        trie.children(row.node) for row in rows if (trie := row.trie) is not None
    ]
    masks = [spelling.allowed for row in rows if (spelling := row.spelling) is not None]
    if ids:
        logits = _gather_allowed(logits, ids)
        guide = None if guide is None else _gather_allowed(guide, ids)
    if masks:
        logits = _only(logits, masks)
        guide = None if guide is None else _only(guide, masks)
    temperature, mixture = sampling.temperature, None
    if ids and sampling.epsilon:
        mixture = TokenMixture(rows, ids, logits, temperature, sampling.epsilon)
        logits, temperature = mixture.logprobs, 1.0
    uniforms = torch.from_numpy(np.array([row.uniforms[len(row.tokens)] for row in rows]))
    uniforms = uniforms.to(logits.device)
    drawn = draw(logits, uniforms, temperature, sampling.top_k, sampling.top_p, guide)
    columns, logprobs = drawn.column.tolist(), drawn.logprob.tolist()
    check_finite(logprobs)
    if mixture is not None:
        mixture.choose(columns)
    tokens = [some[i] for some, i in zip(ids, columns, strict=True)] if ids else columns
    supports: Sequence[Sequence[int]] = ids or [listed(m) for m in masks] or [()] * len(rows)
    if sampling.restricts:
        supports = places_of(drawn.kept)
        if ids:
            supports = [[some[i] for i in kept] for some, kept in zip(ids, supports, strict=True)]
    return list(zip(tokens, logprobs, supports, strict=True))


def _only(logits: Tensor, masks: Sequence[NDArray[np.bool_]]) -> Tensor:
    """Returns logits [b, V] that are -inf at tokens that a mask [V] does not allow."""
    forbidden = torch.from_numpy(~np.stack(masks)).to(logits.device)
    return logits.masked_fill(forbidden, -torch.inf)


def _gather_allowed(logits: Tensor, ids: Sequence[Sequence[int]]) -> Tensor:
    """Returns the logits [b, C] of the allowed tokens, padded with -inf."""
    width = max(map(len, ids))
    padded = np.zeros((len(ids), width), np.int64)
    allowed = np.arange(width) < np.array([[len(some)] for some in ids])
    padded[allowed] = list(itertools.chain.from_iterable(ids))
    gathered = logits.gather(-1, torch.from_numpy(padded).to(logits.device))
    return gathered.masked_fill(~torch.from_numpy(allowed).to(logits.device), -torch.inf)
