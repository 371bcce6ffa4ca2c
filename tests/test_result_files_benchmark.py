"""The result files of benchmarks: what is kept, and what is no result."""

from __future__ import annotations

import json

import pytest

from agentgym.agents import RandomAgent
from agentgym.registration import find

from .helpers.benchmarks import benchmark_script


@pytest.fixture(scope="module")
def files():
    with benchmark_script("result_files") as script:
        yield script


def test_results_of_other_settings_are_not_kept(files, tmp_path):
    out = tmp_path / "out.json"
    assert files.kept(out, {"seed": 1}) == {}
    files.write(out, {"settings": {"seed": 0, "sizes": [1, 2]}, "environments": {"A": 1}})
    assert files.kept(out) == files.kept(out, {"seed": 0, "sizes": (1, 2), "new": 3}) == {"A": 1}
    with pytest.raises(SystemExit, match=r"other settings \(seed = 0 -> 1\): set --out"):
        files.kept(out, {"seed": 1, "sizes": (1, 2)})


def test_a_benchmark_does_not_take_the_results_of_another_environment(tmp_path):
    pytest.importorskip("torch", reason="needs the extra `train`")
    with benchmark_script("early_experience") as script:
        out = tmp_path / "out.json"
        success = {"8": {name: [0.5, 0.5, 0.5] for name in script.rows(8, 40)}}
        settings = script.Settings(out=out)
        script.write(out, {"config": script.settings_of(settings), "success": success})
        script.main(settings)
        assert json.loads(out.read_text())["success"] == success
        with pytest.raises(SystemExit, match="env_id = 'NumberLine-v0' -> 'Maze-v0'"):
            script.main(script.Settings(env_id="Maze-v0", out=out))


def test_an_interrupted_evaluation_is_no_result(monkeypatch):
    act, calls = RandomAgent.act, []

    def interrupted(self, views):
        calls.append(len(views))
        if len(calls) == 30:
            raise KeyboardInterrupt
        return act(self, views)

    monkeypatch.setattr(RandomAgent, "act", interrupted)
    with benchmark_script("baselines") as script, pytest.raises(KeyboardInterrupt):
        script.measure(find("NumberLine-v0"), 200)
