"""The board: reasons of failure, and progress curves of unequal episodes."""

from __future__ import annotations

from typing import Any

import pytest

from agentgym.evaluation.board import FAILURES, board, failure, progress_curve


def episode(turns: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    given = {"success": False, "reward": 0.0, "task": "t", "truncated": False, "link": ["x"]}
    return given | fields | {"turns": turns}


def turn(action: str = "+", **fields: Any) -> dict[str, Any]:
    return {"observation": "x", "action": action, "valid": True, "progress": 0.0} | fields


@pytest.mark.parametrize(
    ("reason", "found"),
    [
        (None, episode([turn("?", valid=False)], success=True)),
        ("invalid", episode([turn("?", valid=False)] * 2 + [turn()], truncated=True)),
        ("loop", episode([turn()] * 3, truncated=True)),
        ("truncated", episode([turn()] * 2 + [turn(observation="y")], truncated=True)),
        ("ended", episode([turn("?", valid=False), turn()])),
    ],
)
def test_the_first_reason_of_a_failure_counts(reason: str | None, found: dict[str, Any]):
    assert failure(found) == reason
    assert reason is None or reason in FAILURES


def test_turns_without_progress_have_no_curve():
    assert progress_curve([episode([turn(progress=0.5)]), episode([turn(progress=None)])]) == []


def test_only_complete_episodes_count():
    broken = [episode([]), episode([turn()], reward=None), episode([turn()], success=None)]
    assert board({("X-v0", "a"): broken}) == []
    [row] = board({("X-v0", "a"): [*broken, episode([turn()])]})
    assert row["episodes"] == 1 and row["reward"] == [0.0, None, None]
