"""Reads what hooks return to learn from."""

from __future__ import annotations

from typing import Any

import numpy as np

from agentgym.trainers.credit.given import given_credit
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.trajectory import FloatArray, Trajectory


def learn(hooks: Any, fresh: list[Trajectory], iteration: int = 0) -> Learn:
    """Lets hooks choose what is learned from an iteration."""
    return hooks.on_rollout_end(fresh, iteration, np.random.default_rng(0))


def token_weights(found: Learn) -> FloatArray:
    """The weight of each token [K]."""
    return given_credit(Batch.to_learn(found)).advantages


def first_turns(found: Learn) -> list[int]:
    """The number of turns of each trajectory before the first one with a weight."""
    batch = Batch.to_learn(found)
    assert batch.given is not None
    parts = np.split(batch.given, batch.turn_offsets[1:-1])
    return [int(np.argmax(part != 0)) if part.any() else len(part) for part in parts]
