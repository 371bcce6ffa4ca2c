"""The experiments of the multi-agent benchmark: their settings, and the summary of measures."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("torch")

from agentgym.trainers.run.cli import read_config


@pytest.fixture(scope="module")
def benchmark():
    sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
    yield importlib.import_module("multiagent")
    sys.path.pop(0)
    sys.modules.pop("multiagent", None)


def test_all_variants_have_valid_settings(benchmark: Any, tmp_path: Path):
    file = tmp_path / "settings.yaml"
    for experiment in benchmark.EXPERIMENTS.values():
        for settings in experiment.variants.values():
            file.write_text(yaml.safe_dump({**experiment.settings, **settings}))
            config = read_config(experiment.recipe, ["--config", str(file)])
            assert config.game.mixture


def test_measures_are_kept_and_summarised_over_seeds(benchmark: Any, tmp_path: Path):
    settings = benchmark.Settings(runs=tmp_path, seeds=(0, 1, 2))
    for seed in (0, 1):  # the third one is not finished
        folder = benchmark.Job("kuhn", "psro:nash", seed, tmp_path).folder
        folder.mkdir(parents=True)
        (folder / "report.json").write_text("[]")
        (folder / "measure.json").write_text(json.dumps({"NashConv, last": 0.1 + 0.1 * seed}))
    [(variant, found)] = benchmark.summary("kuhn", settings)["variants"].items()
    assert variant == "psro:nash" and sorted(found["seeds"]) == [0, 1]
    assert found["means"]["NashConv, last"]["mean"] == pytest.approx(0.15)
