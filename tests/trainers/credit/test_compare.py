"""Estimators side by side: each is what it is alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from agentgym.trainers.credit import group, two_clock
from agentgym.trainers.credit.chunk import ChunkGAE
from agentgym.trainers.credit.compare import side_by_side

from ...helpers.worlds import generators, random_batch, values


@given(rng=generators)
def test_every_estimator_is_the_one_of_that_name(rng):
    batch = random_batch(rng, trajectories=6, min_tokens=1)
    read = values(batch, rng)
    found = side_by_side(batch, read)
    assert np.array_equal(found["poad"], two_clock.poad()(batch, read).advantages)
    assert np.array_equal(found["turn"], two_clock.turn()(batch, read).advantages)
    assert np.array_equal(found["chunk"], ChunkGAE()(batch, read).advantages)
    if "grpo" in found:
        assert np.array_equal(found["grpo"], group.grpo()(batch).advantages)
    assert all(len(advantages) == batch.num_tokens for advantages in found.values())
    assert not {"poad", "ntpo", "bilevel", "turn", "chunk"} & side_by_side(batch, None).keys()
