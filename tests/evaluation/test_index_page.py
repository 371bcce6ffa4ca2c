"""The board: reasons of failure, and progress curves of unequal episodes."""

from __future__ import annotations

from typing import Any

import pytest

from agentgym.evaluation.index_page import board, failure, progress_curve


def episode(turns: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    given = {"success": False, "reward": 0.0, "task": "t", "last_observation": "end", "link": ["x"]}
    return given | fields | {"turns": turns}


def turn(action: str = "+", **fields: Any) -> dict[str, Any]:
    return {"observation": "x", "action": action, "valid": True, "progress": 0.0} | fields


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("", episode([turn("?", valid=False)], success=True)),
        ("invalid", episode([turn("?", valid=False)] * 2 + [turn()])),
        ("loop", episode([turn()] * 3)),
        ("turns", episode([turn(), turn(observation="y"), turn(observation="z")])),
        ("wrong", episode([turn(), turn()], terminated=True)),
        ("overflow", episode([turn()], failure="overflow")),
        ("unjudged", episode([turn()], terminated=True, unjudged=True)),
    ],
)
def test_the_kind_of_a_failure_is_saved_or_computed(kind: str, found: dict[str, Any]):
    assert failure(found) == kind


def test_turns_without_progress_have_no_curve():
    assert progress_curve([episode([turn(progress=0.5)]), episode([turn(progress=None)])]) == []


def test_only_complete_episodes_count():
    broken = [episode([]), episode([turn()], reward=None), episode([turn()], success=None)]
    assert board({("X-v0", "a"): broken}) == []
    [row] = board({("X-v0", "a"): [*broken, episode([turn()])]})
    assert row["episodes"] == 1 and row["reward"] == [0.0, None, None]
