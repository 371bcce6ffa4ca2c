"""The comparison of recipes: its runs, what stays of earlier results, and statistics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentgym.errors import ConfigError
from benchmarks.figures import grid_tables


@pytest.fixture
def grid():
    pytest.importorskip("torch")
    from benchmarks.learning import grid

    return grid


@pytest.mark.slow
def test_seeds_are_added_to_earlier_results(
    grid: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from agentgym.trainers import make_trainer
    from agentgym.trainers.cli.train import read_config

    small = {"env_steps": 48, "bc_demonstrations": 4, "eval_episodes": 20, "num_envs": 4}
    full = grid.Place.settings
    monkeypatch.setattr(grid, "ENVS", ("line",))
    monkeypatch.setattr(grid, "LEARNING_RATES", (2e-4, 5e-4))
    monkeypatch.setattr(
        grid.Place,
        "settings",
        property(lambda place: full.fget(place) | small | {"episodes_per_iteration": 8}),
    )
    launched: list[str] = []

    def launch(recipe: str, config: Path, folder: Path, flags: list[Any]) -> None:
        words = [
            "--config",
            str(config),
            *(f"--{k.replace('_', '-')}={v}" for k, v in small.items()),
        ]
        words += ["--run-dir", str(folder), *map(str, flags), "--quiet"]
        make_trainer(recipe, read_config(recipe, words)).run()
        launched.append(folder.name)

    monkeypatch.setattr(grid, "launch", launch)
    settings = grid.Settings(
        envs=("line",), recipes=("poad", "rloo"), seeds=(0,), runs=tmp_path / "first",
        out=tmp_path / "grid.json",
    )  # fmt: skip
    grid.main(settings)
    rates = [f"{rate:g}" for rate in grid.LEARNING_RATES]
    trials = [f"tune-{recipe}-{rate}" for recipe in settings.recipes for rate in rates]
    assert launched == ["start-100", "start-0", *trials, "poad-0", "rloo-0"]
    found = json.loads(settings.out.read_text())
    about = found["envs"]["line"]
    low, high = (about["baselines"][agent] for agent in ("random", "expert"))
    assert about["threshold"] == pytest.approx(low + 0.9 * (high - low))
    assert [set(about["tuning"][recipe]) for recipe in settings.recipes] == [set(rates)] * 2

    # Without the runs of the first seed, whose learning rates and results are kept.
    launched.clear()
    settings.runs, settings.seeds = tmp_path / "second", (0, 1)
    grid.main(settings)
    assert launched == ["start-1", "poad-1", "rloo-1"]
    both = json.loads(settings.out.read_text())
    assert [(run["recipe"], run["seed"]) for run in both["runs"]] == [
        ("poad", 0), ("rloo", 0), ("poad", 1), ("rloo", 1),
    ]  # fmt: skip
    assert both["runs"][:2] == found["runs"]

    # Results with other settings are dropped.
    monkeypatch.setitem(grid.FLAGS, "rloo", ("--group-size", 2))
    kept = grid.earlier(settings.out)
    assert {run["recipe"] for run in kept["runs"]} == {"poad"} == {*kept["envs"]["line"]["tuning"]}
    small["env_steps"] = 64
    assert grid.earlier(settings.out) == {"envs": {}, "runs": []}


def test_a_trial_that_fails_is_named_and_the_runs_of_other_recipes_go_on(
    grid: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    launched: list[str] = []

    def launch(recipe: str, config: Path, folder: Path, flags: list[Any]) -> None:
        if folder.name == "tune-poad-0.0005":
            raise ConfigError("no way")
        folder.mkdir(parents=True)
        (folder / "report.json").write_text("[]")
        (folder / "config.json").write_text(json.dumps({"config": {}}))
        launched.append(folder.name)

    monkeypatch.setattr(grid, "launch", launch)
    monkeypatch.setattr(grid, "training_return", lambda _: 0.5)
    settings = grid.Settings(envs=("line",), recipes=("poad", "vine"), seeds=(0,), runs=tmp_path)
    failed = grid.play(settings, [grid.Place("line", tmp_path)], {"runs": [], "envs": {}})
    assert list(failed) == ["line poad 0.0005", "line poad 0"]
    assert "vine-0" in launched and "poad-0" not in launched


def test_finished_runs_with_other_settings_are_not_reported(grid: Any, tmp_path: Path):
    place = grid.Place("line", tmp_path)
    folder = place.folder("rloo-0")
    assert not place.finished("rloo-0")
    folder.mkdir(parents=True)
    (folder / "report.json").write_text("[]")
    given = place.settings | {"bc_demonstrations": 0, "env_steps": 1, "episodes_per_iteration": 16}
    (folder / "config.json").write_text(json.dumps({"config": given}))
    assert place.finished("rloo-0")
    (folder / "config.json").write_text(json.dumps({"config": given | {"bc_epochs": 9}}))
    with pytest.raises(SystemExit, match="bc_epochs = 9 -> 5"):
        place.finished("rloo-0")


def test_scores_are_0_at_the_start_and_1_for_the_expert():
    finals = {
        ("a", "poad"): [2.0, 4.0],
        ("b", "poad"): [0.0, 1.0],
        ("a", "rloo"): [6.0, 6.0],
        ("b", "rloo"): [1.0, 1.0],
        ("a", "twosome"): [6.0],  # not in b
    }
    grid = {
        "envs": {
            "a": {"baselines": {"warm start": 2.0, "expert": 6.0}},
            "b": {"baselines": {"warm start": -1.0, "expert": 1.0}},
        },
        "runs": [
            {"env": env, "recipe": recipe, "final": final}
            for (env, recipe), values in finals.items()
            for final in values
        ],
    }
    assert grid_tables.scores(grid) == {
        "poad": [[0.0, 0.5], [0.5, 1.0]],
        "rloo": [[1.0, 1.0], [1.0, 1.0]],
    }
    rows = grid_tables.over_environments(grid)
    # Of b, one of two runs of poad is as good as those of rloo: (1 + 0.75) / 2.
    assert rows[0][:2] == ("`rloo`", "1.00 [1.00, 1.00]") and rows[0][2].startswith("0.88 ")
    assert rows[1][0] == "`poad`" and rows[1][1].startswith("0.50 ") and rows[1][2] == "-"
