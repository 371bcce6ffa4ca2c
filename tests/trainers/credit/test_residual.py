"""Residual credit of VETTA, and value targets with a lambda of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.errors import ConfigError
from agentgym.trainers import recipes
from agentgym.trainers.algorithm import Algorithm, Imitation, PolicyGradient
from agentgym.trainers.credit.given import Given
from agentgym.trainers.credit.residual import ResidualGAE
from agentgym.trainers.credit.returns import observed_returns, with_critic_lambda
from agentgym.trainers.credit.two_clock import ntpo, poad, turn
from agentgym.trainers.data.batch import Batch, Values
from agentgym.trainers.update.metrics import value_error

from ...helpers.worlds import generators, random_batch, trajectory, values

fractions = st.floats(0, 1)


def golden(turns: tuple[float, float] = (0.25, 0.45)) -> tuple[Batch, Values]:
    """Two turns of 3 and 2 tokens, rewards 0.5 and 1, with values of turns of their own."""
    batch = Batch.of([trajectory([3, 2], [0.5, 1.0])])
    tokens = np.array([0.2, 0.4, 0.1, 0.5, 0.3], np.float32)
    return batch, Values(tokens, np.array(turns, np.float32), np.zeros(1, np.float32))


@pytest.mark.parametrize(
    ("alpha", "advantages"),
    [
        (1.0, [1.2072, 1.0072, 1.3072, 0.45, 0.65]),
        (3.0, [1.2739, 0.6739, 1.5739, 0.25, 0.85]),
    ],
)
def test_golden_residuals(alpha: float, advantages: list[float]):
    credit = ResidualGAE(alpha)(*golden())
    assert np.allclose(credit.advantages, advantages, atol=1e-4)
    assert credit.targets is not None
    first, others = credit.targets[[0, 3]], credit.targets[[1, 2, 4]]
    assert np.allclose(first, [1.1739 + 0.25, 1.0], atol=1e-4)  # of the turns
    assert np.allclose(others, [0.5 + 0.95, 0.5 + 0.95, 1.0])  # returns


@given(rng=generators, alpha=st.floats(0, 4), gamma=fractions, lambda_=fractions)
def test_tokens_divide_the_advantage_of_their_turn(rng, alpha, gamma, lambda_):
    batch = random_batch(rng)
    critic = values(batch, rng)
    credit = ResidualGAE(alpha, gamma, lambda_)(batch, critic)
    whole = turn(gamma, lambda_)(batch, critic).advantages
    count = np.maximum(np.diff(batch.token_offsets), 1)
    mean = np.bincount(batch.token_turn, credit.advantages, batch.num_turns) / count
    assert np.allclose(mean[batch.token_turn], whole, atol=1e-4)
    if alpha == 0:
        assert np.array_equal(credit.advantages, whole)


@given(rng=generators, gamma=fractions, lambda_=fractions)
def test_equal_values_inside_turns_leave_the_credit_of_poad(rng, gamma, lambda_):
    batch = random_batch(rng, min_tokens=1)
    critic = values(batch, rng)
    critic = replace(critic, tokens=critic.turns[batch.token_turn])
    credit = ResidualGAE(1.0, gamma, lambda_)(batch, critic)
    assert np.allclose(credit.advantages, poad(gamma, lambda_)(batch, critic).advantages, atol=1e-4)


def test_unknown_parameters_are_refused():
    for arguments, named in (
        ((-1.0,), "alpha"),
        ((1.0, 2.0), "gamma"),
        ((1.0, 0.9, 2.0), "lambda"),
    ):
        with pytest.raises(ValueError, match=named):
            ResidualGAE(*arguments)


def test_golden_targets_with_a_lambda_of_their_own():
    batch, critic = golden((0.2, 0.5))
    estimator = ntpo(1.0, 0.6)
    coupled, own = estimator(batch, critic), with_critic_lambda(estimator, 1.0)(batch, critic)
    assert np.allclose(own.advantages, [0.3915, 0.3192, 1.032, 0.22, 0.7], atol=1e-4)
    assert np.array_equal(own.advantages, coupled.advantages)
    assert np.allclose(coupled.targets, [0.5915, 0.7192, 1.132, 0.72, 1.0], atol=1e-4)  # type: ignore[arg-type]
    assert np.allclose(own.targets, [1.5, 1.5, 1.5, 1.0, 1.0])  # type: ignore[arg-type]
    returns = observed_returns(with_critic_lambda(estimator, 0.3), batch)
    assert np.array_equal(returns, observed_returns(estimator, batch))  # type: ignore[arg-type]


def test_a_recipe_has_the_lambda_of_the_critic_or_refuses_it():
    recipe = recipes.load("turn")
    algorithm = recipe.build(recipe.Config())
    assert algorithm.with_critic_lambda(None) is algorithm
    own = algorithm.with_critic_lambda(0.5).estimator
    assert own == with_critic_lambda(turn(), 0.5)
    assert own.advantages == turn() and own.targets.lambda_turn == 0.5
    assert Algorithm(Imitation()).with_critic_lambda(0.5).estimator is None
    with pytest.raises(ConfigError, match="leave out critic_lambda"):
        Algorithm(PolicyGradient(Given())).with_critic_lambda(0.5)


def test_the_error_of_values_is_that_of_states_with_several_visits():
    rng = np.random.default_rng(0)
    states = np.repeat(np.arange(4000), 4)
    truth = rng.normal(size=4000)[states]
    returns = truth + rng.normal(0, 0.5, len(states))
    wrong = (truth + 0.3 * (2 * (states % 2) - 1)).astype(np.float32)
    assert value_error(wrong, returns, states) == pytest.approx(0.3, abs=0.02)
    assert value_error(truth.astype(np.float32), returns, states) < 0.05  # type: ignore[operator]
    assert value_error(wrong, returns, np.arange(len(states))) is None
    alone = np.append(states, 4000)  # a state that is visited once does not count
    far = np.append(wrong, np.float32(99.0))
    assert value_error(far, np.append(returns, 0.0), alone) == value_error(wrong, returns, states)


def test_a_run_reports_the_error_and_fits_its_critic_to_returns(tmp_path: Path):
    from ..recipes.test_recipes import train_quickly

    common = {"bc_demonstrations": 0, "iterations": 1, "group_size": 4, "lr_by_reliability": False}
    common["env_kwargs"] = {"size": 6, "max_turns": 8}  # states with several visits
    one = train_quickly("turn", tmp_path / "a", **common)[-1]
    other = train_quickly("turn", tmp_path / "b", critic_lambda=1.0, **common)[-1]
    assert one["losses/value_error"] >= 0
    assert one["credit/advantage_std"] == other["credit/advantage_std"]
    assert one["losses/value_loss"] != other["losses/value_loss"]
