"""The decode step of static shapes.

Every row feeds some of the tokens that wait, writes their keys and values at its own columns and,
if none are left, samples the next token. Nothing depends on the host or on the data but the values
of tensors, so the step can be captured as a graph. Rows that are done write to the last column.

Shapes: b rows, n tokens per row, S columns, V vocabulary, C edges of a branch.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from agentgym.trainers.policy.distribution import Draw, draw
from agentgym.trainers.policy.graph_buffers import PENDING, Buffers, RowState
from agentgym.trainers.policy.language_model import LanguageModel
from agentgym.trainers.policy.lm_head import head_reads


class Shape(NamedTuple):
    """Shapes and settings of a step.

    Attributes:
        rows: number of rows b.
        columns: number of columns S. The last one is never read by a row in progress.
        width: number n of tokens that a row feeds at most.
        free: whether there are rows without candidates.
        choices: maximum number C of edges of a branch. 0: no row has candidates.
        temperature: as in `draw`.
        top_k: as in `draw`.
        top_p: as in `draw`.
    """

    rows: int
    columns: int
    width: int
    free: bool
    choices: int
    temperature: float
    top_k: int
    top_p: float

    @property
    def restricts(self) -> bool:
        """Whether the columns that could have been sampled are recorded."""
        return self.temperature > 0 and (self.top_k > 0 or self.top_p < 1)


class _Next(NamedTuple):
    """What follows for each row if it samples a token now: see `RowState`."""

    column: Tensor
    logprob: Tensor
    at: Tensor
    left: Tensor
    branch: Tensor
    ended: Tensor
    drawn: Draw


def decode_step(model: LanguageModel, buffers: Buffers, shape: Shape) -> None:
    """Feeds tokens of the first rows and samples the next ones, in place."""
    state = buffers.rows(shape.rows)
    logits, fed = _forward(model, buffers, shape, state)
    state.at.add_(fed)
    state.left.sub_(fed)
    state.read.add_(fed)
    active = state.active > 0
    ready = active & (state.left == 0)
    last = buffers.capacity.uniforms - 1
    taken = state.taken.clamp(max=last)[:, None]  # rows that are done take no more
    uniforms = buffers.uniforms[: shape.rows].gather(1, taken)[:, 0]
    if not shape.choices:
        following = _free(buffers, shape, state, logits, uniforms)
    elif not shape.free:
        following = _listed(buffers, shape, state, logits, uniforms)
    else:
        free = _free(buffers, shape, state, logits, uniforms)
        following = _either(
            state.listed > 0, _listed(buffers, shape, state, logits, uniforms), free
        )
    if shape.free:
        own = buffers.own_tokens[: shape.rows, 0]
        samples = ready & (state.listed == 0)
        own.copy_(torch.where(samples, following.column, own))
    _record(buffers, shape, ready, following)
    state.at.copy_(torch.where(ready, following.at, state.at))
    state.left.copy_(torch.where(ready, following.left, state.left))
    state.branch.copy_(torch.where(ready, following.branch, state.branch))
    state.taken.add_(following.left.masked_fill(~ready, 0))
    state.active.copy_(active & ~(ready & following.ended))
    buffers.step.add_(1)


def _forward(
    model: LanguageModel, buffers: Buffers, shape: Shape, state: RowState
) -> tuple[Tensor, Tensor]:
    """Returns the logits [b, V] after the tokens that rows feed, and the number [b] of these."""
    device, done = buffers.device, state.active[:, None] == 0
    count = state.left.clamp(max=shape.width)
    # Rows with fewer tokens repeat their last one at its column, as in `Span`.
    inside = torch.minimum(torch.arange(shape.width, device=device), count[:, None] - 1)
    tokens = buffers.tokens[state.at[:, None] + inside]
    places = (state.read[:, None] + inside).masked_fill(done, shape.columns - 1)
    for layer in buffers.layers:
        layer.open(places, shape.columns)
    dtype = buffers.layers[0].dtype
    hidden = torch.arange(shape.columns, device=device) > places[:, None, :, None]
    mask = torch.zeros(hidden.shape, dtype=dtype, device=device)
    inputs = {
        "input_ids": tokens,
        "attention_mask": mask.masked_fill_(hidden, torch.finfo(dtype).min),
        "position_ids": places.masked_fill(done, 0),
        model.cache_name: buffers.cache,
        "use_cache": True,
    }
    rows = torch.arange(shape.rows, device=device)
    with head_reads(model.model, lambda states: states[rows, count - 1][:, None]):
        logits = model.model(**inputs).logits[:, -1].float()
    return logits, count.masked_fill(done[:, 0], 0)


def _draw(shape: Shape, logits: Tensor, uniforms: Tensor) -> Draw:
    return draw(logits, uniforms, shape.temperature, shape.top_k, shape.top_p)


def _free(
    buffers: Buffers, shape: Shape, state: RowState, logits: Tensor, uniforms: Tensor
) -> _Next:
    """Samples from the whole vocabulary."""
    drawn = _draw(shape, logits, uniforms)
    token = drawn.column
    ends = (token[:, None] == buffers.end_tokens).any(-1)
    return _Next(
        column=token,
        logprob=drawn.logprob,
        at=torch.arange(shape.rows, device=buffers.device) * PENDING,
        left=torch.ones_like(token),
        branch=state.branch,
        ended=ends | (state.taken + 1 >= state.limit),
        drawn=drawn,
    )


def _listed(
    buffers: Buffers, shape: Shape, state: RowState, logits: Tensor, uniforms: Tensor
) -> _Next:
    """Samples from the edges of each row's branch."""
    branch = state.branch.clamp(min=0)
    numbers = torch.arange(shape.choices, device=buffers.device)
    allowed = numbers < buffers.count[branch][:, None]
    edges = (buffers.first[branch][:, None] + numbers).masked_fill(~allowed, 0)
    tokens = buffers.tokens[buffers.edges[0, edges]]
    drawn = _draw(shape, logits.gather(-1, tokens).masked_fill(~allowed, -torch.inf), uniforms)
    at, left, target = buffers.edges[:, edges.gather(1, drawn.column[:, None])[:, 0]]
    return _Next(drawn.column, drawn.logprob, at, left, target, target < 0, drawn)


def _either(listed: Tensor, one: _Next, other: _Next) -> _Next:
    """Returns `one` for rows with candidates, and `other` for the rest."""
    both = zip(one[:-1], other[:-1], strict=True)
    wide = torch.full_like(other.drawn.logits, -torch.inf)
    wide[:, : one.drawn.logits.shape[1]] = one.drawn.logits
    logits = torch.where(listed[:, None], wide, other.drawn.logits)
    merged = [torch.where(listed, a, b) for a, b in both]
    return _Next(*merged, drawn=Draw(merged[0], merged[1], logits))


def _record(buffers: Buffers, shape: Shape, ready: Tensor, following: _Next) -> None:
    """Writes the sampled columns of a step."""
    step, rows = buffers.step, shape.rows
    columns = following.column.masked_fill(~ready, -1)
    buffers.columns[:, :rows].index_copy_(0, step, columns[None])
    buffers.logprobs[:, :rows].index_copy_(0, step, following.logprob[None])
    if shape.restricts:
        kept = following.drawn.kept
        buffers.kept[:, :rows, : kept.shape[1]].index_copy_(0, step, kept[None])
