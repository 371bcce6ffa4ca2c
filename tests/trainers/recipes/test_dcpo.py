"""DCPO: a trajectory counts once however many segments it has, and a sample of them is learned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.trainers.credit import group
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Segment, Trajectory
from agentgym.trainers.recipes import dcpo

from ...helpers.worlds import generators, random_batch, trajectory

few = settings(max_examples=30, deadline=None)


def in_segments(whole: Trajectory, segments: int) -> Trajectory:
    """The trajectory as if the context had been edited before some of its turns."""
    count = len(whole.turns)
    parts = [min(n * segments // count, segments - 1) for n in range(count)]
    turns = [replace(turn, segment=p) for turn, p in zip(whole.turns, parts, strict=True)]
    return replace(whole, turns=turns, segments=[Segment(whole.segments[0].tokens)] * segments)


def sampled(fresh: list[Trajectory], count: int, seed: int = 0) -> tuple[list[Trajectory], dict]:
    hooks = dcpo.SegmentSample(count)
    found = hooks.on_rollout_end(fresh, 0, np.random.default_rng(seed)).trajectories
    return list(found), hooks.metrics


def kept_of(each: Trajectory) -> set[int]:
    return {turn.segment for turn in each.turns if turn.weight}


@given(generators)
@few
def test_credit_does_not_depend_on_edits(rng):
    """The oracle: the same episodes without edits, in one segment each, under GRPO."""
    plain = random_batch(rng, min_tokens=1).trajectories
    edited = [in_segments(each, int(rng.integers(1, len(each.turns) + 1))) for each in plain]
    found, _ = sampled(edited, 3)
    credit = dcpo.build(dcpo.Config()).estimator
    assert credit is not None
    expected = group.grpo()(Batch.of(plain)).advantages
    assert np.array_equal(credit(Batch.of(found), None).advantages, expected)


def test_counting_segments_instead_of_trajectories_would_bias_the_baseline():
    """Golden numbers: returns 1 (in three segments) and 0 have the mean 1/2, not 3/4."""
    two = [in_segments(trajectory([1] * 3, [0, 0, 1.0]), 3), trajectory([1], [0.0])]
    found, _ = sampled(two, 4)
    algorithm = dcpo.build(dcpo.Config.of(scale=False))
    assert algorithm.signal.assign(Batch.of(found), None).advantages.tolist() == [
        0.5,
        0.5,
        0.5,
        -0.5,
    ]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(1, 20), generators)
@few
def test_segments_are_drawn_from_all_trajectories_in_turn(sizes, count, rng):
    drawn = dcpo.draw([range(size) for size in sizes], count, rng)
    assert sum(map(len, drawn)) == min(count, sum(sizes))
    assert all(chosen <= set(range(size)) for chosen, size in zip(drawn, sizes, strict=True))
    for chosen, size in zip(drawn, sizes, strict=True):  # nobody is more than one ahead
        assert len(chosen) >= min(size, max(map(len, drawn)) - 1)


def test_segments_of_a_trajectory_are_equally_likely():
    rng = np.random.default_rng(0)
    counts = np.zeros(4)
    for _ in range(2000):
        counts[list(dcpo.draw([range(4), range(1)], 2, rng)[0])] += 1
    assert counts / counts.sum() == pytest.approx(0.25, abs=0.04)


def test_turns_outside_of_the_sample_have_no_weight_in_the_loss():
    some = [in_segments(trajectory([2] * 6, [0.0] * 6), 6) for _ in range(2)]
    some.append(trajectory([2], [1.0], seed=1))  # another group
    found, metrics = sampled(some, 4)
    assert [len(kept_of(each)) for each in found] == [2, 2, 1]
    weights = Batch.of(found).weights()
    assert weights.sum() == 2 * (2 + 2 + 1)
    assert metrics == {"segments": pytest.approx(13 / 3), "segments_in_loss": pytest.approx(5 / 13)}
    assert all(turn.weight == 1 for each in some for turn in each.turns)  # those are as before
    everything, _ = sampled(some, 12)
    assert Batch.of(everything).weights().min() == 1
