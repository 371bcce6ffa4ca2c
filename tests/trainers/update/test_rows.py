"""`Rows`: the steps of behaviour cloning and of critics with separate backbones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trainers import train
from agentgym.trainers.imitation import behaviour_cloning
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


@given(
    lengths=st.lists(st.integers(1, 200), min_size=1, max_size=30),
    limit=st.integers(1, 5000),
    least=st.integers(1, 6),
)
def test_there_are_as_many_steps_as_asked_for(lengths: list[int], limit: int, least: int):
    places = range(len(lengths))
    rows = Rows([(i, 0) for i in places], np.array(lengths), [np.array([i]) for i in places])
    steps = rows.steps(limit, np.random.default_rng(0), least)
    assert len(steps) >= min(least, len(lengths))
    assert sorted(np.concatenate(steps).tolist()) == [*places] and all(len(s) for s in steps)


@pytest.mark.parametrize(
    ("demonstrations", "tokens", "expected"),
    [(2, 10**6, 2), (4, 10**6, 4), (7, 10**6, 4), (7, None, 7), (17, None, 10)],
)
def test_behaviour_cloning_has_a_least_number_of_steps(
    demonstrations: int, tokens: int | None, expected: int, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    """One row per demonstration, all of which fit into a step."""
    monkeypatch.setattr(behaviour_cloning, "LEAST_STEPS", 30)
    steps: list[int] = []
    real = behaviour_cloning.clip_gradients
    monkeypatch.setattr(
        behaviour_cloning, "clip_gradients", lambda *args: steps.append(1) or real(*args)
    )
    train(
        "poad", env_id="NumberLine-v0", model="nano", context="full",
        bc_demonstrations=demonstrations, bc_epochs=3, bc_batch_tokens=tokens, iterations=0,
        eval_episodes=0, device="cpu", quiet=True, log_with=(), run_dir=str(tmp_path),
    )  # fmt: skip
    assert len(steps) == 3 * expected


def test_a_row_longer_than_a_step_has_one_of_its_own_or_ends_one():
    rows = Rows(
        [(i, 0) for i in range(4)], np.array([9, 30, 9, 9]), [np.array([i]) for i in range(4)]
    )
    steps = rows.steps(10, np.random.default_rng(0))
    assert sorted(np.concatenate(steps).tolist()) == [0, 1, 2, 3]
    assert all(len(step) for step in steps)
