"""`agentgym eval GAME --agents` and `agentgym play GAME --opponents`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from agentgym.agents import ChatError
from agentgym.cli import main as cli
from agentgym.evaluation import cross_play, nashconv
from agentgym.evaluation.tables import Table


@pytest.fixture(autouse=True)
def plain_output(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "PY_COLORS"):
        monkeypatch.delenv(name, raising=False)


def lines(text: str) -> dict[str, list[str]]:
    """The cells of the rows of tables by their first cell, the last row of each name."""
    return {row.split()[0]: row.split()[1:] for row in text.splitlines() if row.split()}


def test_agents_are_compared_in_all_seats(tmp_path: Path, capsys):
    result, games = tmp_path / "result.json", tmp_path / "games.jsonl"
    agents = ("caller", "maniac", "equilibrium")
    words = ("--agents", *agents, "--episodes", "6", "--seed", "2", "--nashconv")
    files = ("--json", str(result), "--save", str(games))
    assert cli.main(["eval", "KuhnPoker-v0", *words, *files]) == 0
    shown = capsys.readouterr().out
    assert "6 deals per line-up" in shown and "cooperates" not in shown and "minus" not in shown
    exact = nashconv("KuhnPoker-v0", "maniac")
    assert lines(shown)["maniac"][-2:] == [f"{exact.nashconv:.4f}", f"{exact.exploitability:.4f}"]
    data = json.loads(result.read_text())
    expected = cross_play("AgentGym/KuhnPoker-v0", agents, episodes=6, seed=2)
    assert data["matrix"] == json.loads(json.dumps(expected.to_json()))["matrix"]
    assert [value["agents"][0] for value in data["nashconv"]] == list(agents)
    assert cli.main(["view", str(games)]) == 0
    assert "caller" in games.with_suffix(".html").read_text()


@pytest.mark.parametrize("agents", [("caller",), ("caller", "maniac", "random")])
def test_the_matrix_is_drawn_with_a_colour_for_each_return(agents, tmp_path: Path, capsys):
    figures = []
    file = tmp_path / "matrix.png"
    with pytest.MonkeyPatch.context() as patch:
        save = Figure.savefig
        patch.setattr(Figure, "savefig", lambda *a, **k: (figures.append(a[0]), save(*a, **k)))
        words = ("--agents", *agents, "--episodes", "2", "--picture", str(file))
        assert cli.main(["eval", "KuhnPoker-v0", *words]) == 0
    capsys.readouterr()
    axes = figures[0].axes[0]
    expected = cross_play("AgentGym/KuhnPoker-v0", agents, episodes=2)
    means = [[cell.mean for cell in row] for row in expected.matrix()]
    assert axes.images[0].get_array().tolist() == means
    assert sum(axes.images[0].get_clim()) == pytest.approx(0)  # white is 0
    assert [text.get_text().split("\n")[0] for text in axes.texts] == [
        f"{mean:.2f}" for row in means for mean in row
    ]
    assert [label.get_text() for label in axes.get_yticklabels()] == list(agents)
    assert imread(file).shape[0] > 200


def test_a_dilemma_shows_its_rates(capsys):
    words = ("--agents", "defect", "tit_for_tat", "--episodes", "2", "--split", "train")
    assert cli.main(["eval", "PrisonersDilemma-v0", *words]) == 0
    shown = capsys.readouterr().out
    assert "cooperates %" in shown and "exploits %" in shown
    assert "self-play minus cross-play:" in shown
    assert lines(shown)["defect"][-2] == "0.0"


def test_one_agent_has_no_rating(capsys):
    assert cli.main(["eval", "TicTacToe-v0", "--agents", "greedy", "--episodes", "1"]) == 0
    assert "Elo" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("eval KuhnPoker-v0 --agents tigh", "Did you mean: tight"),
        ("eval KuhnPoker-v0 --nashconv", "--nashconv needs --agents"),
        ("eval KuhnPoker-v0 LeducPoker-v0 --agents random", "one game"),
        ("eval KuhnPoker-v0 --agents random --split both", "--split both"),
        ("eval KuhnPoker-v0 --agents random --agent expert", "without --agent, --suite"),
        ("eval NumberLine-v0 --agents random", "use --agent, not --agents"),
        ("eval Werewolf-v0 --agents random --nashconv", "has no exact evaluation"),
        ("eval KuhnPoker-v0 --agents random --episodes 0", "at least 1"),
        ("eval KuhnPoker-v0 --agents random --save .", "is a folder"),
        ("eval KuhnPoker-v0 --picture a.png", "--picture needs --agents"),
        ("eval KuhnPoker-v0 --agents random --picture a.txt", "must end in .png"),
        ("eval KuhnPoker-v0 --agents random --picture no/a.png", "/no' to write a.png to"),
        ("play KuhnPoker-v0 --opponents tigh", "Did you mean: tight"),
        ("play NumberLine-v0 --opponents tight", "unexpected keyword argument 'opponents'"),
    ],
)
def test_wrong_use_is_explained(line, message, capsys):
    assert cli.main(line.split()) == cli.WRONG_USE
    shown = "".join(capsys.readouterr())
    assert message in shown and shown.startswith("error: ")


def test_a_missing_package_of_pictures_is_named_before_the_games(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    words = ("--agents", "random", "--picture", "a.png", "--episodes", "1")
    assert cli.main(["eval", "KuhnPoker-v0", *words]) == cli.WRONG_USE
    shown = capsys.readouterr()
    assert "needs the package 'matplotlib'" in shown.err and not shown.out


def test_watching_an_agent_against_a_chosen_opponent(capsys):
    words = ("--agent", "expert", "--opponents", "maniac", "--task", "test/0", "--seed", "0")
    assert cli.main(["play", "KuhnPoker-v0", *words]) == 0
    assert "your opponent bets" in capsys.readouterr().out


def test_two_people_share_the_keyboard(capsys, monkeypatch):
    typed = iter(["", "1", "", "4", "", "2", "", "5", "", "3"])
    monkeypatch.setattr("builtins.input", lambda prompt="": next(typed))
    words = ("--opponents", "human", "--task", "opening/", "--env-kwargs", "seat=player_0")
    assert cli.main(["play", "TicTacToe-v0", *words]) == 0
    shown = capsys.readouterr().out
    turns = [row for row in shown.splitlines() if row.startswith("It is player_")]
    assert turns == [f"It is player_{i % 2}'s turn. Press Enter." for i in range(5)]
    assert "You are X. You win." in shown and next(typed, None) is None


def test_finished_games_are_shown_and_written_after_an_error(tmp_path, monkeypatch, capsys):
    play, calls = Table.play, []

    def fails(self: Table, actions: Mapping[str, str]) -> None:
        calls.append(actions)
        if len(calls) > 900:
            raise ChatError("The server is gone.")
        play(self, actions)

    monkeypatch.setattr(Table, "play", fails)
    file = tmp_path / "result.json"
    words = ["eval", "KuhnPoker-v0", "--agents", "random", "maniac", "--episodes", "40"]
    assert cli.main([*words, "--json", str(file)]) == cli.WRONG_USE
    first = file.read_bytes()
    calls.clear()
    assert cli.main([*words, "--json", str(file)]) == cli.WRONG_USE
    assert file.read_bytes() == first == (tmp_path / "result.partial.json").read_bytes()
    out, err = capsys.readouterr()
    found = len(json.loads(file.read_text())["matches"])
    assert f"Only {found} of 160 games were finished." in out and "return in" in out
    assert "error: The server is gone." in err
    assert cli.main([*words, "--json", str(tmp_path / "none.json")]) == cli.WRONG_USE
    assert not (tmp_path / "none.json").exists()  # no game was finished
