"""Log-probs and entropies of action tokens under the distribution they were sampled from.

The output head is computed for action tokens only. If there are many of them, it is computed in
parts.

Shapes: B rows, S positions, k action tokens, b bootstrap positions, V vocabulary, H hidden.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from agentgym.trainers.policy.candidates import choice_scores
from agentgym.trainers.policy.collate import Collated
from agentgym.trainers.policy.distribution import score
from agentgym.trainers.policy.lm_head import head_reads, scores_in_parts
from agentgym.trainers.policy.protocol import LanguageModel


class Scores(NamedTuple):
    """Output of a forward pass for the action tokens of a `Collated`, with gradients.

    Attributes:
        logprobs: float32 [k] log-probabilities under the distribution that was sampled from.
        entropy: float32 [k] entropy of that distribution, in nats.
        hidden: [k, H] hidden states that predict the action tokens (the inputs of the head).
        bootstrap_hidden: [b, H] hidden states at the bootstrap positions.
    """

    logprobs: Tensor
    entropy: Tensor
    hidden: Tensor
    bootstrap_hidden: Tensor


class Scored(LanguageModel, Protocol):
    """Protocol of a language model that scores actions.

    Attributes:
        plain_head: whether logits are the output of the head, without further operations.
        logits_at_once: maximum number of logits held in memory.
    """

    plain_head: bool
    logits_at_once: int


def score_actions(policy: Scored, collated: Collated) -> Scores:
    """Returns a policy's scores for the action tokens of collated segments."""
    model, k = policy.model, len(collated.target)
    chosen, support = collated.undecided()
    target, temperature = collated.target[chosen], collated.temperature
    places = collated.row[chosen], collated.column[chosen]
    vocabulary = model.config.get_text_config(decoder=True).vocab_size
    if policy.plain_head and len(chosen) * vocabulary > policy.logits_at_once:
        states = read_hidden(model, collated)
        size = max(1, policy.logits_at_once // vocabulary)
        scored = scores_in_parts(
            model.get_output_embeddings(), states[places], target, support, temperature, size
        )
    else:
        states, logits = _read(model, collated, lambda hidden: hidden[places][None])
        scored = score(logits[0], target, support, temperature)
    logprobs, entropy = scored
    if len(chosen) < k:
        logprobs = logprobs.new_zeros(k).index_copy(0, chosen, logprobs)
        entropy = entropy.new_zeros(k).index_copy(0, chosen, entropy)
    if collated.choices:
        assert collated.normalization is not None
        at = torch.tensor([choice.place for choice in collated.choices], device=target.device)
        scored = choice_scores(policy, collated.choices, collated.normalization, temperature)
        logprobs = logprobs.index_copy(0, at, scored[0])
        entropy = entropy.index_copy(0, at, scored[1])
    return Scores(logprobs, entropy, *collated.places(states))


def read_hidden(model: Any, collated: Collated) -> Tensor:
    """Returns the hidden states [B, S, H] before the head."""
    return _read(model, collated, lambda hidden: hidden[:, :0])[0]


def _read(
    model: Any, collated: Collated, pick: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """Returns the hidden states [B, S, H] before the head, and the logits of the picked ones."""
    # No attention mask: padding is on the right, where causal attention ignores it, and plain
    # causal attention is the fastest kind.
    with head_reads(model, pick) as states:
        logits = model(input_ids=collated.tokens, use_cache=False).logits
    return states[0], logits
