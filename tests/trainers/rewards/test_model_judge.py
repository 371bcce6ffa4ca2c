"""A trained reward model scores the turns of episodes: the source judge:FOLDER."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym.agents.basic.view import View
from agentgym.errors import CheckpointError, ConfigError
from agentgym.trainers.api import make_trainer
from agentgym.trainers.critics.value_model import action_model
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.policy_agent.agent import PolicyAgent
from agentgym.trainers.policy_agent.best_of import BestOf
from agentgym.trainers.policy_agent.judge import Judge
from agentgym.trainers.policy_agent.loading import load_judge
from agentgym.trainers.recipes import filtered_bc, mt_grpo, poad
from agentgym.trainers.rewards import shaping
from agentgym.trainers.rewards.model_judge import ModelJudge
from agentgym.trainers.rollout.context import ContextSettings

from ..credit.test_joint import agent


@pytest.fixture
def run(make_policy: Callable[..., Any], tmp_path: Path) -> Path:
    """The folder of a run with a judge, whose values are on both sides of 0."""
    reader = PolicyAgent(make_policy(), ContextSettings(), Sampling(max_new_tokens=8))
    model = action_model(reader.policy, seed=0)
    model.scale.fill_(30.0)
    model.mean.fill_(-3.0)
    Judge(model, reader, whole=True).save(tmp_path / "judge")
    return tmp_path


def team(names: str, role: str = "") -> list[Trajectory]:
    """Agents of a game that act one after another, twice, with observations of their own."""
    found = []
    for i, name in enumerate(names):
        found.append(agent(name, [0.0, 0.0], [0, 1], [i, len(names) + i]))
        found[-1].role = role
        for number, turn in enumerate(found[-1].turns):
            turn.observation, turn.action = f"{name} is in room {number}", f"go {name}{number}"
    return found


def test_scores_are_the_probabilities_of_the_values_that_best_of_compares(run: Path):
    batch = Batch.of(team("ab", role="pilot"))  # agents with one role keep their own histories
    judge = shaping.scorer(f"judge:{run}", {"env": "The rules."})
    found = shaping.turn_scores(batch, f"judge:{run}", judge)
    loaded = load_judge(run)
    best = BestOf(loaded.reader, loaded, 2)
    views, actions = [], []
    for name in "ab":
        past = [(f"{name} is in room 0", f"go {name}0")]
        views += [
            View.of_text("The rules.", past[0][0]),
            View.of_text("The rules.", f"{name} is in room 1", past),
        ]
        actions += [f"go {name}0", f"go {name}1"]
    values = np.array(best.scores(views, actions), np.float64)
    assert np.ptp(values) > 1 and len(set(np.sign(values))) == 2
    assert found == pytest.approx(1 / (1 + np.exp(-values)), abs=1e-5)
    # The rules are part of the prompt.
    bare = shaping.turn_scores(batch, f"judge:{run}", shaping.scorer(f"judge:{run}", {}))
    assert not np.allclose(bare, found, atol=1e-3)


def test_extreme_values_stay_in_the_unit_interval(run: Path, monkeypatch: pytest.MonkeyPatch):
    judge = ModelJudge(f"judge:{run}", {})
    monkeypatch.setattr(judge.judge.model, "predict", lambda batch: np.array([-1e9, 1e9]))
    batch = Batch.of(team("a"))
    assert shaping.turn_scores(batch, f"judge:{run}", judge).tolist() == [0, 1]
    monkeypatch.setattr(judge.judge.model, "predict", lambda batch: np.array([0, np.nan]))
    with pytest.raises(ConfigError, match=r"must lie in \[0, 1\], got nan"):
        shaping.turn_scores(batch, f"judge:{run}", judge)


def test_a_folder_without_a_judge_is_refused_before_the_run(run: Path, tmp_path: Path):
    for folder in (run, run / "judge"):
        assert poad.Config.of(process_reward=f"judge:{folder}").reward.process_reward
    assert filtered_bc.Config.of(judge=f"judge:{run}").judge
    (tmp_path / "other").mkdir()
    for folder in (tmp_path / "other", tmp_path / "nowhere"):
        with pytest.raises(ConfigError, match=r"process_reward .* holds no judge: .*orm"):
            make_trainer("turn", process_reward=f"judge:{folder}", run_dir=str(tmp_path / "run"))
        with pytest.raises(ConfigError, match=r"judge .* holds no judge"):
            filtered_bc.Config.of(judge=f"judge:{folder}")
    with pytest.raises(ConfigError, match="turn_score takes no judge:FOLDER"):
        mt_grpo.Config.of(turn_score=f"judge:{run}")
    (run / "judge" / "head.pt").write_bytes(b"damaged")
    with pytest.raises(CheckpointError, match="cannot be loaded"):
        shaping.scorer(f"judge:{run}", {})
