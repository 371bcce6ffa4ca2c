"""Log-probs and entropies of action tokens under the distribution they were sampled from.

The output head is computed for action tokens only, a part of them at a time. Candidates of actions
that were sampled as a whole follow the rows as trees, in the same forward pass.

Shapes: B rows, S positions, k action tokens, b bootstrap positions, V vocabulary, H hidden.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from agentgym.trainers.policy.candidate_trees import Forest
from agentgym.trainers.policy.candidates import choice_scores, choice_totals
from agentgym.trainers.policy.collate import Collated
from agentgym.trainers.policy.distribution import allowed_tokens
from agentgym.trainers.policy.forward import read, score_places
from agentgym.trainers.policy.language_model import LanguageModel


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


def score_actions(policy: LanguageModel, collated: Collated) -> Scores:
    """Returns a policy's scores for the action tokens of collated segments."""
    k = len(collated.target)
    chosen, support = collated.undecided()
    row, column = collated.row[chosen], collated.column[chosen]
    forest = None
    if collated.choices and policy.blocks:
        forest = Forest.of_choices(policy, collated)
        row, column = torch.cat([row, forest.row]), torch.cat([column, forest.column])
        inputs = forest.inputs
    else:
        # No attention mask: padding is on the right, where causal attention ignores it, and plain
        # causal attention is the fastest kind.
        inputs = {"input_ids": collated.tokens}
    outputs, states = read(policy, row, column, collated.reads, **inputs)
    n, temperature = len(chosen), collated.temperature
    logprobs, entropy = score_places(
        policy, outputs[:n], collated.target[chosen], support, temperature
    )
    if n < k:
        logprobs = logprobs.new_zeros(k).index_copy(0, chosen, logprobs)
        entropy = entropy.new_zeros(k).index_copy(0, chosen, entropy)
    if collated.choices:
        at = torch.tensor([choice.place for choice in collated.choices], device=logprobs.device)
        totals = choice_totals(policy, collated.choices, forest, outputs[n:])
        scored = choice_scores(policy, collated, totals)
        logprobs = logprobs.index_copy(0, at, scored[0])
        entropy = entropy.index_copy(0, at, scored[1])
    return Scores(logprobs, entropy, *states)


def read_hidden(policy: LanguageModel, collated: Collated) -> tuple[Tensor, Tensor]:
    """Returns hidden states at action tokens [k, H] and bootstrap positions [b, H]."""
    nowhere = collated.row[:0]
    _, (tokens, ends) = read(policy, nowhere, nowhere, collated.reads, input_ids=collated.tokens)
    return tokens, ends


def all_logprobs(policy: LanguageModel, collated: Collated) -> Tensor:
    """Returns the log-probabilities [k, V] of all tokens in the places of the action tokens.

    They are float32, under the distribution that the token was sampled from: -inf for tokens that
    could not have been sampled. Actions must be sampled token by token.
    """
    outputs, _ = read(policy, collated.row, collated.column, input_ids=collated.tokens)
    if policy.head_output is not None:
        outputs = policy.head_output(policy.model.get_output_embeddings()(outputs))
    logits = outputs.float() / collated.temperature
    if collated.support_offsets is not None and collated.support_ids is not None:
        support = collated.support_offsets, collated.support_ids
        logits = logits.masked_fill(~allowed_tokens(*support, logits.shape[-1]), -torch.inf)
    return logits.log_softmax(-1)
