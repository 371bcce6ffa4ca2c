"""Epsilon-greedy exploration over candidates.

An action is sampled uniformly from the C candidates with probability epsilon, and from the policy
otherwise, so that the behaviour distribution is the mixture

    mu(a) = epsilon / C + (1 - epsilon) pi(a).

Token by token, its conditional probabilities mix those of both parts. The weight of the uniform
part is the probability that it sampled the tokens so far, by Bayes' rule, so the product over an
action's tokens is exactly mu(a).

Shapes: b rows, C columns (padded lists of allowed tokens, or candidates).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from agentgym.trainers.policy.request_state import Row


def mix(logprobs: Tensor, uniform: Tensor, odds: Tensor) -> Tensor:
    """Returns the log-probabilities [b, C] of a mixture of the policy and the uniform choice.

    Args:
        logprobs: [b, C] log-probabilities of the policy, -inf at padding.
        uniform: [b, C] those of the uniform choice, -inf at padding.
        odds: [b] log-odds of the uniform choice, log(w / (1 - w)) for its weight w.
    """
    log_sigmoid = torch.nn.functional.logsigmoid
    parts = log_sigmoid(odds)[:, None] + uniform, log_sigmoid(-odds)[:, None] + logprobs
    return torch.logaddexp(*parts)


def mix_candidates(logprobs: Tensor, epsilon: float) -> Tensor:
    """Returns the log-probabilities [b, C] of candidates that are sampled as a whole."""
    uniform = torch.full_like(logprobs, -math.log(logprobs.shape[-1]))
    return mix(logprobs, uniform, logprobs.new_full(logprobs.shape[:1], _log_odds(epsilon)))


class TokenMixture:
    """The next tokens of rows under epsilon-greedy exploration.

    Args:
        rows: b rows with candidates. Each keeps the log-ratio of its tokens so far.
        ids: the allowed tokens of each row.
        logits: [b, C] their logits, padded with -inf.
        temperature: divides the logits.
        epsilon: probability of the uniform choice, in (0, 1).

    Attributes:
        logprobs: [b, C] log-probabilities of the mixture.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        ids: Sequence[Sequence[int]],
        logits: Tensor,
        temperature: float,
        epsilon: float,
    ):
        self._rows = rows
        policy = (logits / temperature).log_softmax(-1)
        uniform = torch.full_like(policy, -torch.inf)
        for i, (row, tokens) in enumerate(zip(rows, ids, strict=True)):
            uniform[i, : len(tokens)] = torch.tensor(_uniform(row, tokens)).to(uniform)
        self._ratio = uniform - policy
        odds = _log_odds(epsilon)
        weights = [row.uniform_ratio + odds if row.request.explores else -torch.inf for row in rows]
        self.logprobs = mix(policy, uniform, torch.tensor(weights).to(policy))

    def choose(self, columns: Sequence[int]) -> None:
        """Adds the sampled tokens to the log-ratios of the rows."""
        for row, ratio, column in zip(self._rows, self._ratio.tolist(), columns, strict=True):
            row.uniform_ratio += ratio[column]


def _log_odds(epsilon: float) -> float:
    return math.log(epsilon) - math.log1p(-epsilon)


def _uniform(row: Row, tokens: Sequence[int]) -> list[float]:
    """Returns the log-probabilities of tokens if all candidates that go on are equally likely."""
    trie, node = row.trie, row.node
    assert trie is not None
    total = math.log(trie.leaves(node))
    return [math.log(trie.leaves(trie.step(node, token))) - total for token in tokens]
