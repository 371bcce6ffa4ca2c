"""Advantages of the same trajectories under several estimators, for comparison."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from agentgym.trainers.credit import graph, group, two_clock
from agentgym.trainers.credit.bilevel import BilevelGAE
from agentgym.trainers.credit.chunk import ChunkGAE
from agentgym.trainers.credit.scan import discounted_returns
from agentgym.trainers.data.batch import Batch, Values
from agentgym.trainers.data.trajectory import FloatArray


def side_by_side(batch: Batch, values: Values | None) -> Mapping[str, FloatArray]:
    """Returns the advantages [K] under every applicable estimator, by name.

    All estimators have their default settings. Without a critic, these are "return" (the discounted
    return-to-go minus the batch mean) and, if episodes form groups, the group-relative estimators.
    A turn-level critic adds "turn" and "chunk". A token-level critic also adds "poad", "ntpo" and
    "bilevel". Estimators with a learned model (archer, spa, istar, ...) are not included.

    Args:
        batch: the trajectories.
        values: values of the critic, or None without a critic.
    """
    returns = discounted_returns(batch.rewards, batch.turn_offsets, 0.99)
    found = {"return": two_clock.broadcast(returns - returns.mean(), batch)}
    if values is not None:
        found["turn"] = two_clock.turn()(batch, values).advantages
        if values.tokens is not None:
            found["poad"] = two_clock.poad()(batch, values).advantages
            found["ntpo"] = two_clock.ntpo()(batch, values).advantages
            found["bilevel"] = BilevelGAE()(batch, values).advantages
        found["chunk"] = ChunkGAE()(batch, values).advantages
    if len(np.unique(batch.groups)) < len(batch.trajectories):
        found["rloo"] = group.rloo()(batch).advantages
        found["grpo"] = group.grpo()(batch).advantages
        found["gigpo"] = group.GiGPO()(batch).advantages
        found["hgpo"] = group.HGPO()(batch).advantages
        found["gagpo"] = graph.GAGPO()(batch).advantages
        found["dr_grpo"] = group.dr_grpo()(batch).advantages
        found["flow_grpo"] = group.flow_grpo()(batch).advantages
    return found
