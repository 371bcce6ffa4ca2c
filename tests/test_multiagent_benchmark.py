"""The experiments of the multi-agent benchmark: their settings, and the summary of measures."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

pytest.importorskip("torch")

from agentgym.trainers import make_trainer
from agentgym.trainers.run.cli import read_config

SMALL = {
    "cooks": {"bc_demonstrations": 1, "episodes_per_iteration": 2},
    "dilemma": {"train_tasks": 1, "group_size": 2, "episodes_per_iteration": 4},
    "branches": {"group_size": 2, "episodes_per_iteration": 2},
    "scales": {"group_size": 2, "episodes_per_iteration": 4},
    "codenames": {"bc_demonstrations": 1, "episodes_per_iteration": 2},
    "referential": {"bc_demonstrations": 4, "group_size": 2, "episodes_per_iteration": 4},
}
"""Settings of the quickest run of an experiment."""


@pytest.fixture(scope="module")
def benchmark():
    sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
    yield importlib.import_module("multiagent")
    sys.path.pop(0)
    sys.modules.pop("multiagent", None)


@pytest.fixture
def run_small(benchmark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Trains in this process, for an iteration of a few episodes, and measures few games."""

    def launch(recipe: str, file: Path, folder: Path, flags: list[Any]) -> None:
        small = {"iterations": 1, "bc_epochs": 1} | SMALL[folder.parent.name]
        settings = yaml.safe_load(file.read_text()) | small
        file.write_text(yaml.safe_dump(settings))
        words = ["--config", str(file), "--run-dir", str(folder), *map(str, flags), "--quiet"]
        make_trainer(recipe, read_config(recipe, words)).run()

    monkeypatch.setattr(benchmark, "launch", launch)
    monkeypatch.setattr(sys.modules["multiagent_measures"], "GAMES", 2)
    return benchmark.Settings(runs=tmp_path, seeds=(0, 1))


def test_all_variants_have_valid_settings(benchmark: Any, tmp_path: Path):
    file = tmp_path / "settings.yaml"
    for experiment in benchmark.EXPERIMENTS.values():
        for settings in experiment.variants.values():
            chosen = {**experiment.settings, **settings}
            file.write_text(yaml.safe_dump({k: v for k, v in chosen.items() if k != "recipe"}))
            recipe = settings.get("recipe", experiment.recipe)
            config = read_config(recipe, ["--config", str(file)])
            assert config.game.mixture


def test_measures_are_kept_and_summarised_over_seeds(benchmark: Any, tmp_path: Path):
    settings = benchmark.Settings(runs=tmp_path, seeds=(0, 1, 2))
    for seed in (0, 1):  # the third one is not finished
        folder = benchmark.Job("kuhn", "psro:nash", seed, tmp_path).folder
        folder.mkdir(parents=True)
        (folder / "report.json").write_text("[]")
        (folder / "measure.json").write_text(json.dumps({"NashConv, last": 0.1 + 0.1 * seed}))
        (folder / "curve.json").write_text(json.dumps([[0, 0.9], [5, 0.1]]))
    [(variant, found)] = benchmark.summary("kuhn", settings)["variants"].items()
    assert variant == "psro:nash" and sorted(found["seeds"]) == [0, 1]
    assert found["means"]["NashConv, last"]["mean"] == pytest.approx(0.15)
    assert found["curves"] == {0: [[0, 0.9], [5, 0.1]], 1: [[0, 0.9], [5, 0.1]]}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_an_experiment_is_trained_and_measured(benchmark: Any, run_small: Any, name: str):
    experiment = benchmark.EXPERIMENTS[name]
    last = [*experiment.variants][-1]
    seeds = run_small.seeds if experiment.across else run_small.seeds[:1]
    for seed in seeds:
        benchmark.Job(name, last, seed, run_small.runs).train()
    found = benchmark.summary(name, run_small)["variants"][last]
    assert all(np.isfinite(each["mean"]) for each in found["means"].values())
    assert [iteration for iteration, _ in found["curves"][0]] == [1]
    assert ("across" in found) == (experiment.across is not None)
