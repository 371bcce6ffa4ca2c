"""Two processes train every recipe as one does, share evaluations, and stop together."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trainers import recipes
from agentgym.trainers.run.logger import read_metrics
from agentgym.trainers.system.processes import map_across_processes

from ...helpers.launch import finish, launch

pytestmark = pytest.mark.xdist_group("processes")

TRAIN_ALL, STOP_ALL = ("-m", "tests.helpers.train_all"), ("-m", "tests.helpers.stop_all")
Results = dict[str, dict[str, Any]]
RUNS = (
    *recipes.names(), "rae-mirror", "rae-league", "poad-roles", "turn-central", "magrpo-cross",
    "optima-dpo", "poad-two-hot",
)  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Results]:
    """All recipes, trained by one process and by the two of another run."""
    folder = tmp_path_factory.mktemp("processes")
    children = []
    for name, processes in (("one", 1), ("two", 2)):
        (folder / name).mkdir()
        arguments = [*TRAIN_ALL, str(folder / name), *RUNS]
        children += launch(arguments, processes)
    finish(children)
    files = [folder / "one" / "rank0.pt", *(folder / "two" / f"rank{i}.pt" for i in range(2))]
    return [torch.load(file, weights_only=True) for file in files]


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RUNS)
def test_two_processes_train_as_one_does(recipe: str, results: list[Results]):
    alone, main, other = (result[recipe] for result in results)
    assert main["weights"].keys() == alone["weights"].keys()
    differences = []
    for name, weights in main["weights"].items():
        assert torch.equal(weights, other["weights"][name]), name
        differences.append((weights.double() - alone["weights"][name].double()).abs().flatten())
    # Sums in another order: a gradient entry of rounding errors alone can move a weight by a step
    # of Adam, at most the learning rate. Replicas that are not synchronised differ everywhere.
    difference = torch.cat(differences)
    assert difference.mean() < 2e-6
    assert difference.max() < 1e-3
    assert main["last"] == other["last"] == alone["last"]
    assert main["env_steps"] == other["env_steps"] == alone["env_steps"]


@pytest.mark.slow
def test_sharded_training_is_whole_training(tmp_path: Path):
    children, files = [], []
    for name, processes in (("whole", 1), ("sharded", 2)):
        (tmp_path / name).mkdir()
        children += launch(["-m", "tests.helpers.train_sharded", str(tmp_path / name)], processes)
        files += [tmp_path / name / f"rank{i}.pt" for i in range(processes)]
    finish(children)
    whole, main, other = (torch.load(file, weights_only=True) for file in files)
    for run, result in whole.items():
        found, expected = main[run]["weights"], result["weights"]
        assert all(torch.equal(found[name], other[run]["weights"][name]) for name in expected)
        gaps = torch.cat([(found[name] - expected[name]).abs().flatten() for name in expected])
        # In bfloat16, gradients near 0 may have another sign, and AdamW ignores their size.
        rough = {"autocast": 1e-5, "half": 5e-5, "half adapter": 1e-6, "cast adapter": 1e-6}
        if run in rough:
            assert gaps.mean() < rough[run], run
        else:
            assert gaps.max() < 1e-4, run
        assert result["last"] == main[run]["last"] == other[run]["last"]


@given(st.integers(0, 9), st.integers(2, 4))
def test_processes_share_episodes_and_evaluations(count: int, world: int):
    """Each item is worked on by one process, and all processes get all results, in order."""
    worked: list[int] = []
    parts: list[Any] = []
    found: list[int] = []

    def work(items: Sequence[int]) -> list[int]:
        assert len(items) <= -(-count // world)
        worked.extend(items)
        return [10 * item for item in items]

    def gather(mine: list[Any]) -> list[Any]:
        parts.extend(mine)
        return parts

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agentgym.trainers.system.processes.gather_object", gather)
        for rank in range(world):
            accelerator: Any = SimpleNamespace(process_index=rank, num_processes=world)
            found = map_across_processes(accelerator, range(count), work)
    assert sorted(worked) == list(range(count))
    assert found == [10 * item for item in range(count)]


@pytest.mark.slow
def test_a_signal_to_one_process_stops_all(tmp_path: Path):
    errors = finish(launch([*STOP_ALL, str(tmp_path)], 2))
    assert "Traceback" not in "".join(errors)
    assert errors[1].count("Stopping at the next safe point") == 3
    stopped = [128 + signal.SIGTERM, 0]
    codes = {"imitation": stopped, "rollout": stopped, "evaluation": stopped, "whole": [0]}
    assert [json.loads((tmp_path / f"rank{i}.json").read_text()) for i in range(2)] == [codes] * 2
    curves = [
        [{k: v for k, v in row.items() if not k.startswith("time/")} for row in read_metrics(run)]
        for run in (tmp_path / name for name in codes)
    ]
    assert len(curves[-1]) == 3
    assert all(curve == curves[-1] for curve in curves)
