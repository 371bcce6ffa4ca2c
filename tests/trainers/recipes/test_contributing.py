"""The recipe in CONTRIBUTING.md trains as it stands and passes the common tests."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from agentgym.cli import main as cli
from agentgym.trainers import recipes
from agentgym.trainers.trajectory import Batch

from ...helpers.worlds import trajectory
from ..credit.estimators import of_recipe
from . import test_recipes

NAME = "reinforce"


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    page = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    file = tmp_path / f"{NAME}.py"
    file.write_text(code, encoding="utf-8")
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
