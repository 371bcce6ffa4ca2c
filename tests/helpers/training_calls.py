"""Calls of `train` on pages and in notebooks: none ends below its start on held-out tasks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from agentgym.evaluation.report import Report

NOT_COMPARED = {
    "runs/stopped": "its callback stops it before the first iteration",
    "runs/desk": "it only clones, and the notebook evaluates the clone itself",
}
"""Runs without an evaluation before and after training, each with the reason."""

BASELINES = ("random", "expert")


def below_start(reports: list[Report]) -> bool:
    """Whether the held-out reward after training is clearly below the one before.

    Clearly: the 95 % confidence intervals are apart.

    Args:
        reports: the reports that `train` returns.

    Raises:
        AssertionError: unless they are of the policy before and after training.
    """
    policies = [report for report in reports if report.agent not in BASELINES]
    assert len(policies) == 2, f"evaluations before and after, got {[r.agent for r in policies]}"
    before, after = (report.aggregate()["reward"] for report in policies)
    assert before.low is not None and after.high is not None, "two episodes at least"
    return after.high < before.low


def checked(train: Callable[..., list[Report]]) -> Callable[..., list[Report]]:
    """Returns `train` with an assertion that the held-out reward does not fall."""

    @functools.wraps(train)
    def call(*args: Any, **options: Any) -> list[Report]:
        reports = train(*args, **options)
        folder = options.get("run_dir")
        if folder not in NOT_COMPARED:
            assert not below_start(reports), f"{folder} ends below its start"
        return reports

    return call


def check_all() -> None:
    """Checks the calls that a notebook makes from here on."""
    from agentgym import trainers

    trainers.train = checked(trainers.train)
