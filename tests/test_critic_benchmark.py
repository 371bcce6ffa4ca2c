"""The critic benchmark runs at small size, and measures the variance that states fix."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def critic():
    sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
    yield importlib.import_module("critic")
    sys.path.pop(0)
    sys.modules.pop("critic", None)


def test_the_variance_between_states_is_what_can_be_explained(critic: Any):
    rng = np.random.default_rng(0)
    states = rng.normal(size=4000)
    returns = (states[:, None] + 0.5 * rng.normal(size=(4000, 3))).astype(np.float32)
    assert critic.possible(returns) == pytest.approx(0.8, abs=0.02)
    assert critic.explained(states.astype(np.float32), returns) == pytest.approx(0.8, abs=0.02)
    assert critic.possible(np.ones((3, 2), np.float32)) == 0


def test_environments_are_measured_and_kept(
    critic: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(critic, "CRITICS", {"shared": {"lr": 1e-3}})
    settings = critic.Settings(
        envs=("TicTacToe-v0",), episodes=4, held_out=3, states=6, continuations=2, epochs=1,
        demonstrations=2, runs=tmp_path / "runs", out=tmp_path / "critic.json",
    )  # fmt: skip
    found = critic.measure("TicTacToe-v0", settings)
    assert found["states"]["all"] == 6
    assert found["critics"]["shared"].keys() == {*found["possible"], "correlation"}
    again = critic.Player("TicTacToe-v0", critic.clone("TicTacToe-v0", settings), 0)
    held = again.episodes("test", 2)
    forks = again.continuations(held, np.array([0, 0, 1]), 4)
    assert forks.shape == (3, 4) and np.isin(forks, [-1, 0, 1]).all()
    critic.write(settings.out, {"environments": {"TicTacToe-v0": found}})
    monkeypatch.setattr(critic, "measure", None)  # results are not measured again
    critic.main(settings)
    assert json.loads(settings.out.read_text())["environments"]["TicTacToe-v0"] == found
