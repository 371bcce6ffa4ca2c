"""The benchmark of families: shared cloned policies, kept results and the figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from agentgym.errors import ConfigError
from agentgym.trainers import make_trainer
from agentgym.trainers.cli.train import read_config
from benchmarks.figures import families_figures
from benchmarks.learning import families
from benchmarks.shared import figure_results

TINY = {
    "constrain": True,
    "bc_demonstrations": 4,
    "bc_epochs": 1,
    "episodes_per_iteration": 8,
    "minibatches": 1,
    "eval_episodes": 2,
}


def test_recipes_start_from_one_cloned_policy_and_other_results_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    launched = []

    def launch(recipe: str, config: Path, folder: Path, flags: list[str]) -> None:
        words = ["--config", str(config), "--run-dir", str(folder), *flags, "--quiet"]
        make_trainer(recipe, read_config(recipe, words)).run()
        models = [flag.removeprefix("--model=") for flag in flags if flag.startswith("--model=")]
        launched.append((folder.name, *(models or ["new"])))

    result = tmp_path / "families.json"
    other = {"settings": {}, "runs": []}
    result.write_text(json.dumps({"environments": {"Other-v0": other}}))
    monkeypatch.setattr(families, "launch", launch)
    tiny = families.Family(TINY, {"poad": 2, "grpo": 3})
    monkeypatch.setattr(families, "FAMILIES", {"Other-v0": tiny, "LiarsDice-Duel-v0": tiny})
    settings = families.Settings(
        ids=("LiarsDice-Duel-v0",), seeds=(3,), runs=tmp_path / "runs", out=result
    )
    families.main(settings)
    cloned = str(tmp_path / "runs" / "LiarsDice-Duel-v0" / "cloned-3" / "policy")
    assert launched == [("cloned-3", "new"), ("poad-3", cloned), ("grpo-3", cloned)]
    found = json.loads(result.read_text())["environments"]
    assert found["Other-v0"] == other
    runs = found["LiarsDice-Duel-v0"]["runs"]
    assert [run["recipe"] for run in runs] == ["poad", "grpo"]
    for run in runs:
        assert {"random", "imitation", "start", "trained", "expert"} >= set(run["agents"])
        assert len(run["training_return"]) == {"poad": 2, "grpo": 3}[run["recipe"]]
    assert runs[0]["explained_variance"] and not runs[1]["explained_variance"]


def test_other_seeds_stay_and_a_seed_that_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):

    def train(settings: Any, name: str, seed: int) -> list[dict[str, Any]]:
        if seed == 4:
            raise ConfigError("no way")
        return [run_of(recipe, seed, 0.2, 0.9) for recipe in families.RECIPES]

    def written(*seeds: int) -> list[tuple[str, int, float]]:
        families.main(families.Settings(ids=("X-v0",), seeds=seeds, out=out))
        runs = json.loads(out.read_text())["environments"]["X-v0"]["runs"]
        return [(r["recipe"], r["seed"], r["agents"]["trained"]["reward"][0]) for r in runs]

    out, family = tmp_path / "families.json", families.Family({"lr": 1}, {"poad": 2, "grpo": 3})
    monkeypatch.setattr(families, "train", train)
    monkeypatch.setattr(families, "FAMILIES", {"X-v0": family})
    old = [run_of(recipe, seed, 0.2, 0.5) for seed in (1, 3) for recipe in families.RECIPES]
    about = {"settings": {"lr": 1}, "iterations": {"poad": 2, "grpo": 3}, "runs": old}
    out.write_text(json.dumps({"environments": {"X-v0": about}}))
    assert written(2, 1) == [
        (recipe, seed, trained)
        for seed, trained in ((1, 0.9), (2, 0.9), (3, 0.5))
        for recipe in ("poad", "grpo")
    ]
    with pytest.raises(SystemExit, match=r"^Failed: X-v0 4$"):
        written(4, 3)
    assert json.loads(out.read_text())["environments"]["X-v0"]["runs"][-1] == train(None, "", 3)[-1]
    more = families.Family({"lr": 1}, {"poad": 2, "grpo": 6})
    monkeypatch.setattr(families, "FAMILIES", {"X-v0": more})
    with pytest.raises(SystemExit, match=r"'grpo': 3} -> .*'grpo': 6}.*set --out"):
        written(5)
    monkeypatch.setattr(families, "FAMILIES", {"X-v0": family})
    monkeypatch.setitem(families.RECIPES, "grpo", {"clip": 0.1})
    with pytest.raises(SystemExit, match=r"grpo = {} -> {'clip': 0.1}"):
        written(5)


def test_the_table_holds_results_that_were_written_after_the_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(figure_results, "RESULTS", tmp_path)
    for trained in (0.6, 0.8):
        content = {"environments": {"X-v0": {"runs": [run_of("poad", 0, 0.2, trained)]}}}
        (tmp_path / "families.json").write_text(json.dumps(content))
        assert f"| 0.20 | {trained:.2f} |" in families_figures.families_table()


def run_of(recipe: str, seed: int, cloned: float, trained: float) -> dict[str, Any]:
    """Returns the summary of a run."""
    agents = {
        name: {"reward": [x, x, x]} for name, x in (("imitation", cloned), ("trained", trained))
    }
    explained = [[10, 0.1], [20, 0.5]] if recipe == "poad" else []
    returns = [[10, cloned], [20, trained]]
    return {
        "recipe": recipe, "seed": seed, "agents": agents,
        "explained_variance": explained, "training_return": returns,
    }  # fmt: skip


def test_gains_count_where_the_intervals_over_seeds_are_apart(monkeypatch: pytest.MonkeyPatch):
    runs = [run_of("poad", seed, 0.2 + seed / 100, 0.8 + seed / 100) for seed in range(3)]
    runs += [run_of("grpo", seed, 0.2 + seed / 100, 0.2 + 0.3 * seed) for seed in range(3)]
    content = {"environments": {"X-v0": {"settings": {}, "runs": runs}}}
    monkeypatch.setattr(families_figures, "results_if_any", lambda name: content)
    over_seeds, over_tasks = families_figures.families_summary().split(". ")
    assert over_seeds.endswith("POAD in 1 and GRPO in 0")
    assert over_tasks.endswith("POAD in 1 and GRPO in 0.")  # GRPO gains nothing with seed 0
    assert "| 0.21 [0.19, 0.23] | 0.81 [0.79, 0.83] |" in families_figures.families_table()
    assert families_figures.families_table().endswith("| 0.10 to 0.50 |")
    digest, draw = families_figures.picture()
    assert digest.encode() in draw()
