"""One reverse linear recurrence, the engine of every estimator here.

    A_k = delta_k + decay_k * A_{k+1},    A after the end = 0

A trajectory ends where `decay` is 0, so one scan over the flat axis serves a whole ragged batch.
The axis is cut in rows; all rows advance together, one column at a time, first to learn what each
row does to what enters it (an affine map, and affine maps compose: a shorter recurrence over rows,
solved by the same function), then once more with the right value entering. O(K) work, vectorised.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentgym.trainers.trajectory import IntArray

Float64 = NDArray[np.float64]

# Odd: at a power-of-two row length, the transposed copies fall into few cache sets (2x slower).
_ROW = 33
# A piece and its copies stay in the cache; fresh memory costs more than the arithmetic.
_PIECE = _ROW * 8192


def reverse_scan(delta: ArrayLike, decay: ArrayLike, out: Float64 | None = None) -> Float64:
    """Solves A_k = delta_k + decay_k * A_{k+1} for all k.

    Args:
        delta: [K] finite.
        decay: [K] finite; 0 where nothing comes from the right.
        out: [K] where the result goes, say `delta` itself; None: a new array.

    Returns:
        [K] in float64.
    """
    delta, decay = np.asarray(delta, np.float64), np.asarray(decay, np.float64)
    if delta.ndim != 1 or delta.shape != decay.shape:
        raise ValueError(
            f"Expected two vectors of one length; got shapes {delta.shape} and {decay.shape}."
        )
    if out is None:
        out = np.empty_like(delta)
    carry, size = 0.0, len(delta)
    for start in reversed(range(0, size, _PIECE)):
        piece = slice(start, min(start + _PIECE, size))
        out[piece] = _scan_piece(delta[piece], decay[piece], carry)
        carry = out[start]
    return out


def _scan_piece(delta: Float64, decay: Float64, carry: float) -> Float64:
    """The recurrence for one piece, `carry` entering on the right of a piece of whole rows."""
    size = len(delta)
    row = min(_ROW, size)
    terms, factors = np.empty((2, row, -(-size // row)))
    _cut(delta, terms)
    _cut(decay, factors)
    entering = np.full(terms.shape[1], carry)
    if len(entering) > 1:
        start, factor = terms[-1].copy(), factors[-1].copy()
        for j in range(row - 2, -1, -1):
            start *= factors[j]
            start += terms[j]
            factor *= factors[j]
        start[-1] += factor[-1] * carry
        factor[-1] = 0.0
        entering[:-1] = reverse_scan(start, factor)[1:]
    for j in range(row - 1, -1, -1):
        factors[j] *= entering
        terms[j] += factors[j]
        entering = terms[j]
    return terms.T.reshape(-1)[:size]


def _cut(vector: Float64, out: Float64) -> None:
    """Cuts a vector in rows of len(out), which become the columns of `out`; pads with zeros."""
    row = len(out)
    full = len(vector) // row
    out[:, :full] = vector[: full * row].reshape(full, row).T
    if full < out.shape[1]:
        rest = vector[full * row :]
        out[: len(rest), full] = rest
        out[len(rest) :, full] = 0.0


def discounted_returns(
    rewards: ArrayLike, offsets: IntArray, gamma: float, bootstrap: ArrayLike | None = None
) -> Float64:
    """Discounted return to go, G_i = r_i + gamma * G_{i+1} inside each span.

    Args:
        rewards: [M] rewards.
        offsets: [N + 1]; span n is `offsets[n]:offsets[n + 1]`. None may be empty.
        gamma: discount of one step.
        bootstrap: [N] what follows the last step of each span (0 where it terminated).

    Returns:
        [M] in float64.
    """
    rewards = np.array(rewards, np.float64)
    last = offsets[1:] - 1
    decay = np.full(len(rewards), float(gamma))
    decay[last] = 0.0
    if bootstrap is not None:
        rewards[last] += gamma * np.asarray(bootstrap, np.float64)
    return reverse_scan(rewards, decay)
