"""The scale of advantages: normalisation, and how far those from a critic may be trusted.

Normalised advantages always have unit variance. In a batch in which all episodes have the same
return, they are pure critic error, and the policy takes a full step in a random direction. Its
learning rate is therefore multiplied with the `reliability` of the advantages. Group-relative
methods have no such step: the advantages of a group of equal returns are 0 (GRPO, arXiv 2402.03300,
and the filter of DAPO, arXiv 2503.14476).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from agentgym.trainers.credit.scan import Float64
from agentgym.trainers.data.batch import Batch, Credit
from agentgym.trainers.data.trajectory import FloatArray, IntArray

Per = Literal["batch", "env", "task", "agent", "group"]
Over = Literal["tokens", "turns"]


def normalize_advantages(
    credit: Credit,
    batch: Batch,
    per: Per | None = "batch",
    over: Over = "tokens",
    *,
    thought_coef: float = 1.0,
) -> Credit:
    """Returns the credit with advantages (A - mean) / (std + 1e-8).

    Tokens contribute to mean and std with their weight in the loss (see `Batch.weights`): forced
    tokens do not.

    Args:
        credit: credit whose advantages are normalised.
        batch: its batch.
        per: scope of mean and std. "batch": all tokens. "env": each environment. "task": each
            task of each environment.
            "agent": each agent of each environment. "group": trajectories that start in the same
            state, separately for each agent (Dr. MAS, arXiv 2602.08847, with `over="turns"`). None:
            no normalisation.
        over: "tokens" weights all tokens equally. "turns" weights all turns equally, so that long
            actions do not dominate mean and std (StepPO, arXiv 2604.18401).
        thought_coef: weight of thought tokens in the loss.

    Raises:
        ValueError: if `per` or `over` is unknown.
    """
    if per is None:
        return credit
    if over not in ("tokens", "turns"):
        raise ValueError(f"over must be 'tokens' or 'turns', got {over!r}.")
    labels = _labels(batch, per)
    weight = batch.weights(thought_coef).astype(np.float64)
    if over == "turns":
        totals = np.bincount(batch.token_turn, weight)
        weight /= np.where(totals > 0, totals, 1.0)[batch.token_turn]
    group = None if per == "batch" else labels[batch.turn_trajectory][batch.token_turn]
    advantages = np.array(credit.advantages, np.float64)
    mean = _mean(advantages, weight, group)
    advantages -= mean if group is None else mean[group]
    std = np.sqrt(_mean(advantages**2, weight, group))
    # Advantages that are equal up to float32 rounding carry no signal. Do not amplify the noise.
    std = np.where(std > 1e-6 * np.abs(mean), std + 1e-8, 1.0)
    advantages /= std if group is None else std[group]
    return replace(credit, advantages=advantages.astype(np.float32))


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


def _mean(x: Float64, weight: Float64, group: IntArray | None) -> Float64:
    """Returns the weighted mean of each group (or of all items), 0 if the total weight is 0."""
    if group is None:
        return np.asarray(weight @ x / max(weight.sum(), 1e-12))
    total = np.bincount(group, weight)
    return np.bincount(group, weight * x) / np.maximum(total, 1e-12)


def _labels(batch: Batch, per: Per) -> IntArray:
    """Returns the index of each trajectory's normalisation scope [N]."""
    if per == "batch":
        return np.zeros(len(batch.trajectories), np.int64)
    if per == "group":
        return np.unique(batch.groups, return_inverse=True)[1]
    if per not in ("env", "task", "agent"):
        raise ValueError(
            f"per must be 'batch', 'env', 'task', 'agent', 'group' or None, got {per!r}."
        )
    numbers: dict[tuple[str, str], int] = {}
    names = (
        (t.env_id, {"env": "", "task": t.task, "agent": t.agent}[per]) for t in batch.trajectories
    )
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)
