"""Scalars of an iteration, with what they are measured against."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym.trainers import train
from agentgym.trainers.api import make_trainer
from agentgym.trainers.credit.returns import observed_returns
from agentgym.trainers.credit.two_clock import poad, turn
from agentgym.trainers.data.batch import Batch, Values
from agentgym.trainers.rollout.metrics import rollout_metrics
from agentgym.trainers.run.logger import read_metrics
from agentgym.trainers.run.metrics import iteration_metrics
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.update.learner import ForwardPass

from ...helpers.worlds import trajectory, values


def metrics_of(batch: Batch, critic: Values, estimator=None) -> dict[str, float]:
    """Returns the scalars of a batch that an estimator gives credit with a critic's values."""
    estimator = estimator or poad()
    return iteration_metrics(
        TrainConfig(), batch.trajectories, batch, estimator(batch, critic), {},
        ForwardPass(values=critic), observed_returns(estimator, batch), 0,
    )  # fmt: skip


def test_a_critic_of_truncated_episodes_without_rewards_explains_nothing():
    batch = Batch.of([trajectory([2, 3, 1], [0, 0, 0], terminated=False)] * 8)
    found = metrics_of(batch, values(batch, np.random.default_rng(0)))
    assert "losses/explained_variance" not in found and "credit/value_mean" in found


def test_equal_returns_give_no_huge_number():
    some = [trajectory([2] * n, [0.0] * (n - 1) + [1.0]) for n in (1, 2, 3, 4)] * 4
    batch = Batch.of(some)
    found = metrics_of(batch, values(batch, np.random.default_rng(0)))
    assert "losses/explained_variance" not in found


@pytest.mark.parametrize("estimator", [poad(1.0, 0.0), turn(1.0, 0.0)])
def test_values_are_compared_with_returns_and_not_with_targets_made_of_them(estimator):
    """The first observation is always the same, and its targets are values of the second one."""
    batch = Batch.of([trajectory([1, 1], [0.0, won]) for won in (0.0, 1.0) * 8])
    guess = np.random.default_rng(0).normal(size=len(batch.turns)).astype(np.float32)
    guess[1::2] = guess[::2]  # so that the target of the first turn is its value
    critic = Values(guess, guess, np.zeros(16, np.float32))
    explained = metrics_of(batch, critic, estimator)["losses/explained_variance"]
    returns = np.repeat(np.array([0.0, 1.0] * 8), 2)
    assert explained == pytest.approx(1 - np.var(returns - guess) / 0.25, abs=1e-5)
    exact = returns.astype(np.float32)
    known = Values(exact, exact, np.zeros(16, np.float32))
    assert metrics_of(batch, known, estimator)["losses/explained_variance"] == pytest.approx(1)


@pytest.mark.parametrize("bonus", [0.0, 0.5])
def test_a_run_measures_the_critic_against_the_rewards_that_it_learns_from(
    bonus: float, tmp_path: Path
):
    """No episode ends or succeeds, so that only the bonus makes returns differ."""
    settings: dict[str, Any] = {
        "env_id": "NumberLine-v0", "env_kwargs": {"size": 60, "max_turns": 3}, "model": "nano",
        "context": "current", "constrain": True, "iterations": 1, "episodes_per_iteration": 8,
        "num_envs": 8, "epochs": 1, "minibatches": 1, "eval_episodes": 0, "device": "cpu",
        "threads": 1, "log_with": (), "run_dir": str(tmp_path), "quiet": True,
        "novelty_bonus": bonus,
    }  # fmt: skip
    train("poad", **settings)
    [row] = [row for row in read_metrics(tmp_path) if "rollout/return" in row]
    assert row["rollout/return"] == 0 and row["rollout/truncated"] == 1
    assert ("losses/explained_variance" in row) == (bonus > 0)


def test_without_listed_actions_there_is_no_coverage_of_them():
    free, listed = trajectory([1], [1.0], actions=["go"]), trajectory([1], [1.0], actions=["go"])
    assert "action_coverage" not in rollout_metrics([free])
    listed.turns[0].admissible = ("go", "stay")
    assert rollout_metrics([free, listed])["action_coverage"] == 0.5


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ("vine", {"group_size": 2}),
        ("archer", {"group_size": 2, "critic_steps": 1, "critic_batch": 8}),
        (
            "exit",
            {"group_size": 2, "guided": True, "teacher": "search:mcts,budget=4,value=policy"},
        ),
        ("early_experience", {"demonstrations": 2, "held_out": 0}),
    ],
)
def test_tokens_are_those_that_the_policy_generated(
    recipe: str, changes: dict[str, Any], tmp_path: Path
):
    """Also in branches of episodes, without the actions that these repeat, for critics, and in
    searches and trials.
    """
    settings: dict[str, Any] = dict(
        env_id="NumberLine-v0", model="nano", constrain=True, iterations=1, seed=1,
        episodes_per_iteration=4, num_envs=4, eval_episodes=0, threads=1,
        log_with=(), quiet=True, run_dir=str(tmp_path / "run"),
    )  # fmt: skip
    trainer = make_trainer(recipe, **settings | changes)
    trainer.run()
    assert trainer.state.tokens == trainer.policy.stats.new_tokens > 0
    last = read_metrics(tmp_path / "run")[-1]
    assert last["charts/tokens"] == trainer.state.tokens
