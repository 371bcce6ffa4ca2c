"""How far advantages from a critic may be trusted: their spread, next to the spread of the returns.

Normalised advantages always have unit variance. In a batch in which all episodes have the same
return, they are pure critic error, and the policy takes a full step in a random direction.
Group-relative methods have no such step: the advantages of a group of equal returns are 0 (GRPO,
arXiv 2402.03300, and the filter of DAPO, arXiv 2503.14476).
"""

from __future__ import annotations

import numpy as np

from agentgym.trainers.credit.scan import Float64
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import FloatArray


def reliability(advantages: FloatArray, returns: Float64, batch: Batch) -> float:
    """Returns the standard deviation of returns divided by that of the advantages, at most 1.

    With exact values, Var[A_t] <= Var[G_t | s_t] <= Var[G_t | t], where G_t is the return from turn
    t on: an advantage is the part of the return that the critic could not foresee, and a critic of
    states foresees at least as much as the mean return of all episodes in turn t. What advantages
    vary beyond that is the critic's error. The result is 0 if episodes differ in nothing, and 1
    for a critic that is at least as good as that mean. A state tells the environment and the role
    of an agent, so there is a mean for each of them: a role that always wins against one that
    always loses has learned nothing from the difference.

    The learning rate of the policy is multiplied with it, not the advantages: the steps of Adam do
    not depend on the scale of the gradient. The bound and its use are ours.

    Args:
        advantages: [K] advantages of the batch, before normalisation.
        returns: [M] discounted return from each turn on.
        batch: the trajectories. Only turns that at least two of a role reach are compared. Without
            such turns, the result is 1.
    """
    roles: dict[tuple[str, str], int] = {}
    role = np.array([roles.setdefault((t.env_id, t.role), len(roles)) for t in batch.trajectories])
    place = np.arange(batch.num_turns) - batch.turn_offsets[batch.turn_trajectory]
    place = role[batch.turn_trajectory] * (place.max() + 1) + place
    place = np.unique(place, return_inverse=True)[1]
    count = np.bincount(place)
    mean = np.bincount(place, returns) / count
    # Sample variances: the mean is fitted to the same episodes.
    squares = (returns - mean[place]) ** 2 * (count / np.maximum(count - 1, 1))[place]
    compared = (count > 1)[place][batch.token_turn]
    if not compared.any():
        return 1.0
    signal = float(squares[batch.token_turn][compared].mean())
    if signal <= (1e-6 * np.abs(returns).max()) ** 2:  # equal up to rounding
        return 0.0
    spread = float(np.asarray(advantages, np.float64)[compared].var())
    return 1.0 if spread <= signal else (signal / spread) ** 0.5
