"""The result files of benchmarks: what is kept, and what is no result."""

from __future__ import annotations

import importlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentgym.agents import RandomAgent
from agentgym.registration.registry import find
from benchmarks.shared import result_files as files


def test_results_of_other_settings_are_not_kept(tmp_path):
    out = tmp_path / "out.json"
    assert files.kept(out, {"seed": 1}) == {}
    files.write(out, {"settings": {"seed": 0, "sizes": [1, 2]}, "environments": {"A": 1}})
    assert files.kept(out) == files.kept(out, {"seed": 0, "sizes": (1, 2), "new": 3}) == {"A": 1}
    with pytest.raises(SystemExit, match=r"other settings \(seed = 0 -> 1\): set --out"):
        files.kept(out, {"seed": 1, "sizes": (1, 2)})


def test_a_result_file_may_get_another_name(tmp_path):
    @dataclass
    class Settings:
        out: Path
        seed: int = 0

    about = files.settings_of(Settings(tmp_path / "old.json"))
    files.write(tmp_path / "new.json", {"settings": about, "environments": {"A": 1}})
    renamed = files.settings_of(Settings(tmp_path / "new.json"))
    assert files.kept(tmp_path / "new.json", renamed) == {"A": 1}


def test_results_stay_whole_if_the_disk_is_full(tmp_path, monkeypatch):
    def full(file):
        raise OSError("No space left on device")

    out = tmp_path / "out.json"
    files.write(out, {"environments": {"A": 1}})
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.write(out, {"environments": {"A": 1, "B": 2}})
    assert files.kept(out) == {"A": 1}


def test_a_benchmark_does_not_take_the_results_of_another_environment(tmp_path):
    pytest.importorskip("torch", reason="needs the extra `train`")
    from benchmarks.planning import early_experience as script

    out = tmp_path / "out.json"
    success = {"8": {name: [0.5, 0.5, 0.5] for name in script.rows(8, 40)}}
    settings = script.Settings(out=out)
    script.write(out, {"config": script.settings_of(settings), "success": success})
    script.main(settings)
    assert json.loads(out.read_text())["success"] == success
    with pytest.raises(SystemExit, match="env_id = 'NumberLine-v0' -> 'Maze-v0'"):
        script.main(script.Settings(env_id="Maze-v0", out=out))


