"""The benchmark of interpreters: counts of undefined names and characters."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("pydantic_monty", reason="needs the extra code")

from .helpers.benchmarks import benchmark_script


class Scripted:
    """Defines a variable, uses it in the next cell and answers, whatever the interpreter."""

    name = "scripted"
    actions = ("```python\nx = 1\n```", "```python\nprint(x)\n```", "answer 1")

    def act(self, views):
        return [self.actions[len(view.history)] for view in views]


@pytest.fixture(scope="module")
def interpreter():
    with benchmark_script("interpreter") as script:
        yield script


@pytest.mark.parametrize(("run", "missing"), [("kept", 0.0), ("reset", 1.0)])
def test_a_policy_that_relies_on_variables_misses_them_after_a_reset(interpreter, run, missing):
    settings = interpreter.Settings(episodes=5)
    found = interpreter.measure(Scripted(), interpreter.IDS[run], settings)
    assert found["missing_names"] == missing
    assert found["characters"] == sum(map(len, Scripted.actions))


def test_the_four_cells_are_written(interpreter, tmp_path, monkeypatch):
    monkeypatch.setattr(interpreter, "cloned", lambda *_: Scripted())
    out = tmp_path / "interpreter.json"
    interpreter.main(interpreter.Settings(episodes=2, seeds=2, out=out))
    cells = json.loads(out.read_text())["cells"]
    assert set(cells) == {"kept/kept", "kept/reset", "reset/kept", "reset/reset"}
    assert cells["reset/kept"]["missing_names"] == [0.0, 0.0]
    assert cells["kept/reset"]["missing_names"] == [1.0, 1.0]
