"""Forward passes with gradients: hidden states of all positions, scores of a few.

Shapes: B rows, S positions, p places, V vocabulary, H hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial

import numpy as np
import torch
from torch import Tensor

from agentgym.trainers.policy.collate import pick
from agentgym.trainers.policy.gradient_checkpointing import checkpointed
from agentgym.trainers.policy.language_model import LanguageModel
from agentgym.trainers.policy.last_layer import last_layer_reads
from agentgym.trainers.policy.lm_head import Head, head_reads, scores_in_parts
from agentgym.trainers.policy.packing import Packing
from agentgym.trainers.policy.shared_attention import Reads, shares_attention

FEW = 4
"""The last layer is computed where it is read if this is less than 1 / FEW of all places."""


def read(
    policy: LanguageModel,
    row: Tensor,
    column: Tensor,
    others: Sequence[tuple[Tensor, Tensor]] = (),
    /,
    **inputs: Tensor,
) -> tuple[Tensor, list[Tensor]]:
    """Computes the hidden states of rows of tokens at some places.

    Rows are packed if this is faster, so that common prefixes are computed once and padding is not.

    Args:
        policy: the model.
        row: int64 [p] rows of the places to score.
        column: int64 [p] their positions.
        others: rows and positions of further hidden states.
        **inputs: the inputs of the model: token ids [B, S], and mask and positions if needed.

    Returns:
        The inputs [p, ...] of `score_places`, and the hidden states before the head of each of the
        others.
    """
    policy.check_ids(inputs["input_ids"])
    places = [(row, column), *others]
    packing = _packing(policy, places, **inputs)
    count, width = inputs["input_ids"].shape
    if packing is not None:
        places, count, width = [packing.packed(each) for each in places], 1, len(packing.source)
    reads = _few(policy, places, count, width)
    packed = None
    if packing is not None:
        packed = packing.everything, None if reads is None else packing.at(reads.columns)
        inputs = packing.inputs(inputs["input_ids"], inputs.get("position_ids"))
    # If the operations after the head are unknown, the model has to apply them itself.
    known = policy.head_output is not None
    some = (row[:0], row[:0]) if known else places[0]
    within: Callable[[], AbstractContextManager[None]] = nullcontext
    if packed is not None or reads is not None:
        within = partial(shares_attention, policy.model, packed)
    with ExitStack() as contexts:
        contexts.enter_context(within())
        if policy.gradient_checkpointing:
            contexts.enter_context(checkpointed(policy.model, within))
        if reads is not None:
            contexts.enter_context(last_layer_reads(policy.model, reads))
        found = contexts.enter_context(
            head_reads(policy.model, lambda hidden: pick(hidden, *some)[None])
        )
        logits = policy.model(**inputs, use_cache=False).logits
    states = [pick(found[0], *each) for each in places]
    return states[0] if known else logits[0], states[1:]


def _packing(
    policy: LanguageModel,
    places: Sequence[tuple[Tensor, Tensor]],
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    position_ids: Tensor | None = None,
) -> Packing | None:
    """Returns the rows up to the last place that is read, packed, or None if whole ones cost less.

    Args:
        policy: the model.
        places: rows and positions that are read.
        input_ids: int64 [B, S] token ids.
        attention_mask: bool [B, 1, S, S] what each token attends to. None: causal.
        position_ids: [B, S] positions. None: the columns.
    """
    if len(input_ids) == 1 or not policy.packs:
        return None
    lengths = np.zeros(len(input_ids), np.int64)
    for row, column in places:
        np.maximum.at(lengths, row.cpu().numpy(), column.cpu().numpy() + 1)
    packing = Packing.of(input_ids, lengths, policy.hidden_size, attention_mask, position_ids)
    return packing if packing.saves else None


def _few(
    policy: LanguageModel, places: Sequence[tuple[Tensor, Tensor]], count: int, width: int
) -> Reads | None:
    """Returns the places, if they are few and the last layer can be computed at them only."""
    row, column = (torch.cat(each) for each in zip(*places, strict=True))
    few = 0 < len(row) * FEW < count * width
    if not few or policy.gradient_checkpointing or not policy.restricts:
        return None
    return Reads.of(row, column, count, width)


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
