"""The share of past opponents that follows the alarms of self-play."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.errors import CheckpointError
from agentgym.trainers.data.run_state import SelfPlayHistory
from agentgym.trainers.players.league import League
from agentgym.trainers.run.exploitability import Measured
from agentgym.trainers.settings.opponents import Opponent

from .test_self_play import Played, equal, model, quick, run

__all__ = ["model", "quick"]  # fixtures


def automatic(*alarms: bool) -> League:
    """A league after evaluations with and without an alarm."""
    league = League(replace(Opponent("past", "5", 0.0), automatic=True), every=1, payoffs=None)
    for alarm in alarms:
        league.react(alarm=alarm)
    return league


def test_the_share_of_past_opponents_follows_the_alarms():
    assert automatic().share == automatic(False).share == 0
    assert automatic(True).share == pytest.approx(0.1)
    assert automatic(*[True] * 3).share == pytest.approx(0.3)
    assert automatic(*[True] * 9).share == 0.5
    assert automatic(True, *[False] * 4).share == pytest.approx(0.1)
    assert automatic(True, *[False] * 5).share == pytest.approx(0.05)
    assert automatic(True, *[False] * 10).share == pytest.approx(0.025)
    assert automatic(True, *[False] * 4, True, *[False] * 4).share == pytest.approx(0.2)
    fixed = League(Opponent("past", "5"), every=1, payoffs=None)
    fixed.react(alarm=True)
    assert fixed.share == 0 and "share" not in fixed.metrics()


@settings(deadline=None, max_examples=30)
@given(alarms=st.lists(st.booleans(), max_size=20), cut=st.integers(0, 20))
def test_a_restored_league_has_the_same_share(alarms: list[bool], cut: int):
    whole, resumed = automatic(*alarms), automatic()
    resumed.load_state_dict(json.loads(json.dumps(automatic(*alarms[:cut]).state_dict())))
    for alarm in alarms[cut:]:
        resumed.react(alarm=alarm)
    assert resumed.state_dict() == whole.state_dict() and 0 <= whole.share <= 0.5


def test_a_league_of_an_earlier_version_has_no_share():
    state = automatic(True).state_dict()
    del state["share"], state["calm"]
    league = automatic(True)
    league.load_state_dict(state)
    assert league.share == 0


ALARMED: dict[str, Any] = {
    "opponents": ("mirror", "past:2=auto"), "env_kwargs": {"hands": 1}, "snapshot_every": 1,
    "eval_every": 1, "eval_episodes": 2, "eval_exploitability": 64, "eval_temperature": 1.0,
    "lr": 1e-2,
}  # fmt: skip


@pytest.fixture
def alarmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every evaluation of an odd iteration finds that exploitability rises."""

    def alarms(history: SelfPlayHistory, measured: Measured) -> dict[str, str]:
        history.exploitability.append(measured.exploitability.mean)
        return {} if len(history.exploitability) % 2 else {"rising": "It rises."}

    monkeypatch.setattr("agentgym.trainers.run.evaluation.self_play_alarms", alarms)


@pytest.mark.usefixtures("alarmed")
def test_a_run_that_is_continued_has_the_same_share_of_past_opponents(tmp_path: Path):
    played = Played()
    whole, expected = run("rae", tmp_path / "whole", iterations=5, callbacks=[played], **ALARMED)
    shares = [row["pool/share"] for row in expected if "rollout/return" in row]
    assert shares == pytest.approx([0.0, 0.1, 0.1, 0.2, 0.2])
    met = [{t.opponent for t in trajectories} for trajectories in played.trajectories]
    assert met[0] == {"self"}
    assert any("iteration" in name for names in met[1:] for name in names)
    run("rae", tmp_path / "run", iterations=3, **ALARMED)
    resumed, rows = run("rae", tmp_path / "run", iterations=5, resume=True, **ALARMED)
    assert rows == expected and equal(resumed, whole)
    assert resumed.state.self_play == whole.state.self_play


@pytest.mark.usefixtures("alarmed")
@pytest.mark.parametrize("infosets", [100_000, 3], ids=["exact", "bound"])
def test_a_killed_run_repeats_an_evaluation_and_has_the_same_share(
    infosets: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its newest checkpoint is from before the last evaluation."""
    monkeypatch.setattr("agentgym.trainers.run.exploitability.MOST_INFOSETS", infosets)
    _, expected = run("rae", tmp_path / "whole", iterations=5, **ALARMED)
    run("rae", tmp_path / "run", iterations=4, **ALARMED)
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "000004")
    _, rows = run("rae", tmp_path / "run", iterations=5, resume=True, **ALARMED)
    assert rows == expected


def test_a_run_with_an_automatic_share_keeps_its_evaluations(tmp_path: Path):
    run("rae", tmp_path, iterations=1, **ALARMED)
    with pytest.raises(CheckpointError, match="eval_every"):
        run("rae", tmp_path, iterations=2, resume=True, **ALARMED | {"eval_every": 2})


def test_cycling_self_play_raises_the_alarm(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Rock, paper, scissors without exploration: the policy starts near the equilibrium."""
    game = {"env_id": "RockPaperScissors-v0", "env_kwargs": {"max_turns": 1}, "iterations": 4}
    size = {"episodes_per_iteration": 32, "num_envs": 32, "quiet": False}
    trainer, rows = run("rae", tmp_path, **ALARMED | game | size)
    found = [row["eval/exploitability"] for row in rows if "eval/reward" in row]
    assert max(found) > found[0] + 0.05
    assert "0 by construction" in capsys.readouterr().out
    assert trainer.rollouts.players.share > 0
