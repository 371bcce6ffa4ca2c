from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Segment, Support, Trajectory, Turn
from agentgym.trainers.policy.collate import collate, segment_rows
from agentgym.trainers.update.rows import Rows


@st.composite
def batches(draw):
    """Trajectories with several turns in a segment, segments without turns, mixed supports."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    trajectories = []
    for number in range(draw(st.integers(1, 4))):
        segments, turns = [], []
        for segment in range(draw(st.integers(1, 3))):
            tokens = [rng.integers(0, 50, size=rng.integers(1, 6))]
            for _ in range(int(rng.integers(0 if segment else 1, 4))):
                start = sum(map(len, tokens))
                length = int(rng.integers(1, 5))
                action = rng.integers(0, 50, size=length)
                support = None
                if rng.random() < 0.5:
                    sets = [np.unique([token, *rng.integers(0, 50, size=3)]) for token in action]
                    offsets = np.cumsum([0, *map(len, sets)]).astype(np.int32)
                    support = Support(offsets, np.concatenate(sets).astype(np.int32))
                turns.append(turn(segment, start, start + length, rng, support))
                tokens += [action, rng.integers(0, 50, size=rng.integers(0, 4))]
            segments.append(Segment(np.concatenate(tokens).astype(np.int32)))
        bootstrap = int(rng.integers(len(segments))) if rng.random() < 0.5 else None
        trajectories.append(
            Trajectory(
                "Test", str(number), number, segments, turns, bootstrap is None,
                bootstrap is not None, False, bootstrap,
            )
        )  # fmt: skip
    # Some come again, or differ in their last tokens only.
    for trajectory in draw(st.lists(st.sampled_from(trajectories), max_size=3)):
        cut, end = draw(st.sampled_from([(0, []), (0, [50]), (1, [50])]))
        kept = [segment.tokens[: len(segment.tokens) - cut] for segment in trajectory.segments]
        segments = [Segment(np.append(tokens, end).astype(np.int32)) for tokens in kept]
        trajectories.append(replace(trajectory, segments=segments))
    return Batch.of(trajectories)


def turn(segment, start, stop, rng, support):
    logprobs = rng.standard_normal(stop - start).astype(np.float32)
    return Turn(segment, start, stop, logprobs, support, "", "", 0.0, {}, True, 0.0, "")


@settings(deadline=None)
@given(batches())
def test_without_bootstrap_values_a_row_ends_with_its_last_action(batch):
    rows = Rows.of(batch, bootstrap=False)
    got = collate(batch, rows.rows, pad_id=99, bootstrap=False)
    whole = collate(batch, rows.rows, pad_id=99)
    assert not len(got.bootstrap_row)
    for name in ("column", "target", "index"):
        assert torch.equal(getattr(got, name), getattr(whole, name))
    for read in (got, whole):
        assert torch.equal(read.tokens[read.row, read.column + 1], read.target)
    lengths = got.attention_mask.sum(1)
    assert lengths.tolist() == rows.lengths[np.unique(rows.same)].tolist()
    for row, length in enumerate(lengths.tolist()):
        assert got.column[got.row == row].max() == length - 2


@settings(deadline=None)
@given(batches(), st.randoms(use_true_random=False))
def test_collate_says_where_everything_is(batch, random):
    rows = segment_rows(batch)
    random.shuffle(rows)
    rows = rows[: random.randint(1, len(rows))]
    got = collate(batch, rows, pad_id=99, temperature=0.5)
    assert got.temperature == 0.5

    segments = [tuple(batch.trajectories[n].segments[s].tokens.tolist()) for n, s in rows]
    distinct = list(dict.fromkeys(segments))  # each in one row
    assert len(got.tokens) == len(distinct)
    expected = []
    token = 0
    for n, trajectory in enumerate(batch.trajectories):
        for turn in trajectory.turns:
            for j, position in enumerate(range(turn.start, turn.stop)):
                if (n, turn.segment) in rows:
                    place = rows.index((n, turn.segment))
                    row = distinct.index(segments[place])
                    tokens = trajectory.segments[turn.segment].tokens
                    allowed = []
                    if turn.support is not None:
                        allowed = turn.support.ids[slice(*turn.support.offsets[j : j + 2])].tolist()
                    where = row, token, position - 1, tokens[position], allowed
                    expected.append((place, token, where))
                token += 1
    offsets, ids = got.support_offsets, got.support_ids
    if offsets is None or ids is None:
        sets = [[] for _ in expected]
    else:
        sets = [ids[offsets[i] : offsets[i + 1]].tolist() for i in range(len(expected))]
    flat = (got.row.tolist(), got.index.tolist(), got.column.tolist(), got.target.tolist(), sets)
    assert list(zip(*flat, strict=True)) == [where for *_, where in sorted(expected)]

    for row, tokens in enumerate(distinct):
        padding = [99] * (got.tokens.shape[1] - len(tokens))
        assert got.tokens[row].tolist() == [*tokens, *padding]
        assert got.attention_mask[row].sum() == len(tokens)
        assert got.attention_mask[row, : len(tokens)].all()
    ends = {n: (n, segment) for n, segment in rows if batch.trajectories[n].bootstrap == segment}
    assert sorted(got.bootstrap_trajectory.tolist()) == sorted(ends)
    for row, column, n in zip(
        got.bootstrap_row.tolist(), got.bootstrap_column.tolist(),
        got.bootstrap_trajectory.tolist(), strict=True,
    ):  # fmt: skip
        tokens = segments[rows.index(ends[n])]
        assert distinct[row] == tokens and column == len(tokens) - 1


@given(batches())
def test_all_rows_cover_every_token_once(batch):
    rows = segment_rows(batch)
    got = collate(batch, rows, 0)
    assert sorted(got.index.tolist()) == list(range(batch.num_tokens))
    waiting = [n for n, t in enumerate(batch.trajectories) if t.bootstrap is not None]
    assert sorted(got.bootstrap_trajectory.tolist()) == waiting


def make(start):
    rng = np.random.default_rng(0)
    segment = Segment(np.arange(5, dtype=np.int32))
    turns = [turn(0, start, 3, rng, None)]
    return Batch.of([Trajectory("Test", "0", 0, [segment], turns, True, False, False)])


def test_what_cannot_be_collated():
    with pytest.raises(ValueError, match="at least one"):
        collate(make(1), [], 0)
    with pytest.raises(ValueError, match="position 0"):
        collate(make(0), [(0, 0)], 0)
    with pytest.raises(ValueError, match="temperature must be positive"):
        collate(make(1), [(0, 0)], 0, temperature=0)
