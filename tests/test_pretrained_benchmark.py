"""The benchmark of a pre-trained model keeps results and measures the missing ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from benchmarks.learning import pretrained

MEANS = {key: [0.5, 0.4, 0.6] for key in ("reward", "success", "valid", "turns")}


@pytest.fixture
def asked() -> list[Any]:
    """The measurements that the benchmark begins: environment, seed and model."""
    return []


@pytest.fixture
def benchmark(asked: list[Any], monkeypatch: pytest.MonkeyPatch):
    """The benchmark, which trains and measures nothing."""

    def measure(settings: Any, *job: Any) -> dict[str, Any]:
        asked.append(job)
        if job[0] == "Broken-v0":
            raise ValueError("broken")
        return {"agents": {"cloned": MEANS, "trained": MEANS}, "gain": [0, 0, 0]}

    monkeypatch.setattr(pretrained, "measure", measure)
    monkeypatch.setattr(pretrained, "smollm2", lambda folder: folder)
    monkeypatch.setattr(pretrained, "version", lambda name: "1")
    return pretrained


def test_other_environments_and_seeds_are_kept(
    benchmark: Any, asked: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "out.json"

    def run(**settings: Any) -> list[Any]:
        asked.clear()
        benchmark.main(benchmark.Settings(out=file, runs=tmp_path, **settings))
        return asked

    first, second = benchmark.BUDGETS
    assert len(run(ids=(second,), seeds=(1,))) == len(benchmark.NAMES)
    assert run(ids=(first, second), seeds=(0, 1)) == [
        (name, seed, model)
        for name in (first, second)
        for model in benchmark.NAMES
        for seed in (0, 1)
        if (name, seed) != (second, 1)
    ]
    assert not run(seeds=(0, 1))
    found = json.loads(file.read_text())["environments"]
    for name in (first, second):
        assert list(found[name]["models"]["nano"]) == ["0", "1"]
        assert found[name]["budget"]["demonstrations"] == benchmark.BUDGETS[name].demonstrations
    with pytest.raises(SystemExit, match=r"other settings.*clone_epochs = 4 -> 5"):
        run(clone_epochs=5)
    before = benchmark.BUDGETS[second].iterations
    monkeypatch.setitem(benchmark.BUDGETS, second, benchmark.Budget(iterations=7))
    with pytest.raises(SystemExit, match=rf"other settings.*iterations = {before} -> 7"):
        run(ids=(second,), seeds=(2,))


def test_results_survive_a_failure_beside_them(
    benchmark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(benchmark.BUDGETS, "Broken-v0", benchmark.Budget())
    settings = benchmark.Settings(
        ids=("Broken-v0", "KG-QA-v0"), out=tmp_path / "out.json", runs=tmp_path
    )
    with pytest.raises(SystemExit, match="Failed: Broken-v0 smollm2 0, Broken-v0 nano 0"):
        benchmark.main(settings)
    assert list(json.loads(settings.out.read_text())["environments"]) == ["KG-QA-v0"]
    with pytest.raises(SystemExit, match="No budget for Wordle-v0"):
        benchmark.main(benchmark.Settings(ids=("Wordle-v0",)))
