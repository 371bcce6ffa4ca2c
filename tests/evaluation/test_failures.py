"""The kinds of failure of episodes, in records, reports and saved files."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.evaluation.failures import FAILURES, OVERFLOWS, failure_of
from agentgym.evaluation.report import failure_lines
from agentgym.evaluation.runner import evaluate


def infos(keys: str, valid: str = "", success: bool = False) -> list[dict[str, Any]]:
    """Returns the infos of turns that lead to the states `keys`; "-" in `valid` is invalid."""
    return [
        {"state_key": key, "valid": valid[i : i + 1] != "-", "success": success}
        for i, key in enumerate(keys)
    ]


@pytest.mark.parametrize(
    ("keys", "valid", "terminated", "overflows", "kind"),
    [
        ("abc", "", True, 0, "wrong"),
        ("abc", "", False, 0, "turns"),
        ("abab", "", False, 0, "loop"),  # half of the turns lead back
        ("abac", "", False, 0, "turns"),
        ("sasa", "", True, 0, "wrong"),
        ("abcd", "-+-+", False, 0, "invalid"),
        ("abcd", "-+++", False, 0, "turns"),
        ("ssss", "----", True, 0, "invalid"),
        ("abc", "---", True, 1, "overflow"),
    ],
)
def test_the_first_kind_that_applies(
    keys: str, valid: str, terminated: bool, overflows: int, kind: str
):
    found = failure_of("s", infos(keys, valid), terminated=terminated, overflows=overflows)
    assert found == kind
    assert failure_of("s", infos(keys, valid, True), terminated=True, overflows=overflows) == ""


def test_an_unreadable_verdict_is_a_kind_of_its_own():
    turns = infos("abc", "---")
    turns[-1]["unjudged"] = True
    assert failure_of("s", turns, terminated=True, overflows=1) == "unjudged"


@given(st.text("sab", min_size=1), st.booleans(), st.booleans(), st.integers(0, 2))
def test_every_failure_has_one_kind(keys: str, success: bool, terminated: bool, overflows: int):
    turns = infos(keys, success=success)
    found = failure_of("s", turns, terminated=terminated, overflows=overflows)
    assert (found == "") == success
    assert found in ("", *FAILURES)


class Fixed:
    """Repeats one action. Its context overflows in the tasks with these numbers."""

    name = "fixed"

    def __init__(self, action: str, overflowing: tuple[str, ...] = ()):
        self.action, self.overflowing = action, overflowing

    def act(self, views: Any) -> list[str]:
        for view in views:
            view.costs[OVERFLOWS] += view.info["task"] in self.overflowing
        return [self.action] * len(views)


def short() -> NumberLine:
    return NumberLine(max_turns=3)


def test_reports_hold_the_kinds(tmp_path: Path):
    path = tmp_path / "played.jsonl"
    report = evaluate(short, Fixed("hello"), tasks=4, save=path)
    assert [episode.failure for episode in report.episodes] == ["invalid"] * 4
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["failure"] for line in lines] == ["invalid"] * 4
    assert report.aggregate()["failure/invalid"].mean == 1
    assert report.aggregate()["failure/loop"].mean == 0
    again = evaluate(short, Fixed("hello", (lines[0]["task"],)), tasks=4)
    assert sorted(episode.failure for episode in again.episodes) == ["invalid"] * 3 + ["overflow"]
    assert failure_lines([report, again]) == [
        "fixed on NumberLine, failures: invalid actions 100 %.",
        "fixed on NumberLine, failures: invalid actions 75 %, context overflow 25 %.",
    ]


def test_a_kind_of_another_version_has_its_own_name():
    report = evaluate(short, Fixed("hello"), tasks=2)
    report.episodes[0] = replace(report.episodes[0], failure="newer kind")
    assert failure_lines([report]) == [
        "fixed on NumberLine, failures: newer kind 50 %, invalid actions 50 %."
    ]


def test_the_page_of_logs_has_the_kinds_in_order():
    page = (Path(__file__).parents[2] / "docs/tutorials/tensorboard.md").read_text("utf-8")
    table = page.partition("| Kind | The episode |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [*FAILURES]


def test_successes_have_no_kind():
    report = evaluate("NumberLine-v0", "expert", tasks=8)
    assert {episode.failure for episode in report.episodes} == {""}
    assert failure_lines([report]) == []
