"""Runs of the benchmarks: one that has finished is not taken for one with other settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentgym.errors import ConfigError

from .helpers.benchmarks import benchmark_script


@pytest.fixture
def learning():
    pytest.importorskip("torch", reason="needs the extra `train`")
    with benchmark_script("learning") as script:
        yield script


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of a run that has finished, in the folder `run` beside it."""
    from agentgym.trainers.run.cli import read_config

    file, folder = tmp_path / "settings.yaml", tmp_path / "run"
    file.write_text("env_id: NumberLine-v0\nenv_kwargs: {size: 5}\nlr: 1.0e-3\n")
    words = ["--config", str(file), "--stop", "a", "b", "--run-dir", str(folder), "--quiet"]
    config = {"recipe": "rloo", **read_config("rloo", words).to_json(), "setting_of_before": 1}
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"config": config}))
    (folder / "report.json").write_text("[]")
    return file


def test_a_finished_run_with_the_same_settings_is_kept(learning: Any, file: Path):
    for more in ([], ["--threads", 3], ["--env-id", "AgentGym/NumberLine-v0"]):
        learning.launch("rloo", file, file.parent / "run", ["--stop", "a", "b", *more])


@pytest.mark.parametrize(
    ("recipe", "flags", "difference"),
    [
        ("rloo", ["--stop", "a"], r"stop = \['a', 'b'\] -> \['a'\]"),
        ("rloo", ["--stop", "a", "b", "--iterations", 7], "iterations = 100 -> 7"),
        ("grpo", ["--stop", "a", "b"], "recipe = 'rloo' -> 'grpo'"),
    ],
)
def test_a_finished_run_with_other_settings_is_refused(
    learning: Any, file: Path, recipe: str, flags: list[Any], difference: str
):
    with pytest.raises(ConfigError, match=f"{difference}.*choose a new folder"):
        learning.launch(recipe, file, file.parent / "run", flags)


def test_a_finished_run_of_another_file_is_refused(learning: Any, file: Path):
    file.write_text(file.read_text().replace("size: 5", "size: 6"))
    with pytest.raises(ConfigError, match=r"env_kwargs = {'size': 5} -> {'size': 6}"):
        learning.launch("rloo", file, file.parent / "run", ["--stop", "a", "b"])
