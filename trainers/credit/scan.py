"""The reverse linear recurrence used by all estimators, vectorised.

    A_k = delta_k + decay_k * A_{k+1},    A after the end = 0

`decay` is 0 at the end of a trajectory, so one scan over the flat axis covers a ragged batch. The
axis is split into rows and all rows advance together, one column at a time. A first pass computes
the affine map of each row from its incoming value to its result. Affine maps compose, so the
incoming values solve a shorter recurrence over rows (by recursion). A second pass inserts them. The
total work is O(K).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentgym.trainers.data.trajectory import IntArray

Float64 = NDArray[np.float64]

# Odd, because with a power-of-two row length the transposed copies map to few cache sets.
_ROW = 33
# A piece and its copies fit in the cache. Allocating new memory costs more than the arithmetic.
_PIECE = _ROW * 8192


def reverse_scan(delta: ArrayLike, decay: ArrayLike, out: Float64 | None = None) -> Float64:
    """Solves A_k = delta_k + decay_k * A_{k+1} for all k.

    Args:
        delta: [K] finite values.
        decay: [K] finite values, 0 at the end of each trajectory.
        out: [K] output array, which may be `delta` itself. If None, a new array is created.

    Returns:
        float64 [K] solution.

    Raises:
        ValueError: if the inputs are not vectors of one length.
    """
    delta, decay = np.asarray(delta, np.float64), np.asarray(decay, np.float64)
    if delta.ndim != 1 or delta.shape != decay.shape:
        raise ValueError(
            f"Expected two vectors of one length, got shapes {delta.shape} and {decay.shape}."
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
    """Solves the recurrence for one piece, with `carry` as the value after its last row."""
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
    """Splits a vector into rows of len(out), padded with zeros, as the columns of `out`."""
    row = len(out)
    full = len(vector) // row
    out[:, :full] = vector[: full * row].reshape(full, row).T
    if full < out.shape[1]:
        rest = vector[full * row :]
        out[: len(rest), full] = rest
        out[len(rest) :, full] = 0.0


def discounted_returns(rewards: ArrayLike, offsets: IntArray, gamma: float) -> Float64:
    """Returns the discounted return-to-go, G_i = r_i + gamma * G_{i+1} inside each span.

    Args:
        rewards: [M] rewards.
        offsets: [N + 1] offsets. Span n is `offsets[n]:offsets[n + 1]` and must not be empty.
        gamma: discount per step.

    Returns:
        float64 [M] returns-to-go.
    """
    rewards = np.asarray(rewards, np.float64)
    decay = np.full(len(rewards), float(gamma))
    decay[offsets[1:] - 1] = 0.0
    return reverse_scan(rewards, decay)
