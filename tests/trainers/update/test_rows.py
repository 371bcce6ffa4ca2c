"""`Rows`: the steps of behaviour cloning and of critics with a trunk of their own."""

from __future__ import annotations

import numpy as np

from agentgym.trainers.update.learner import Rows


def test_steps_have_rows_of_all_lengths():
    lengths = np.repeat([50, 200, 450], [40, 200, 40])
    rows = Rows([(i, 0) for i in range(280)], lengths, [np.array([i]) for i in range(280)])
    steps = rows.steps(4096, np.random.default_rng(0))
    assert sorted(np.concatenate(steps).tolist()) == list(range(280))
    sizes = [int(lengths[step].sum()) for step in steps]
    assert all(abs(size - 4096) < 450 for size in sizes[:-1])
    # In steps of similar rows, most have one length only.
    assert np.mean([len(set(lengths[step])) == 3 for step in steps]) > 0.8
    again, other = (rows.steps(4096, np.random.default_rng(seed)) for seed in (0, 1))
    assert all((a == b).all() for a, b in zip(steps, again, strict=True))
    assert not (steps[0] == other[0][: len(steps[0])]).all()


def test_a_row_longer_than_a_step_has_one_of_its_own_or_ends_one():
    rows = Rows(
        [(i, 0) for i in range(4)], np.array([9, 30, 9, 9]), [np.array([i]) for i in range(4)]
    )
    steps = rows.steps(10, np.random.default_rng(0))
    assert sorted(np.concatenate(steps).tolist()) == [0, 1, 2, 3]
    assert all(len(step) for step in steps)
