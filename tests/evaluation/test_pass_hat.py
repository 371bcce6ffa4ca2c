"""pass^k: the probability that k episodes of a task all succeed."""

from __future__ import annotations

import pytest

from agentgym.evaluation.report import Record, Report


def report(successes: dict[str, list[bool]]) -> Report:
    records = [
        Record(task, i, 0.0, {}, success, 0.0, 1, 1.0, terminated=True, truncated=False)
        for task, each in successes.items()
        for i, success in enumerate(each)
    ]
    return Report("Id-v0", "agent", "test", 0, len(records), episodes=records)


def test_pass_hat_is_the_mean_over_tasks():
    found = report({"a": [True, True, True, False], "b": [True, True, True, True]})
    assert found.pass_hat(1) == pytest.approx(7 / 8)
    assert found.pass_hat(2) == pytest.approx((3 / 6 + 1) / 2)
    assert found.pass_hat(4) == pytest.approx(1 / 2)


@pytest.mark.parametrize(("tasks", "k", "most"), [({"a": [True]}, 2, 1), ({"a": []}, 1, 0)])
def test_too_few_episodes_are_refused(tasks: dict[str, list[bool]], k: int, most: int):
    with pytest.raises(ValueError, match=f"k must be 1 to {most}, .* got {k}"):
        report(tasks).pass_hat(k)
    with pytest.raises(ValueError, match="got 0"):
        report(tasks).pass_hat(0)
