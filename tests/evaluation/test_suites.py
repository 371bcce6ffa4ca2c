"""Suites of `agentgym eval`: their ids exist, and their summaries are means over environments."""

from __future__ import annotations

import math
import sys
from dataclasses import replace

import pytest

from agentgym.cli import main as cli
from agentgym.evaluation.report import Record, Report
from agentgym.evaluation.suites import SUITES, Suite, available, summary
from agentgym.registration.registry import REGISTRY


def report(env: str, *progress: float, agent: str = "a") -> Report:
    records = [
        Record(str(i), i, x, {}, x == 1.0, x, 1, 1.0, True, False) for i, x in enumerate(progress)
    ]
    return Report(f"AgentGym/{env}", agent, "test", 0, len(records), episodes=records)


@pytest.mark.parametrize("name", SUITES)
def test_the_ids_of_a_suite_exist_once(name: str):
    ids = SUITES[name].ids
    assert len(ids) == len(set(ids)) > 3 and set(ids) <= REGISTRY.keys()
    for needs in SUITES[name].skills.values():
        assert len(needs) == len(ids) and set(needs) <= {0, 1, 2, 3} and any(needs)


def test_ids_whose_extra_is_missing_are_left_out_with_a_note(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "minigrid", None)  # its module imports it in the constructor
    ids, notes = available(["NumberLine-v0", "BabyAI-Text-v0"])
    assert ids == ["NumberLine-v0"]
    assert len(notes) == 1 and "agentgym-suite[minigrid]" in notes[0]


def test_the_summary_weighs_environments_equally():
    suite = Suite("", {"one": ["NumberLine-v0"], "two": ["Wordle-v0", "SQL-v0"]})
    reports = [
        report("NumberLine-v0", 1.0, 1.0, 1.0, 1.0),
        report("Wordle-v0", 0.0, 1.0),
        report("Maze-v0", 0.0, agent="a"),
        report("NumberLine-v0", 0.5, agent="b"),
    ]
    progress, success, other, last = summary(suite, reports)
    half = 12.706205 * math.sqrt(0.5) / math.sqrt(2) / 2
    assert progress == (
        f"a: progress 75.0 ± {100 * half:.1f} %, mean of 2 environments (one 100.0, two 50.0)"
    )
    assert success.startswith("a: success 75.0 ± ")
    assert other == "b: progress 50.0 %, mean of 1 environments (one 50.0)"
    assert last.startswith("b: success 0.0 ")
    skills = {"memory": (0, 3, 1), "planning": (1, 0, 3), "navigation": (0, 0, 1)}
    lines = summary(replace(suite, metrics=("progress",), skills=skills), reports)
    assert [line for line in lines if "by sub-skill" in line] == [
        "a: progress by sub-skill: memory 50.0, planning 100.0",
        "b: progress by sub-skill: planning 50.0",
    ]
    assert summary(suite, []) == [] and summary(SUITES["core"], reports) == []


def test_the_command_prints_the_summary(monkeypatch, capsys):
    suite = Suite("", {"lines": ["NumberLine-v0"], "towers": ["Blocksworld-v0"]}, ("success",))
    monkeypatch.setitem(SUITES, "agentbench", suite)
    words = ["eval", "--suite", "agentbench", "--agent", "expert", "--episodes", "3"]
    assert cli.main(words) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "expert: success 100.0 ± " in shown and "(lines 100.0, towers 100.0)" in shown
