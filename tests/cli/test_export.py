"""`agentgym export`: files for other trainers, and errors in words."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentgym.agents import RandomAgent
from agentgym.cli import export_command
from agentgym.cli.command_line import INTERRUPTED
from agentgym.cli.main import main
from agentgym.registration.making import make_env

NUMBER_LINE = ["export", "NumberLine-v0", "--episodes", "4", "--env-kwargs", "size=8"]


def rows(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_preferences_are_conversations_of_trl(tmp_path):
    from trl.data_utils import is_conversational  # imports most of transformers

    words = ["--agent", "expert", "random", "--format", "preferences", "--out"]
    assert main([*NUMBER_LINE, *words, str(tmp_path / "pairs.jsonl")]) == 0
    found = rows(tmp_path / "pairs.jsonl")
    assert found and all(is_conversational(row) for row in found)
    for row in found:
        assert row["chosen_reward"] > row["rejected_reward"]
        assert [row[side][0]["role"] for side in ("chosen", "rejected")] == ["assistant"] * 2
        assert row["chosen"] != row["rejected"] and row["prompt"][-1]["role"] == "user"


def test_failures_can_be_left_out(tmp_path):
    words = ["--agent", "expert", "random", "--out"]
    assert main([*NUMBER_LINE, *words, str(tmp_path / "all.jsonl")]) == 0
    assert main([*NUMBER_LINE, *words, str(tmp_path / "good.jsonl"), "--successes"]) == 0
    every, good = rows(tmp_path / "all.jsonl"), rows(tmp_path / "good.jsonl")
    assert all(row["success"] for row in good)
    assert good == [row for row in every if row["success"]] and len(good) < len(every) == 8


CHAT = [{"role": "user", "content": "o"}, {"role": "assistant", "content": "a"}]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--successes", "1 of 1 episodes hold no outcome"),
        ("--failures trace", "1 of 1 episodes hold no outcome"),
        ("--failures condition", "no `success`, so its outcome is not known"),
    ],
)
def test_an_unknown_outcome_is_no_failure(words, message, tmp_path, capsys):
    """Files of other projects seldom hold outcomes, also beside rewards."""
    chat, own = tmp_path / "chat.jsonl", tmp_path / "own.jsonl"
    row = {"messages": CHAT, "rewards": [1.0], "env": "NumberLine-v0", "task": "train/0"}
    chat.write_text(json.dumps(row) + "\n")
    assert main(["export", str(chat), "--format", "own", "--out", str(own)]) == 0
    for file in (chat, own):
        out = tmp_path / "out.jsonl"
        assert main(["export", str(file), "--out", str(out), *words.split()]) == 2
        assert message in capsys.readouterr().err
        assert not out.exists()
    chat.write_text(json.dumps(row | {"success": True}) + "\n")
    assert main(["export", str(chat), "--out", str(tmp_path / "good.jsonl"), "--successes"]) == 0


def test_a_file_of_another_format_is_converted(tmp_path):
    chat, own, again = (tmp_path / name for name in ("chat.jsonl", "own.jsonl", "again.jsonl"))
    assert main([*NUMBER_LINE, "--out", str(chat)]) == 0
    assert main(["export", str(chat), "--format", "own", "--out", str(own)]) == 0
    assert main(["export", str(own), "--out", str(again)]) == 0
    assert chat.read_text() == again.read_text()
    assert main(["view", str(own), "--out", str(tmp_path / "page.html")]) == 0


def test_each_seat_of_a_game_in_self_play_has_its_own_instructions(tmp_path):
    id, turn = "Retail-TwoPlayer-v0", {"observation": "o", "action": "a"}
    starts = [(seed, seat) for seed in range(4) for seat in ("player_0", "player_1")]
    lines = [
        {"env": id, "task": "train/0", "seed": seed, "seat": seat, "turns": [turn]}
        for seed, seat in starts
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "trajectories.jsonl").write_text(text)
    wrap = ["ExtractAction"]
    config = {"config": {"env_id": id, "env_kwargs": {}, "wrap": wrap}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert main(["export", str(tmp_path), "--out", str(tmp_path / "out.jsonl")]) == 0
    for (_, seat), row in zip(starts, rows(tmp_path / "out.jsonl"), strict=True):
        env = make_env(id, seat=seat, wrap=wrap)
        env.reset(seed=0)
        assert row["messages"][0]["content"] == env.get_wrapper_attr("instructions")
        assert row["seat"] == seat


@pytest.mark.parametrize(
    "settings",
    ["", "[1]", '{"config": {}}', '{"config": {"env_kwargs": 3, "wrap": [], "env_id": ""}}'],
)
def test_damaged_settings_of_a_run_are_named(settings, tmp_path, capsys):
    turn = {"observation": "o", "action": "a"}
    trajectory = {"env": "AgentGym/NumberLine-v0", "task": "train/0", "turns": [turn]}
    (tmp_path / "trajectories.jsonl").write_text(json.dumps(trajectory) + "\n")
    (tmp_path / "config.json").write_text(settings)
    assert main(["export", str(tmp_path), "--out", str(tmp_path / "out.jsonl")]) == 2
    assert "the settings of its run cannot be read" in capsys.readouterr().err


def test_an_interrupted_export_stops_and_writes_nothing(tmp_path, monkeypatch):
    played = []

    def interrupted(self, views):
        played.append(self.name)
        raise KeyboardInterrupt

    monkeypatch.setattr(RandomAgent, "act", interrupted)
    words = ["--agent", "random", "random", "--out", str(tmp_path / "all.jsonl")]
    assert main([*NUMBER_LINE, *words]) == INTERRUPTED
    assert played == ["random"] and not (tmp_path / "all.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "here/none/x.jsonl"], "There is no folder"),
        (["--out", "{tmp}"], "exists: give a new name"),
        (["--out", "{tmp}/x", "--min-reward", "99"], "Nothing to write"),
        (["--out", "{tmp}/x", "--format", "preferences"], "no two of them"),
    ],
)
def test_errors_name_the_remedy(words, message, tmp_path, capsys):
    assert main([*NUMBER_LINE, *(word.format(tmp=tmp_path) for word in words)]) == 2
    assert message in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_found_before_the_episodes(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr(export_command, "evaluate", None)
    assert main([*NUMBER_LINE, "--out", str(tmp_path / "x")]) == 2
    assert "no permission to write" in capsys.readouterr().err


def test_a_file_that_is_missing_is_named_as_such(tmp_path, capsys):
    missing = str(tmp_path / "none.jsonl")
    assert main(["export", missing, "--out", str(tmp_path / "x")]) == 2
    assert f"no file or folder {missing!r}" in capsys.readouterr().err
    assert main(["view", missing]) == 2
    assert f"no file or folder {missing!r}" in capsys.readouterr().err


def test_an_export_that_is_killed_leaves_no_file(tmp_path, monkeypatch):
    def cut(file):
        os.ftruncate(file, 20)
        raise KeyboardInterrupt

    out = tmp_path / "all.jsonl"
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", cut)
        assert main([*NUMBER_LINE, "--out", str(out)]) == INTERRUPTED
    assert not out.exists()
    assert main([*NUMBER_LINE, "--out", str(out)]) == 0
    assert len(rows(out)) == 4 and list(tmp_path.iterdir()) == [out]


def test_what_was_played_outlasts_an_error_behind_it(tmp_path, monkeypatch, capsys):
    """The same command goes on from the files, and deletes what it needs no more."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    scores = iter([0.5, "none"])
    module = SimpleNamespace(judge=lambda episode: next(scores, 1.0))
    monkeypatch.setitem(sys.modules, "judge_of_mine", module)
    out = tmp_path / "all.jsonl"
    judged = ["--judge", "judge_of_mine:judge", "--out", str(out)]
    assert main([*NUMBER_LINE, "--agent", "random", "expert", *judged]) == 2
    told = capsys.readouterr().err
    kept = sorted(map(str, tmp_path.glob("agentgym-*/*.jsonl")))
    assert len(kept) == 2 and f"name {' '.join(kept)} in place of what was played" in told
    assert "Raised by the judge judge_of_mine:judge on task" in told
    assert main(["export", *kept, *judged]) == 0 and len(rows(out)) == 8
    out.unlink()
    assert main([*NUMBER_LINE, *judged]) == 0
    assert {*tmp_path.iterdir()} == {out, Path(kept[0]).parent}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["NumberLine-v0", "NumberLime-v0"], "Did you mean: NumberLine-v0"),
        (["NumberLine-v0", "broken.jsonl"], "broken.jsonl, line 1"),
        (["NumberLine-v0", "--agent", "expert", "exprt"], "Did you mean: expert"),
    ],
)
def test_all_sources_and_agents_are_checked_before_the_first_episode(
    words, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("broken.jsonl").write_text("{}")
    monkeypatch.setattr(export_command, "evaluate", None)
    assert main(["export", *words, "--out", "all.jsonl"]) == 2
    assert message in capsys.readouterr().err
