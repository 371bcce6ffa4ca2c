"""The recipe in CONTRIBUTING.md trains as it stands and passes the common tests."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from agentgym.cli import main as cli
from agentgym.errors import ConfigError
from agentgym.trainers import recipes
from agentgym.trainers.data.batch import Batch

from ...helpers.worlds import trajectory
from ..credit.estimators import of_recipe
from . import test_recipes

NAME = "reinforce"


def written(folder: Path) -> Path:
    """Returns the file with the recipe of the page, in a folder."""
    page = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    file = folder / f"{NAME}.py"
    file.write_text(code, encoding="utf-8")
    return file


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    file = written(tmp_path)
    spec = importlib.util.spec_from_file_location(f"agentgym.trainers.recipes.{NAME}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    everything = (*recipes.names(), NAME)
    monkeypatch.setattr(recipes, "names", lambda: everything)
    monkeypatch.setattr(recipes, "__path__", [*recipes.__path__, str(tmp_path)])
    return NAME


@pytest.mark.slow
def test_the_smallest_recipe_solves_the_smallest_environment(recipe: str, tmp_path: Path, capsys):
    test_recipes.test_recipe_solves_number_line(recipe, tmp_path)
    test_recipes.test_every_recipe_names_its_source(recipe)
    test_recipes.test_the_first_step_starts_at_ratio_one(recipe, tmp_path / "ratio")
    with pytest.raises(SystemExit):
        cli.main(["train", recipe, "--help"])
    assert "--gamma" in capsys.readouterr().out


def test_its_credit_is_found_like_that_of_others(recipe: str):
    batch = Batch.of([trajectory([2, 1], [1.0, 2.0])])
    estimator = of_recipe(recipe)
    assert estimator is not None
    assert np.allclose(estimator(batch, None).advantages, [2.98, 2.98, 2.0])


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package beside the user, which is forgotten after the test."""
    folder = tmp_path / "my_lab"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("my_lab", *(f"my_lab.{each}" for each in (NAME, "empty", "broken", "absent"))):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return folder


def test_a_recipe_outside_the_suite_trains_and_resumes(package: Path, tmp_path: Path, capsys):
    written(package)
    run = tmp_path / "run"
    words = [
        "train",
        f"my_lab.{NAME}",
        "--env-id",
        "NumberLine-v0",
        "--model",
        "nano",
        "--constrain",
    ]
    words += ["--episodes-per-iteration", "4", "--num-envs", "2", "--eval-episodes", "2"]
    words += ["--bc-demonstrations", "0", "--run-dir", str(run), "--quiet", "--iterations"]
    assert cli.main([*words, "1"]) == 0
    assert cli.main([*words, "2", "--resume"]) == 0
    rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    assert [row["iteration"] for row in rows if "time/update" in row] == [1, 2]
    with pytest.raises(SystemExit):
        cli.main(["train", f"my_lab.{NAME}", "--help"])
    help = capsys.readouterr().out
    assert "--gamma" in help and "REINFORCE: turn-level credit" in help


def test_a_module_that_is_no_recipe_is_refused(package: Path):
    (package / "empty.py").write_text("", encoding="utf-8")
    (package / "broken.py").write_text("import a_library_that_is_missing", encoding="utf-8")
    with pytest.raises(
        ConfigError, match=r"my_lab.empty is no recipe: it has no Config and no build"
    ):
        recipes.load("my_lab.empty")
    with pytest.raises(ModuleNotFoundError, match="a_library_that_is_missing"):
        recipes.load("my_lab.broken")
    for name in ("my_lab.absent", "elsewhere.reinforce", "../recipe.py", ".poad", "poad."):
        with pytest.raises(ConfigError, match="there is no such module"):
            recipes.load(name)
    with pytest.raises(ConfigError, match="the import path"):
        recipes.load("poadd")
