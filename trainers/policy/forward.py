"""Forward passes with gradients: hidden states of all positions, scores of a few.

Shapes: B rows, S positions, p places, V vocabulary, H hidden.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from agentgym.trainers.policy.collate import pick
from agentgym.trainers.policy.gradient_checkpointing import checkpointed
from agentgym.trainers.policy.language_model import LanguageModel
from agentgym.trainers.policy.last_layer import last_layer_reads
from agentgym.trainers.policy.lm_head import Head, head_reads, scores_in_parts
from agentgym.trainers.policy.shared_attention import Reads, shares_attention
from agentgym.trainers.policy.shared_prefix import run_shared, shared_parts

FEW = 4
"""The last layer is computed where it is read if this is less than 1 / FEW of all places."""


def read(
    policy: LanguageModel,
    row: Tensor,
    column: Tensor,
    others: Sequence[tuple[Tensor, Tensor]] = (),
    /,
    **inputs: Tensor,
) -> tuple[Tensor, Tensor]:
    """Computes the hidden states of rows of tokens.

    Prefixes that rows have in common are computed once if this is faster (`shared_parts`).

    Args:
        policy: the model.
        row: int64 [p] rows of the places to score.
        column: int64 [p] their positions.
        others: rows and positions of the further hidden states to return.
        **inputs: the inputs of the model: token ids [B, S], and mask and positions if needed.

    Returns:
        The hidden states [B, S, H] before the head, undefined at all other places, and the inputs
        [p, ...] of `score_places`.
    """
    policy.check_ids(inputs["input_ids"])
    known = policy.head_output is not None
    # If the operations after the head are unknown, the model has to apply them itself.
    some = (row[:0], column[:0]) if known else (row, column)

    def run(**inputs: Any) -> tuple[Tensor, Tensor]:
        layers = checkpointed(policy.model) if policy.gradient_checkpointing else nullcontext()
        with layers, head_reads(policy.model, lambda hidden: pick(hidden, *some)[None]) as states:
            logits = policy.model(**inputs, use_cache=False).logits
        return states[0], logits[0]

    if parts := shared_parts(policy, **inputs):
        states = run_shared(policy, lambda **its: run(**its)[0], parts, **inputs)
        return states, pick(states, row, column)
    with _last_layer(policy, [(row, column), *others], *inputs["input_ids"].shape):
        states, outputs = run(**inputs)
    return states, pick(states, row, column) if known else outputs


@contextmanager
def _last_layer(
    policy: LanguageModel, places: Sequence[tuple[Tensor, Tensor]], count: int, width: int
) -> Iterator[None]:
    """Context manager in which the last layer is computed at few places, if that is possible."""
    row, column = (torch.cat(each) for each in zip(*places, strict=True))
    few = 0 < len(row) * FEW < count * width
    if not few or policy.gradient_checkpointing or not policy.restricts:
        yield
        return
    reads = Reads.of(row, column, count, width)
    with shares_attention(policy.model), last_layer_reads(policy.model, reads):
        yield


def score_places(
    policy: LanguageModel,
    outputs: Tensor,
    target: Tensor,
    support: tuple[Tensor, Tensor] | None = None,
    temperature: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Returns log-probabilities [p] and entropies [p] of one token per place, with gradients.

    Args:
        policy: the model.
        outputs: [p, ...] from `read`.
        target: int64 [p] the tokens.
        support: offsets and ids as in `distribution.score`.
        temperature: divides the logits.
    """
    model, after = policy.model, policy.head_output
    vocabulary = model.config.get_text_config(decoder=True).vocab_size
    size = max(1, policy.logits_at_once // vocabulary)
    head = Head(lambda logits: logits)
    if after is not None:
        module = model.get_output_embeddings()
        weights = tuple(weight for weight in module.parameters() if weight.requires_grad)
        head = Head(lambda hidden: after(module(hidden)), weights)
    return scores_in_parts(head, outputs, target, support, temperature, size)
