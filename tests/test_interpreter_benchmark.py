"""The benchmark of interpreters: counts of undefined names and characters."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest

pytest.importorskip("torch")
pytest.importorskip("pydantic_monty", reason="needs the extra code")

from benchmarks.learning import interpreter


class Scripted:
    """Defines a variable, uses it in the next cell and answers, whatever the interpreter."""

    name = "scripted"
    actions = ("```python\nx = 1\n```", "```python\nprint(x)\n```", "answer 1")

    def act(self, views):
        return [self.actions[len(view.history)] for view in views]


@pytest.mark.parametrize(("run", "missing"), [("kept", 0.0), ("reset", 1.0)])
def test_a_policy_that_relies_on_variables_misses_them_after_a_reset(run, missing):
    settings = interpreter.Settings(episodes=5)
    found = interpreter.measure(Scripted(), interpreter.IDS[run], settings)
    assert found["missing_names"] == missing
    assert found["characters"] == sum(map(len, Scripted.actions))


def test_an_interrupted_benchmark_continues_with_the_missing_seeds(tmp_path, monkeypatch):
    trained, seeds = [], []

    def cloned(env_id, seed, settings, folder):
        trained.append(seed)
        if len(trained) == 4:  # in the middle of the second seed
            raise KeyboardInterrupt
        return Scripted()

    def measure(agent, env_id, settings):
        return dict.fromkeys(interpreter.MEASURES, len(trained))

    monkeypatch.setattr(interpreter, "cloned", cloned)
    monkeypatch.setattr(interpreter, "measure", measure)
    settings = interpreter.Settings(out=tmp_path / "interpreter.json")
    for error in (KeyboardInterrupt, None):
        with pytest.raises(error) if error else nullcontext():
            interpreter.main(settings)
        cells = json.loads(settings.out.read_text())["cells"]
        seeds.append([len(cells[cell]["success"]) for cell in cells])
    assert seeds == [[1] * 4, [3] * 4]
    assert trained == [0, 0, 1, 1, 1, 1, 2, 2]
    assert cells["kept/kept"]["characters"] == [1, 5, 7]
    interpreter.main(settings)
    assert len(trained) == 8
    with pytest.raises(SystemExit, match="epochs = 10 -> 1"):
        interpreter.main(interpreter.Settings(epochs=1, out=settings.out))


def test_the_four_cells_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr(interpreter, "cloned", lambda *_: Scripted())
    out = tmp_path / "interpreter.json"
    interpreter.main(interpreter.Settings(episodes=2, seeds=2, out=out))
    cells = json.loads(out.read_text())["cells"]
    assert set(cells) == {"kept/kept", "kept/reset", "reset/kept", "reset/reset"}
    assert cells["reset/kept"]["missing_names"] == [0.0, 0.0]
    assert cells["kept/reset"]["missing_names"] == [1.0, 1.0]
