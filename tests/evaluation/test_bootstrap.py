"""Statistics of several runs: interquartile means, probability of improvement, best of n."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentgym.evaluation.bootstrap import (
    best_of,
    interquartile_mean,
    interval,
    probability_of_improvement,
)

runs = st.lists(st.integers(-20, 20), min_size=1, max_size=6)


def test_golden_interquartile_means():
    assert interquartile_mean([[0, 1], [2, 9]]) == 1.5  # the middle two of four
    # Of six, the second and fifth count for half: (0.5 * 1 + 2 + 3 + 0.5 * 4) / 3
    assert interquartile_mean([[5, 0, 3], [2, 4, 1]]) == pytest.approx(2.5)
    assert interquartile_mean([[7]]) == 7


@given(runs)
@example([7, 7, 7])
def test_repeated_scores_have_the_same_interquartile_mean(scores):
    assert interquartile_mean([scores] * 4) == pytest.approx(interquartile_mean([scores]))
    assert min(scores) <= interquartile_mean([scores]) <= max(scores)


@given(runs, runs)
def test_probabilities_of_improvement_add_up_to_one(one, other):
    found = probability_of_improvement([one], [other])
    assert found + probability_of_improvement([other], [one]) == pytest.approx(1)
    brute = np.mean([(x > y) + 0.5 * (x == y) for x in one for y in other])
    assert found == pytest.approx(brute)
    both = probability_of_improvement([one, [1]], [other, [0]])
    assert both == pytest.approx((found + 1) / 2)  # environments count alike


def test_intervals_contain_the_statistic_and_shrink_with_runs():
    few, many = ([np.tile([0.0, 1.0], n)] for n in (2, 50))
    wide, narrow = (interval(interquartile_mean, each, samples=200) for each in (few, many))
    for each in (wide, narrow):
        assert each.low is not None and each.high is not None
        assert each.low <= each.mean <= each.high
    assert narrow.high - narrow.low < wide.high - wide.low  # type: ignore[operator]
    certain = interval(interquartile_mean, [[2.0, 2.0]], samples=20)
    assert (certain.mean, certain.low, certain.high) == (2.0, 2.0, 2.0)


def test_the_best_of_settings_is_selected_by_other_numbers_than_it_is_reported_by():
    selection, scores = [[1, 1], [0, 0]], [[0.3, 0.5], [9.0, 9.0]]
    one = best_of(1, selection, scores, samples=400)
    assert one.mean == pytest.approx((0.4 + 9) / 2, abs=0.9)  # a random setting
    many = best_of(16, selection, scores, samples=400)
    assert many.mean == pytest.approx(0.4, abs=0.05)  # the first, although its scores are lower
    assert many.low == pytest.approx(0.3) and many.high == pytest.approx(0.5)
