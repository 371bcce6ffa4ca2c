"""Losses and targets for off-policy data: expectiles and utterance-level critics.

Pure functions of flat tensors, like `losses`. Shapes: k action tokens, b transitions.
"""

from __future__ import annotations

import torch
from torch import Tensor

from agentgym.trainers.update.losses import Sum, aggregate, wide


def expectile_loss(difference: Tensor, expectile: float = 0.9) -> Sum:
    """Returns the expectile loss |expectile - 1[u < 0]| u^2 of u = target - value.

    At expectile 0.5 it is half the squared error.

    Source: "Offline Reinforcement Learning with Implicit Q-Learning", arXiv 2110.06169, eq. 5.

    Args:
        difference: [b] target - value, with gradient.
        expectile: the expectile in (0, 1).
    """
    u = wide(difference)
    weight = torch.where(u < 0, 1 - expectile, expectile)
    return aggregate(weight * u.square())


def span_sums(x: Tensor, span: Tensor, spans: int) -> Tensor:
    """Returns the sums of x over turns or trajectories.

    Args:
        x: [k] a number per token.
        span: [k] index of the turn or trajectory of each token, in 0..spans - 1.
        spans: number of turns or trajectories.

    Returns:
        [spans] sums.
    """
    return wide(x).new_zeros(spans).index_add(0, span, wide(x))


def utterance_targets(
    rewards: Tensor, terminated: Tensor, next_values: Tensor, gamma: float
) -> Tensor:
    """Returns the targets of the twin utterance-level Q functions, r + gamma (1 - d) V_k(o').

    Each Q has its own target V, without a minimum over the two (ArCHer, arXiv 2402.19446). A
    truncated transition is not terminated, so its target bootstraps.

    Args:
        rewards: [b] rewards.
        terminated: [b] whether the episode terminated.
        next_values: [2, b] values of the next observations by the target networks.
        gamma: discount per turn.

    Returns:
        [2, b] targets, without gradient.
    """
    future = torch.where(terminated, torch.zeros_like(next_values), wide(next_values))
    return (rewards + gamma * future).detach()


def utterance_advantages(q: Tensor, v: Tensor) -> Tensor:
    """Returns the advantages min_k Q_k(o, a) - min_k V_k(o) of ArCHer (arXiv 2402.19446).

    Args:
        q: [2, b] twin Q.
        v: [2, b] twin V.

    Returns:
        [b] advantages, without gradient.
    """
    return (q.min(0).values - v.min(0).values).detach()
