"""Advantage normalisation to mean 0 and standard deviation 1."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from agentgym.trainers.credit.scan import Float64
from agentgym.trainers.data.batch import Batch, Credit
from agentgym.trainers.data.trajectory import IntArray

Per = Literal["batch", "env", "task", "agent", "group"]
Over = Literal["tokens", "turns"]


def normalize_advantages(
    credit: Credit,
    batch: Batch,
    per: Per | None = "batch",
    over: Over = "tokens",
    *,
    center: bool = True,
    epsilon: float = 1e-8,
    thought_coef: float = 1.0,
) -> Credit:
    """Returns the credit with advantages (A - mean) / (std + epsilon).

    Tokens contribute to mean and std with their weight in the loss (see `Batch.weights`): forced
    tokens do not. The result always has unit variance, even if the advantages are pure critic
    error. The learning rate of such an update is lower: see `credit.reliability`.

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
        center: whether to subtract the mean.
        epsilon: added to the standard deviation.
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
    if not center:
        advantages += mean if group is None else mean[group]
    # Advantages that are equal up to float32 rounding carry no signal. Do not amplify the noise.
    std = np.where(std > 1e-6 * np.abs(mean), std + epsilon, 1.0)
    advantages /= std if group is None else std[group]
    return replace(credit, advantages=advantages.astype(np.float32))


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
