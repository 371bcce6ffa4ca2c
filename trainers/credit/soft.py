"""Entropy-regularised credit: the token-level soft Bellman backup.

"Entropy-Regularized Token-Level Policy Optimization for Language Agent Reinforcement" (ETPO, arXiv
2402.06700), for a frozen reference policy rho and a temperature beta:

    V(o, w_<j)      = E_{w ~ pi}[Q(o, w_<j; w)] - beta KL(pi(.|o, w_<j) || rho(.|o, w_<j))
    Q(o, w_<j; w_j) <- V(o, w_<=j)             inside an action
    Q(o, w_<L; w_L) <- r + gamma V(o')         at its end

Expectations and divergences run over the vocabulary, so they come from the model; what is here is
the recursion. (To charge the divergence to the policy as a reward instead, hand
`token_rewards=-beta * kl` to `two_clock.poad()`.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trainers.credit.scan import reverse_scan
from agentgym.trainers.credit.two_clock import Slots, check_fraction, require_values
from agentgym.trainers.trajectory import Batch, FloatArray, Values


def soft_values(expected_q: ArrayLike, kl: ArrayLike, beta: float) -> FloatArray:
    """Soft values, E_{w ~ pi}[Q] - beta KL(pi || rho), of any shape."""
    return (np.asarray(expected_q, np.float64) - beta * np.asarray(kl, np.float64)).astype(
        np.float32
    )


def soft_q_targets(
    batch: Batch,
    values: Values,
    *,
    gamma: float,
    lambda_: float = 0.0,
    kl: ArrayLike | None = None,
    beta: float = 0.0,
) -> FloatArray:
    """Targets for Q of the tokens that were sampled.

    With d = 1 inside an action and gamma at its end, and r = 0 except at an action's end,

        y_k = r_k + d_k [(1 - lambda) V_{k+1} + lambda (y_{k+1} - beta KL_{k+1})]

    which at lambda = 0 is the backup of the paper, and at 1 the sampled soft return.

    Args:
        batch: the trajectories.
        values: soft values (`soft_values`) before each token, of turns and after the last turn.
        gamma: discount of a turn.
        lambda_: trace decay, of tokens and turns alike.
        kl: [K] KL(pi || rho) at each token; needed where lambda_ > 0.
        beta: temperature.

    Returns:
        [K].
    """
    check_fraction("gamma", gamma)
    check_fraction("lambda_", lambda_)
    if lambda_ > 0 and kl is None:
        raise ValueError("A trace (lambda_ > 0) passes over tokens whose kl it needs; got None.")
    values = require_values(values, batch, "tokens")
    assert values.tokens is not None
    slots = Slots.of(batch)
    value, delta, decay = np.empty((3, slots.last[-1] + 1))
    slots.spread(values.tokens, values.turns, out=value)
    value *= 1 - lambda_
    if kl is not None and lambda_ > 0:
        value[slots.of_token] -= lambda_ * beta * np.asarray(kl, np.float64)
    # Every slot is treated as inner first; then the M turn ends and N trajectory ends are patched.
    ends = slots.last[batch.turn_offsets[1:] - 1]
    delta[:-1] = value[1:]
    delta[slots.last[:-1]] *= gamma
    delta[ends] = gamma * np.where(batch.terminated, 0.0, values.bootstrap)
    delta[slots.last] += batch.rewards
    decay[:] = lambda_
    decay[slots.last] *= gamma
    decay[ends] = 0.0
    return slots.tokens(reverse_scan(delta, decay, out=delta))
