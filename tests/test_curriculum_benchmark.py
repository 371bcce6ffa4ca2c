"""The benchmark of curricula: its settings, and its table."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

pytest.importorskip("torch")

from agentgym.trainers.run.cli import read_config

from .helpers.benchmarks import benchmark_script


@pytest.fixture(scope="module")
def curriculum():
    with benchmark_script("curriculum") as script:
        yield script


def test_every_curriculum_is_a_setting_of_grpo(curriculum: Any):
    for settings in curriculum.CURRICULA.values():
        flags = ["--config", str(curriculum.CONFIG), *curriculum.as_flags(settings)]
        assert read_config("grpo", flags).rollout.group_size == 8


def test_differences_are_paired_by_seed(curriculum: Any, monkeypatch: pytest.MonkeyPatch):
    figures = importlib.import_module("curriculum_figures")
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
