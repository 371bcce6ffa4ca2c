"""Runs of the benchmarks: one that has finished is not taken for one with other settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra `train`")

from agentgym.errors import ConfigError
from benchmarks.learning import learning


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of a run that has finished, in the folder `run` beside it."""
    from agentgym.trainers.cli.train import read_config

    file, folder = tmp_path / "settings.yaml", tmp_path / "run"
    file.write_text("env_id: NumberLine-v0\nenv_kwargs: {size: 5}\nlr: 1.0e-3\n")
    words = ["--config", str(file), "--stop", "a", "b", "--run-dir", str(folder), "--quiet"]
    config = {"recipe": "rloo", **read_config("rloo", words).to_json(), "setting_of_before": 1}
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"config": config}))
    (folder / "report.json").write_text("[]")
    return file


def test_a_finished_run_with_the_same_settings_is_kept(file: Path):
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
    file: Path, recipe: str, flags: list[Any], difference: str
):
    with pytest.raises(ConfigError, match=f"{difference}.*choose a new folder"):
        learning.launch(recipe, file, file.parent / "run", flags)


def test_other_recipes_and_seeds_stay_and_a_run_that_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def launch(recipe: str, config: Path, folder: Path, *_: Any) -> None:
        if folder.name == "poad-9":
            raise ConfigError("no way")

    def summary(recipe: str, seed: int, folder: Path) -> dict[str, Any]:
        means = {key: [value, None, None] for key in ("reward", "success", "turns", "valid")}
        return {
            "recipe": recipe, "seed": seed, "agents": {"expert": means},
            "curve": [[0, value, value, value]], "explained_variance": [],
        }  # fmt: skip

    def written(**options: Any) -> list[tuple[str, int, float]]:
        learning.main(learning.Settings(name="line", config=config, **options))
        runs = json.loads(out.read_text())["runs"]
        return [(r["recipe"], r["seed"], r["agents"]["expert"]["reward"][0]) for r in runs]

    drawn: list[int] = []
    config, out = tmp_path / "line.yaml", tmp_path / "results" / "learning_line.json"
    config.write_text("env_id: NumberLine-v0\nlr: 1.0e-3\nthreads: 2\n")
    monkeypatch.setattr(learning, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(learning, "launch", launch)
    monkeypatch.setattr(learning, "summary", summary)
    monkeypatch.setattr(learning, "draw", lambda runs, *_: drawn.append(len(runs)))
    value = 0.5
    assert written(seeds=(0, 1)) == [("poad", 0, 0.5), ("poad", 1, 0.5)]
    value = 0.7
    both = [("poad", 0, 0.5), ("poad", 1, 0.7), ("turn", 1, 0.7)]
    assert written(recipes=("turn", "poad"), seeds=(1,)) == both
    with pytest.raises(SystemExit, match=r"^Failed: poad-9$"):
        written(seeds=(9, 2))
    found = json.loads(out.read_text())
    assert [run["seed"] for run in found["runs"]] == [0, 1, 2, 1]
    assert found["config"]["lr"] == 1e-3 and "seed" not in found["config"]
    assert drawn[-1] == 4
    with pytest.raises(SystemExit, match=r"\(clip = 0.2 -> 0.1\): set --name"):
        written(seeds=(3,), flags=("clip=0.1",))
    with pytest.raises(SystemExit, match=r"env_kwargs = {} -> {'size': 5}"):
        written(seeds=(3,), env_kwargs=("size=5",))
    config.write_text(config.read_text().replace("1.0e-3", "2.0e-3"))
    with pytest.raises(SystemExit, match=r"lr = 0.001 -> 0.002"):
        written(seeds=(3,))


def test_a_finished_run_of_another_file_is_refused(file: Path):
    file.write_text(file.read_text().replace("size: 5", "size: 6"))
    with pytest.raises(ConfigError, match=r"env_kwargs = {'size': 5} -> {'size': 6}"):
        learning.launch("rloo", file, file.parent / "run", ["--stop", "a", "b"])
