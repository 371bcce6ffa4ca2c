from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trainers.credit.scan import discounted_returns, reverse_scan

from ...helpers.worlds import generators


def loop(delta, decay):
    out, after = np.zeros(len(delta)), 0.0
    for k in range(len(delta) - 1, -1, -1):
        after = delta[k] + decay[k] * after
        out[k] = after
    return out


@given(generators, st.integers(0, 5000), st.floats(0, 1))
def test_it_equals_the_loop(rng, size, ends):
    delta = rng.normal(size=size)
    decay = rng.uniform(0, 1, size) * (rng.random(size) > ends)
    assert np.allclose(reverse_scan(delta, decay), loop(delta, decay), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "size", [0, 1, 2, 32, 33, 34, 66, 1089, 1090, 35937, 35938, 270_336, 270_337, 600_000]
)
def test_it_equals_the_loop_where_rows_end(size):
    rng = np.random.default_rng(size)
    delta, decay = rng.normal(size=size), rng.choice([1.0, 0.95], size)
    assert np.allclose(reverse_scan(delta, decay), loop(delta, decay), rtol=1e-10, atol=1e-9)


def test_the_result_may_replace_an_argument():
    rng = np.random.default_rng(0)
    delta, decay = rng.normal(size=300_000), rng.choice([1.0, 0.95, 0.0], 300_000)
    expected = reverse_scan(delta, decay)
    assert reverse_scan(delta, decay, out=delta) is delta
    assert np.array_equal(delta, expected)


def test_it_leaves_its_arguments_alone_and_accepts_other_types():
    delta, decay = np.arange(5, dtype=np.float32), [0, 1, 1, 0, 1]
    assert reverse_scan(delta, decay).tolist() == [0, 6, 5, 3, 4]
    assert delta.tolist() == [0, 1, 2, 3, 4]


def test_a_huge_number_does_not_leak_over_an_end():
    delta, decay = np.full(200, 1e300), np.ones(200)
    delta[:100], decay[99] = 0.0, 0.0
    assert not reverse_scan(delta, decay)[:100].any()


def test_different_lengths_are_refused():
    with pytest.raises(ValueError, match="one length"):
        reverse_scan(np.zeros(3), np.zeros(4))


@given(generators, st.floats(0, 1))
def test_discounted_returns(rng, gamma):
    lengths = rng.integers(1, 9, 7)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    rewards = rng.normal(size=offsets[-1])
    expected = []
    for n in range(7):
        span, after = [], 0.0
        for reward in reversed(rewards[offsets[n] : offsets[n + 1]]):
            after = reward + gamma * after
            span.insert(0, after)
        expected += span
    before = rewards.copy()
    assert np.allclose(discounted_returns(rewards, offsets, gamma), expected)
    assert np.array_equal(rewards, before)