NUMBERS = {"success": [0.5, 0.4, 0.6], "turns": [3.0, 3.0, 3.0], "cpu_seconds": 1.0}
READERS = {"score": "success", "budgets": [9], "readers": {}}
SOLVERS = {key: {"success": [0.5, 0.4, 0.6]} for key in ("cloned", "self-play", "random tasks")}
ONE_BY_ONE = {
    "planning.planning": ("search", "search", {"random": NUMBERS}, {"seed": 1}),
    "planning.notes": ("environments", "run", READERS, {"seed": 1}),
    "planning.scaffolds": ("agents", "evaluated", NUMBERS, {"seed": 1}),
    "games.board_search": ("budgets", "measures", {"errors": 0.5}, {}),
    "games.board_reading": ("drawings", "run", {"tokens": 1}, {"batch": 9}),
    "games.alarms": ("runs", "measure", {"exploitability": [0.2, 0.1]}, {"lr": 0.5}),
    "games.propose_solve": ("seeds", "measure", SOLVERS, {"games": 9}),
}
"""By script: name of its results, function that measures one, its result, other settings."""


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_an_interrupted_benchmark_continues(name: str, tmp_path: Path, monkeypatch: Any):
    pytest.importorskip("torch", reason="needs the extra `train`")
    rows, function, result, changed = ONE_BY_ONE[name]
    calls, out = [], tmp_path / "out.json"

    def measure(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return result

    script = importlib.import_module(f"benchmarks.{name}")
    monkeypatch.setattr(script, function, measure)
    monkeypatch.setattr(script, "learn", lambda *_: {"before": NUMBERS}, raising=False)
    if name == "planning.scaffolds":
        monkeypatch.setattr(script, "run", lambda *_: READERS)
    if name == "games.board_search":
        monkeypatch.setattr(script, "searched", lambda *_: {})
    settings = script.Settings(out=out)
    with pytest.raises(KeyboardInterrupt):
        script.main(settings)
    assert list(json.loads(out.read_text())[rows].values()) == [result]
    script.main(settings)
    found = json.loads(out.read_text())
    assert list(found[rows].values()) == [result] * (len(calls) - 1) != [result]
    before = len(calls), out.read_bytes()
    script.main(settings)
    assert (len(calls), out.read_bytes()) == before
    for setting, value in changed.items():
        with pytest.raises(SystemExit, match=rf"other settings \({setting} = "):
            script.main(script.Settings(out=out, **{setting: value}))


def test_comparisons_with_peers_are_written_one_by_one(tmp_path: Path, monkeypatch: Any):
    pytest.importorskip("torch", reason="needs the extra `train`")

    def comparisons(settings: Any) -> Any:
        yield "free", {"tokens_per_second": 3.0, "peer_tokens_per_second": 1.0, "ratio": 3.0}
        raise KeyboardInterrupt

    from benchmarks.speed import peers as script

    monkeypatch.setattr(script, "comparisons", comparisons)
    settings = script.Settings(out=tmp_path / "peers.json")
    about = {"settings": script.settings_of(settings)}
    settings.out.write_text(json.dumps({**about, "results": {"episodes": {}, "free": {}}}))
    with pytest.raises(KeyboardInterrupt):
        script.main(settings)
    found = json.loads(settings.out.read_text())["results"]
    assert found["free"]["ratio"] == 3.0 and found["episodes"] == {}


def test_speeds_are_written_one_by_one(tmp_path, monkeypatch):
    from benchmarks.speed import env_speed as script

    def measure(id, settings, cache):
        if id != "AgentGym/NumberLine-v0":
            raise KeyboardInterrupt
        return script.Speed(id, 1.0, None, 1.0, 1.0, 1.0, 1.0, 0.0, None, "")

    monkeypatch.setattr(script, "measure", measure)
    out = tmp_path / "out.json"
    with pytest.raises(KeyboardInterrupt):
        script.main(script.Settings(ids=["NumberLine-v0", "TicTacToe-v0"], out=out))
    [row] = json.loads(out.read_text())["environments"]
    assert row["id"] == "AgentGym/NumberLine-v0"


@pytest.mark.slow
def test_a_world_model_that_has_been_trained_is_kept(tmp_path):
    pytest.importorskip("torch", reason="needs the extra `train`")
    from benchmarks.planning import world_model as script

    settings = script.Settings(iterations=1, demonstrations=2, runs=tmp_path)
    assert script.fit("NumberLine-v0", settings) == script.fit("NumberLine-v0", settings)


def test_another_world_model_joins_the_earlier_ones(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="needs the extra `train`")
    from benchmarks.planning import world_model as script

    found = {"errors": {}, "agents": {}}
    monkeypatch.setattr(script, "measure", lambda env, settings: {**found, "of": env})
    for env in ("A-v0", "B-v0"):
        script.main(script.Settings(envs=(env,), out=tmp_path / "out.json"))
    written = json.loads((tmp_path / "out.json").read_text())["environments"]
    assert written == {env: {**found, "of": env} for env in ("A-v0", "B-v0")}
    with pytest.raises(SystemExit, match="budget = 8 -> 9"):
        script.main(script.Settings(budget=9, out=tmp_path / "out.json"))


def test_an_interrupted_evaluation_is_no_result(monkeypatch):
    act, calls = RandomAgent.act, []

    def interrupted(self, views):
        calls.append(len(views))
        if len(calls) == 30:
            raise KeyboardInterrupt
        return act(self, views)

    monkeypatch.setattr(RandomAgent, "act", interrupted)
    from benchmarks.learning import baselines as script

    with pytest.raises(KeyboardInterrupt):
        script.measure(find("NumberLine-v0"), 200)
