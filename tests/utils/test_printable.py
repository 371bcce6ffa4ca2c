"""What is shown in a terminal holds no control characters but newline and tab."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.agents import RandomAgent
from agentgym.cli import main as cli
from agentgym.evaluation.report import Report
from agentgym.registration.games import make_parallel
from agentgym.utils.printable import printable

from ..helpers.echo import Echo

# Window title, clear screen, clipboard (OSC 52), 8-bit CSI, bell, backspaces, carriage return.
HOSTILE = "\x1b]0;t\x07\x1b[2J\x1b]52;c;YQ==\x1b\\\x9b31m\x07\x08\x08\r\x00\x7f\ud800 a\tb\nc"


def controls(text: str) -> set[str]:
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cs")} - {"\n", "\t"}


@given(st.text(st.characters(codec=None), max_size=30))
def test_only_controls_change(text: str):
    shown = printable(text)
    assert not controls(shown)
    if not controls(text):
        assert shown == text


def test_controls_are_visible():
    shown = printable(HOSTILE)
    assert not controls(shown)
    assert shown.startswith("\u241b]0;t\u2407\u241b[2J")
    assert "\\x9b31m" in shown
    assert shown.endswith("\ufffd a\tb\nc")


def test_human_rendering_of_an_environment(capsys: pytest.CaptureFixture[str]):
    env = Echo(render_mode="human")
    env.reset(seed=0)
    env.step(HOSTILE)
    shown = capsys.readouterr().out
    assert "52;c;YQ==" in shown
    assert not controls(shown)


def test_human_rendering_of_a_game(capsys: pytest.CaptureFixture[str]):
    env: Any = make_parallel("AgentGym/Werewolf-v0", render_mode="human")
    env.reset(seed=0)
    for _ in range(6):
        game = env.unwrapped.game
        actions = {a: game.script("random", a, game.np_random) for a in game.acting}
        free = [a for a in game.acting if not game.seen(a).admissible]
        env.step(actions | dict.fromkeys(free, HOSTILE))
    shown = capsys.readouterr().out
    assert "52;c;YQ==" in shown
    assert not controls(shown)


def test_playing_shows_no_controls(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(RandomAgent, "act", lambda self, views: [HOSTILE] * len(views))
    words = ["play", "NumberLine-v0", "--agent", "random", "--env-kwargs", "max_turns=2"]
    assert cli.main(words) == 0
    out = capsys.readouterr().out
    assert "52;c;YQ==" in out
    assert not controls(out)


def test_a_human_sees_no_controls(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("builtins.input", lambda prompt: HOSTILE)
    words = ["play", "NumberLine-v0", "--env-kwargs", "max_turns=2"]
    assert cli.main(words) == 0
    out = capsys.readouterr().out
    assert "52;c;YQ==" in out
    assert not controls(out)


def test_errors_and_tables_show_no_controls(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["play", "NumberLine-v0", "--task", HOSTILE]) == cli.WRONG_USE
    assert not controls(capsys.readouterr().err)
    assert not controls(str(Report("env", HOSTILE, "test", 0, 1, {"a": HOSTILE})))
