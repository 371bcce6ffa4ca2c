"""The benchmark of curricula: its settings, and its table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from agentgym.errors import ConfigError
from agentgym.trainers.cli.train import read_config
from benchmarks.figures import curriculum_figures as figures
from benchmarks.learning import curriculum


def test_every_curriculum_is_a_setting_of_grpo():
    for settings in curriculum.CURRICULA.values():
        flags = ["--config", str(curriculum.CONFIG), *curriculum.as_flags(settings)]
        assert read_config("grpo", flags).rollout.group_size == 8


def test_other_curricula_and_seeds_stay_and_a_seed_that_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def train(settings: Any, seed: int) -> list[dict[str, Any]]:
        if seed == 4:
            raise ConfigError("no way")
        return [run_of(name, seed, steps) for name in settings.names]

    def written(**options: Any) -> list[tuple[str, int, int]]:
        curriculum.main(curriculum.Settings(out=out, **options))
        runs = json.loads(out.read_text())["runs"]
        return [(run["curriculum"], run["seed"], run["env_steps"]) for run in runs]

    out, steps = tmp_path / "curriculum.json", 10
    monkeypatch.setattr(curriculum, "train", train)
    old = [run_of("uniform", 1, steps), run_of("regret", 1, steps)]
    out.write_text(json.dumps({"runs": old}))  # of before settings were written
    steps = 20
    assert written(names=("regret",), seeds=(2, 1)) == [
        ("uniform", 1, 10), ("regret", 1, 20), ("regret", 2, 20),
    ]  # fmt: skip
    with pytest.raises(SystemExit, match=r"^Failed: seed 4$"):
        written(names=("uniform",), seeds=(4, 3))
    assert [run["seed"] for run in json.loads(out.read_text())["runs"]] == [1, 3, 1, 2]
    config = tmp_path / "curriculum.yaml"
    config.write_text(curriculum.CONFIG.read_text().replace("epochs: 2", "epochs: 3"))
    monkeypatch.setattr(curriculum, "CONFIG", config)
    with pytest.raises(SystemExit, match=r"\(epochs = 2 -> 3\): set --out"):
        written(names=("uniform",), seeds=(4,))


def run_of(name: str, seed: int, steps: int) -> dict[str, Any]:
    """Returns the summary of a run."""
    agents = {"imitation": {"reward": [0.1]}, "trained": {"reward": [0.5]}}
    found = {"curriculum": name, "seed": seed, "env_steps": steps, "agents": agents}
    return found | {"equal_groups": 0.5}


def test_differences_are_paired_by_seed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(figures, "results_if_any", lambda _: None)
    assert {block() for block in figures.BLOCKS.values()} == {"No results yet."}

    def run(name: str, seed: int, reward: float) -> dict[str, Any]:
        agents = {"imitation": {"reward": [0.1]}, "trained": {"reward": [reward]}}
        found = {"curriculum": name, "seed": seed, "env_steps": 60123, "agents": agents}
        return found | {"equal_groups": {"uniform": 0.8, "regret": 0.4}[name]}

    runs = [run("uniform", seed, seed / 10) for seed in (1, 2, 3)]
    runs += [run("regret", seed, seed / 10 + 0.05) for seed in (1, 2, 3)]
    monkeypatch.setattr(figures, "results_if_any", lambda _: {"runs": runs})
    *_, uniform, regret = figures.curriculum_table().split("\n")
    assert uniform == "| uniform | 0.10 [0.10, 0.10] | 0.20 [-0.05, 0.45] | - | 80 % |"
    assert (
        regret == "| regret | 0.10 [0.10, 0.10] | 0.25 [0.00, 0.50] | +0.05 [+0.05, +0.05] | 40 % |"
    )
    assert figures.curriculum_summary() == (
        "After 60,000 environment steps, over 3 seeds: clearly better than uniform tasks: regret. "
        "Clearly worse: none."
    )
