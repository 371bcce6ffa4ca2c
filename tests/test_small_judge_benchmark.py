"""The benchmark of a small judge: a judge that knows, and one that does not."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from agentgym.agents.basic.view import View
from agentgym.data.episode import RecordedEpisode
from agentgym.judges import make_judge
from benchmarks.figures import small_judge_figures
from benchmarks.planning import small_judge


def outcome(episode: RecordedEpisode) -> float | None:
    """The outcome of NumberLine, or None for an episode of a single turn."""
    return None if len(episode.turns) == 1 else float(episode.success)


class Direction(small_judge.Counted):
    """The value of a step towards the goal is 1. Every other reply counts as unreadable."""

    def __init__(self) -> None:
        self.unread = 0

    def scores(self, views: Sequence[View], actions: Sequence[str]) -> list[float]:
        self.asked += len(actions)
        self.unread = self.asked // 2
        return [direction(view, action) for view, action in zip(views, actions, strict=True)]


def direction(view: View, action: str) -> float:
    position, goal = map(int, re.findall(r"You are at (\d+)\. Go to (\d+)", view.observation)[-1])
    return float((action == "+") == (position < goal))


@pytest.fixture
def settings(tmp_path: Path) -> small_judge.Settings:
    return small_judge.Settings(episodes=12, tasks=12, runs=tmp_path, out=tmp_path / "out.json")


def test_a_judge_that_knows_the_outcome_agrees_with_it(settings: small_judge.Settings):
    found = small_judge.judged(make_judge(f"{__name__}:outcome"), settings)
    assert found["accepted solved"][0] == 1 and found["accepted failed"][0] == 0
    assert found["kappa"] == 1 and 0 < found["readable"][0] < 1


def test_a_value_that_knows_the_way_leads_the_search(settings: small_judge.Settings):
    found = small_judge.searched(Direction(), settings)
    assert found["model"][0] == 1 and found["constant"][0] < 1
    assert found["readable"][0] == pytest.approx(0.5, abs=0.1)
    mean, low, high = found["difference"]
    assert low < mean <= high and mean == pytest.approx(1 - found["constant"][0], abs=1e-3)


def test_the_table_has_every_measure(
    settings: small_judge.Settings, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(small_judge, "smollm2", lambda folder: folder)
    model = SimpleNamespace(name="model")
    monkeypatch.setattr(small_judge, "load_pretrained", lambda folder, max_new_tokens: model)
    share = [0.5, 0.25, 0.75]
    verdicts = {"accepted solved": share, "accepted failed": None, "readable": share, "kappa": None}
    search = {"constant": share, "model": share, "readable": share}
    search["difference"] = [0.0, -0.1, 0.1]
    monkeypatch.setattr(small_judge, "judged", lambda judge, settings: verdicts)
    monkeypatch.setattr(small_judge, "searched", lambda value, settings: search)
    small_judge.main(settings)
    table = small_judge_figures.table_of(json.loads(settings.out.read_text()))
    assert table.count("50 [25, 75]") == 5 and "0 [-10, 10]" in table
    assert "| failed episodes that the judge accepts | - |" in table
