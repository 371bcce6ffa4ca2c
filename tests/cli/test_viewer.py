"""`agentgym view`: the page contains the files of the run, with any characters."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from agentgym.cli.main import main
from agentgym.cli.viewer import render
from agentgym.errors import ConfigError

NASTY = "</script><b>&amp; $data ${x} \u2028 \U0001f600"


def trajectory(iteration: int, action: str) -> dict[str, object]:
    turn = {
        "observation": NASTY,
        "action": action,
        "reward": 1.0,
        "valid": True,
        "progress": 1.0,
        "tokens": [action, ""],
        "free": [True, False],
        "logprobs": [-0.5, 0.0],
        "advantages": [0.25, -0.25],
        "estimators": {"turn": [0.1, 0.1]},
        "value": None,
    }
    return {
        "iteration": iteration,
        "env": "AgentGym/NumberLine-v0",
        "task": "train/1",
        "seed": 3,
        "reward": 1.0,
        "success": True,
        "terminated": True,
        "truncated": False,
        "turns": [turn],
        "last_observation": "over",
    }


@pytest.fixture
def run(tmp_path: Path) -> Path:
    lines = [trajectory(1, "+"), trajectory(2, NASTY)]
    (tmp_path / "trajectories.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    metrics = {"iteration": 1, "env_steps": 9, "rollout/return": 0.5, "eval/reward": None}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(metrics) + "\n")
    (tmp_path / "config.json").write_text(json.dumps({"config": {"recipe": "poad"}}))
    return tmp_path


def data_of(page: str) -> dict[str, object]:
    found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert len(found) == 1
    return json.loads(found[0])


def test_the_page_holds_every_trajectory_unchanged(run: Path):
    page = render(run)
    data = data_of(page)
    assert data["trajectories"] == [trajectory(1, "+"), trajectory(2, NASTY)]
    assert data["recipe"] == "poad"
    assert data["curve"] == [{"env_steps": 9, "train": 0.5, "held_out": None}]
    assert "poad on AgentGym/NumberLine-v0" in page
    assert data_of(render(run, last=1))["trajectories"] == [trajectory(2, NASTY)]
    with pytest.raises(ConfigError, match="at least 1"):
        render(run, last=0)


def test_the_page_needs_no_network(run: Path):
    page = render(run)
    assert not re.search(r"(src|href)\s*=|@import|fetch\(", page)


def test_a_line_that_is_being_written_is_left_out(run: Path):
    with (run / "trajectories.jsonl").open("a") as file:
        file.write('{"iteration": 3, "env')
    assert len(data_of(render(run))["trajectories"]) == 2  # type: ignore[arg-type]


def test_folders_without_anything_to_show_are_named(tmp_path: Path, capsys):
    with pytest.raises(ConfigError, match=r"trajectories\.jsonl"):
        render(tmp_path)
    assert main(["view", str(tmp_path)]) == 2
    assert "Give the folder of a training run" in capsys.readouterr().err


def test_the_command_writes_the_page(run: Path, tmp_path: Path):
    assert main(["view", str(run), "--out", str(tmp_path / "page.html")]) == 0
    assert data_of((tmp_path / "page.html").read_text(encoding="utf-8"))["rounds"] == 2
