"""`agentgym plot` and `agentgym view` of many runs."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from agentgym.cli.main import main

pytest.importorskip("matplotlib")
TURN = {
    "observation": "n", "action": "+", "reward": 0.0, "valid": True, "tokens": ["+"],
    "free": [True], "logprobs": [-0.1], "advantages": [0.5], "estimators": {}, "progress": 0.5,
}  # fmt: skip


def write_run(folder: Path, recipe: str, seed: int, reward: float, finished: bool = True) -> None:
    folder.mkdir(parents=True)
    config = {"recipe": recipe, "seed": seed, "env_id": "AgentGym/NumberLine-v0"}
    (folder / "config.json").write_text(json.dumps({"config": config}))
    rows = [
        {"iteration": i, "env_steps": 50 * i, "rollout/return": 0.5, "eval/reward": reward * i}
        for i in (0, 1)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    line = {
        "iteration": 1, "env": "AgentGym/NumberLine-v0", "task": "t", "seed": 1, "reward": 1.0,
        "success": True, "terminated": True, "truncated": False, "turns": [TURN],
        "last_observation": "end",
    }  # fmt: skip
    (folder / "trajectories.jsonl").write_text(json.dumps(line) + "\n")
    if finished:
        (folder / "report.json").write_text("[]")


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    folder = tmp_path / "a sweep & more"
    for seed, reward in enumerate((0.5, 0.75)):
        write_run(folder / "poad" / f"seed-{seed}", "poad", seed, reward)
        write_run(folder / "turn" / f"seed-{seed}", "turn", seed, reward / 2, finished=not seed)
    return folder


def test_runs_are_plotted_by_recipe(sweep: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["plot", str(sweep)]) == 0
    text = capsys.readouterr().out
    assert "seeds 0 1: 0.500 0.750" in text and "unfinished: 1" in text
    assert (sweep / "compare.png").stat().st_size > 10_000
    out = sweep.parent / "figure.svg"
    runs = [str(sweep / "poad" / "seed-0"), str(sweep / "turn" / "seed-0")]
    assert main(["plot", *runs, "--out", str(out)]) == 0
    assert out.read_text().startswith("<?xml")


def test_folders_without_runs_are_named(sweep: Path, capsys: pytest.CaptureFixture[str]):
    (sweep / "turn" / "seed-1" / "config.json").write_text("{")
    empty = sweep.parent / "empty"
    empty.mkdir()
    assert main(["plot", str(sweep), str(empty)]) == 0
    text = capsys.readouterr().out
    assert "note: left out: " in text and "cannot be read from config.json" in text
    assert f"note: {empty} holds no training run" in text
    for words, message in [
        ([str(empty)], "There is no run to show"),
        ([str(sweep.parent / "nowhere")], "There is no folder"),
        ([str(sweep), "--out", str(sweep.parent / "nowhere" / "x.png")], "to write x.png to"),
        ([str(sweep), "--out", str(sweep.parent / "x.docx")], "Expected a name that ends in"),
    ]:
        assert main(["plot", *words]) == 2
        assert message in capsys.readouterr().err


def test_many_runs_are_viewed_through_an_index(sweep: Path, capsys: pytest.CaptureFixture[str]):
    (sweep / "turn" / "seed-1" / "trajectories.jsonl").unlink()
    assert main(["view", str(sweep)]) == 0
    assert "note: no page: " in (shown := capsys.readouterr().out)
    assert f"Open {sweep / 'view.html'} in a browser." in shown
    page = (sweep / "view.html").read_text("utf-8")
    links = [unquote(link) for link in re.findall(r'href="([^"]+)"', page)]
    assert links == ["poad/seed-0/view.html", "poad/seed-1/view.html", "turn/seed-0/view.html"]
    assert all((sweep / link).is_file() for link in links)
    assert page.count("<tr>") == 5 and "data:image/png;base64," in page
    assert "a sweep &amp; more" in page and "interquartile mean" in page
    assert not re.search(r'(src|href)="https?:', page)


def test_a_run_alone_is_viewed_as_before(sweep: Path):
    run = sweep / "poad" / "seed-0"
    assert main(["view", str(run)]) == 0
    assert "Filters and order" in (run / "view.html").read_text("utf-8")
    out = sweep.parent / "two.html"
    assert main(["view", str(run), str(sweep / "turn" / "seed-0"), "--out", str(out)]) == 0
    assert "Filters and order" in out.read_text("utf-8")


def test_without_matplotlib_the_page_names_the_extra(sweep: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["view", str(sweep)]) == 0
    assert "agentgym-suite[train]" in (sweep / "view.html").read_text("utf-8")
