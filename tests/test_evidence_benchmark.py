"""`benchmarks/learning/evidence_queue.py` chooses environments by its rule. Nothing is trained."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
from agentgym.errors import ConfigError
from benchmarks.learning import evidence_queue

LATE = ("poad", "turn")
"""Recipes that learn more with the last rate."""
RUNS = len(evidence_queue.SEEDS) * (1 + len(evidence_queue.RECIPES)) + len(evidence_queue.RECIPES)
"""Runs of an environment: clones, recipes, and those of the first seed with another rate."""


@pytest.fixture
def rates() -> dict[tuple[str, int], float]:
    """Success rate of a clone by environment and number of demonstrations."""
    return {}


@pytest.fixture
def trained() -> list[str]:
    """Names of the runs that were trained, in order."""
    return []


@pytest.fixture
def queue(rates: Any, trained: list[str], monkeypatch: pytest.MonkeyPatch):
    def train(settings: Any, job: Any, children: Any) -> dict[str, Any]:
        trained.append(job.name)
        rate = rates.get((job.env, job.demonstrations), 0.0)
        end = 1.0 if (job.lr == evidence_queue.RATES[-1]) == (job.recipe in LATE) else 0.0
        curve = [[1, 9.0], [2, 9.0], [3, 9.0], [4, end]]
        agents = {"imitation": {"success": [rate, rate, rate]}}
        return {"agents": agents, "lr": job.lr, "training_return": curve, "seconds": 1}

    monkeypatch.setattr(evidence_queue, "train", train)
    monkeypatch.setattr(evidence_queue, "smollm2", lambda folder: folder)
    monkeypatch.setattr(evidence_queue.os, "nice", lambda by: 0)
    return evidence_queue


def test_the_rule_counts_environments_whose_clone_succeeds_sometimes(
    queue: Any, rates: dict[tuple[str, int], float], trained: list[str], tmp_path: Path
):
    weak, strong, late, never, *others = queue.CANDIDATES
    rates |= {(weak, 64): 0.2, (strong, 64): 0.9, (late, 64): 0.05, (late, 200): 0.7}
    rates |= {(env, 64): 0.5 for env in others}
    settings = queue.Settings(out=tmp_path / "out.json", runs=tmp_path)
    queue.main(settings)
    clones = [name for name in trained if " clone " in name and name.endswith(" 0")]
    assert f"{late} clone 200 0" in clones
    assert f"{never} clone 200 0" in clones
    assert f"{strong} clone 200 0" not in clones
    chosen = {weak: 64, late: 200, others[0]: 64, others[1]: 64}  # four are enough
    runs = [name for name in trained if name not in clones]
    last = f" {evidence_queue.RATES[-1]:g}"
    expected = []
    for env, demonstrations in chosen.items():
        for seed in queue.SEEDS:
            own = [f"{env} {recipe} {demonstrations} {seed}" for recipe in queue.RECIPES]
            if seed == 0:  # with both rates
                expected += own + [name + last for name in own]
            else:  # with that which is better in the last quarter of the first seed
                better = [any(f" {recipe} " in name for recipe in LATE) for name in own]
                expected += [n + last * wins for n, wins in zip(own, better, strict=True)]
                expected.append(f"{env} clone {demonstrations} {seed}")
    assert sorted(runs) == sorted(expected)
    seeds = [int(name.split()[3]) for name in runs if " clone " not in name]
    assert seeds == sorted(seeds)  # all recipes have one seed before the next one begins
    assert set(json.loads(settings.out.read_text())["runs"]) == set(trained)
    trained.clear()
    queue.main(settings)
    assert not trained


def test_a_question_chooses_its_environment_whatever_the_clone_does(
    queue: Any, trained: list[str], tmp_path: Path
):
    settings = queue.Settings(out=tmp_path / "out.json", runs=tmp_path, ids=("TextGeneration-v0",))
    queue.main(settings)  # clones that never succeed
    assert len(trained) == RUNS


def test_results_of_another_rule_are_refused(queue: Any, tmp_path: Path, monkeypatch: Any):
    settings = queue.Settings(out=tmp_path / "out.json", runs=tmp_path, ids=("Shell-v0",))
    queue.main(settings)
    monkeypatch.setattr(queue, "EPISODES", 99)
    with pytest.raises(SystemExit, match=r"other settings.*episodes = 2560 -> 99"):
        queue.main(settings)


@pytest.mark.parametrize(
    "error",
    [subprocess.CalledProcessError(2, "train"), ConfigError("a finished run of other settings")],
)
def test_a_failed_run_is_named_and_the_others_go_on(
    queue: Any, rates: Any, tmp_path: Path, monkeypatch: Any, capsys: Any, error: Exception
):
    rates["Shell-v0", 64] = 0.5
    before = queue.train

    def train(settings: Any, job: Any, children: Any) -> dict[str, Any]:
        if job.recipe == "rae" and job.seed == 1:
            raise error
        return before(settings, job, children)

    monkeypatch.setattr(queue, "train", train)
    settings = queue.Settings(out=tmp_path / "out.json", runs=tmp_path, ids=("Shell-v0",))
    with pytest.raises(SystemExit, match="1 runs failed"):
        queue.main(settings)
    assert "Shell-v0 rae 64 1" in capsys.readouterr().err
    rows = json.loads(settings.out.read_text())["runs"]
    assert len(rows) == RUNS - 1


def test_the_time_limit_stops_runs_in_progress(queue: Any, tmp_path: Path, monkeypatch: Any):
    begun: list[str] = []

    def train(settings: Any, job: Any, children: Any) -> dict[str, Any]:
        children._expire()
        begun.append(job.name)
        raise subprocess.CalledProcessError(143, "train")

    monkeypatch.setattr(queue, "train", train)
    settings = queue.Settings(out=tmp_path / "out.json", runs=tmp_path, minutes=600.0)
    queue.main(settings)
    assert len(begun) == 1  # and no other one
    assert not settings.out.exists()


def test_settings_of_a_recipe_follow_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    launched: list[tuple[str, Path, list[str]]] = []

    def launch(recipe: str, config: Path, folder: Path, flags: list[str], children: Any) -> None:
        launched.append((recipe, folder, flags))

    monkeypatch.setattr(evidence_queue, "launch", launch)
    monkeypatch.setattr(evidence_queue, "row_of", lambda *given: {})
    settings = evidence_queue.Settings(runs=tmp_path)
    for recipe in ("grpo", "grpo lr_warmup=4"):
        evidence_queue.train(settings, evidence_queue.Job("Shell-v0", recipe, 64, 0), Any)  # type: ignore[arg-type]
    (_, clone, _), (_, _, plain), (_, same, _), (name, folder, flags) = launched
    assert name == "grpo"
    assert clone == same
    assert folder == tmp_path / "Shell-v0-grpo-lr_warmup=4-64-0"
    assert set(flags) - set(plain) == {"--lr-warmup=4"}
