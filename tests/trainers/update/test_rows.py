"""`Rows`: the steps of behaviour cloning and of critics with separate backbones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trainers import train
from agentgym.trainers.imitation import behaviour_cloning
from agentgym.trainers.update.rows import Rows


def rows_of(lengths: Sequence[int], same: Sequence[int] | None = None) -> Rows:
    """Returns rows with one action token each, none of which are equal by default."""
    places = range(len(lengths))
    equal = np.array(places if same is None else same)
    return Rows([(i, 0) for i in places], np.array(lengths), [np.array([i]) for i in places], equal)


def test_steps_have_rows_of_all_lengths():
    lengths = np.repeat([50, 200, 450], [40, 200, 40])
    rows = rows_of(lengths.tolist())
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
    rows = rows_of(lengths)
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
    rows = rows_of([9, 30, 9, 9])
    steps = rows.steps(10, np.random.default_rng(0))
    assert sorted(np.concatenate(steps).tolist()) == [0, 1, 2, 3]
    assert all(len(step) for step in steps)


def test_a_pass_reads_equal_rows_once():
    rows, everything = rows_of([10, 9, 10, 10, 10, 9], [0, 1, 2, 0, 0, 1]), np.arange(6)
    # Two different rows of at most 10 tokens, and the action tokens of three that equal them.
    assert [p.tolist() for p in rows.passes(everything, 23)] == [[1, 5, 0, 3, 4], [2]]
    assert [p.tolist() for p in rows.passes(everything, 22)] == [[1, 5, 0, 3], [4, 2]]
    # Steps of an optimiser have as many rows whether or not they are equal.
    steps = [part.tolist() for part in rows.microbatches(everything, 23)]
    assert steps == [[1, 5], [0, 2], [3, 4]]


def test_a_pass_of_whole_trajectories_counts_the_rows_that_each_repeats():
    same = np.array([0, 0, 0, 3, 0])
    rows = Rows(
        [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0)],
        np.array([10, 10, 10, 10, 10]),
        [np.arange(4) + 4 * i for i in range(5)],
        same,
    )
    everything = np.arange(5)
    assert [p.tolist() for p in rows.passes(everything, 28, together=True)] == [[0, 1, 2, 4], [3]]
    # The repeated rows of the first trajectory have 8 action tokens.
    assert [p.tolist() for p in rows.passes(everything[:4], 27, together=True)] == [[0, 1, 2], [3]]
    # The row that the last one equals is in another minibatch.
    assert [p.tolist() for p in rows.passes(np.array([3, 4]), 20)] == [[3, 4]]


@given(
    rows=st.lists(st.tuples(st.integers(1, 20), st.integers(0, 3)), min_size=1, max_size=30),
    limit=st.integers(20, 200),
)
def test_a_pass_has_no_more_tokens_than_its_limit(rows: list[tuple[int, int]], limit: int):
    """A repeated row counts as its action token."""
    same, lengths = [rows.index(row) for row in rows], [length for length, _ in rows]
    parts = rows_of(lengths, same).passes(np.arange(len(rows)), limit)
    assert sorted(np.concatenate(parts).tolist()) == [*range(len(rows))]
    for part in parts:
        distinct = {same[i] for i in part.tolist()}
        repeated = len(part) - len(distinct)
        assert len(distinct) * max(lengths[i] for i in part) + repeated <= limit or len(part) == 1
    alone = rows_of(lengths)
    assert [p.tolist() for p in alone.passes(np.arange(len(rows)), limit)] == [
        p.tolist() for p in alone.microbatches(np.arange(len(rows)), limit)
    ]


def test_packed_rows_that_begin_alike_share_a_pass():
    prompts = [[i] * 40 for i in range(4)]
    tokens = [np.array(prompt + [9] * n, np.int32) for n in range(1, 6) for prompt in prompts]
    lengths = [len(row) for row in tokens]
    rows = replace(rows_of(lengths), packed=tokens, least=10)
    parts = rows.passes(np.arange(20), 100)
    # Groups of five rows have 59 tokens, of which 41 + 42 + 43 + 44 are common.
    assert [sorted({tokens[i][0] for i in part.tolist()}) for part in parts] == [[0], [1], [2], [3]]
    assert len(rows.passes(np.arange(20), 1000)) == 1
    assert len(replace(rows, packed=None).passes(np.arange(20), 100)) == 10
    assert len(replace(rows, least=1000).passes(np.arange(20), 100)) == 10


@given(
    rows=st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=20), min_size=1, max_size=30),
    limit=st.integers(20, 200),
    least=st.integers(0, 50),
)
def test_a_pass_of_packed_rows_is_padded_or_packed_within_its_limit(rows, limit, least):
    tokens, same = [np.array(row, np.int32) for row in rows], [rows.index(row) for row in rows]
    every = replace(rows_of([len(row) for row in rows], same), packed=tokens, least=least)
    parts = every.passes(np.arange(len(rows)), limit)
    assert sorted(np.concatenate(parts).tolist()) == [*range(len(rows))]
    for part in parts:
        some = [rows[i] for i in {same[i] for i in part.tolist()}]
        padded = len(some) * max(map(len, some))
        trie = len({tuple(row[: n + 1]) for row in some for n in range(len(row))})
        packed = trie if padded - trie > least else padded
        assert packed <= limit or len(part) == 1
