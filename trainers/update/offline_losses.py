"""Losses for data another policy collected: preferences, weighted imitation, utterance critics.

Pure functions of flat tensors, like `losses`. Shapes: k action tokens, b transitions or pairs.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from agentgym.trainers.update.losses import Sum, Weights, aggregate, wide


def advantage_weighted(
    logprobs: Tensor,
    advantages: Tensor,
    *,
    beta: float = 1.0,
    max_weight: float = 20.0,
    weights: Weights | None = None,
) -> Sum:
    """Advantage-weighted regression: -min(exp(beta A), max_weight) log pi.

    Source: "Advantage-Weighted Regression", arXiv 1910.00177 (beta there is 1 / beta here).
    """
    bounded = (beta * wide(advantages).detach()).clamp(max=math.log(max_weight))
    return aggregate(-bounded.exp() * wide(logprobs), weights)


def expectile_loss(difference: Tensor, expectile: float = 0.9) -> Sum:
    """|expectile - 1[u < 0]| u^2 of u = target - value; at 0.5 half the squared error.

    Source: "Offline Reinforcement Learning with Implicit Q-Learning", arXiv 2110.06169, eq. 5.
    """
    u = wide(difference)
    weight = torch.where(u < 0, 1 - expectile, expectile)
    return aggregate(weight * u.square())


def span_sums(x: Tensor, span: Tensor, spans: int) -> Tensor:
    """[spans] sums of x [k] over turns or trajectories numbered 0.. spans - 1."""
    return wide(x).new_zeros(spans).index_add(0, span, wide(x))


def preference_loss(
    chosen: Tensor,
    rejected: Tensor,
    reference_chosen: Tensor,
    reference_rejected: Tensor,
    *,
    beta: float = 0.1,
    label_smoothing: float = 0.0,
) -> Sum:
    """DPO: -log sigmoid(beta [(log pi / ref of the chosen) - (log pi / ref of the rejected)]).

    Log-probabilities are sums over the tokens of a turn (pairs of actions in one state) or of a
    trajectory (pairs from one group): `span_sums`.

    Source: "Direct Preference Optimization", arXiv 2305.18290, eq. 7; label smoothing: cDPO.

    Args:
        chosen: [b] under the policy, with gradient.
        rejected: [b] under the policy, with gradient.
        reference_chosen: [b] under the reference.
        reference_rejected: [b] under the reference.
        beta: temperature.
        label_smoothing: probability that a pair is the wrong way round.
    """
    margin = wide(chosen) - wide(rejected)
    margin = beta * (margin - (wide(reference_chosen) - wide(reference_rejected)).detach())
    right = torch.nn.functional.logsigmoid(margin)
    wrong = torch.nn.functional.logsigmoid(-margin)
    return aggregate(-(1 - label_smoothing) * right - label_smoothing * wrong)


def utterance_targets(
    rewards: Tensor, terminated: Tensor, next_values: Tensor, gamma: float
) -> Tensor:
    """Targets of the two utterance-level Q functions, r + gamma (1 - d) V_k(o').

    Each Q learns from its own target V, no minimum across the two: ArCHer, arXiv 2402.19446.
    A transition that was cut off is not terminated: it keeps its future.

    Args:
        rewards: [b].
        terminated: [b].
        next_values: [2, b] of the target network.
        gamma: discount of a turn.

    Returns:
        [2, b], without gradient.
    """
    future = torch.where(terminated, torch.zeros_like(next_values), wide(next_values))
    return (rewards + gamma * future).detach()


def utterance_advantages(q: Tensor, v: Tensor) -> Tensor:
    """[b] min_k Q_k(o, a) - min_k V_k(o) of q [2, b] and v [2, b] (ArCHer), without gradient."""
    return (q.min(0).values - v.min(0).values).detach()
