"""Bias of the estimators in a world whose advantages are known exactly."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

from agentgym.trainers import recipes

from ...helpers.benchmarks import benchmark_script

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def oracle() -> Iterator[ModuleType]:
    with benchmark_script("credit_oracle") as script:
        yield script


@pytest.fixture(scope="module")
def results(oracle) -> dict[str, dict[str, float]]:
    settings = oracle.Settings(trajectories=20_000, states=2, tokens=4)
    world = oracle.world_of(settings, settings.gamma)
    undiscounted = oracle.world_of(settings, 1.0)
    with_critic = oracle.with_critic(settings.gamma, settings.lambda_)
    one = oracle.measure(world, settings, with_critic)
    groups = {name: oracle.without_critic()[name] for name in ("RLOO", "Dr. GRPO", "REINFORCE")}
    return one | oracle.measure(undiscounted, settings, groups)


def test_the_exact_values_satisfy_the_bellman_backup(oracle):
    settings = oracle.Settings(states=2, tokens=3)
    world = oracle.world_of(settings, 0.9)
    v, q = world.values, world.q
    assert np.allclose(v[:-1, :2], (world.policy * q).sum(-1))
    assert np.allclose(q[1, 0, 0, 1], v[1, 0, 1])  # a word leads to the longer prefix
    expected = world.rewards[0, 0, 0] + 0.9 * world.transitions[0, 0, 0] @ v[2, :, 0]
    assert np.allclose(q[1, 0, 0, 0], expected)  # the end token ends the turn
    assert not v[-1].any()


def test_poad_is_unbiased_with_exact_values(results):
    for name in ("POAD", "POAD, lambda_token = lambda"):
        assert results[name]["bias_over_noise"] < 1.15
        assert results[name]["gradient_bias_over_noise"] < 1.15


def test_two_agents_who_share_actions_are_credited_without_bias_unless_hops_are_discounted(results):
    assert results["MARFT"]["bias_over_noise"] < 1.15
    for column, value in results["MARFT"].items():
        if column != "points":  # as one agent, up to rounding
            assert value == pytest.approx(results["POAD"][column], rel=1e-3, abs=1e-4)
    discounted = results["MARFT, hops discounted"]
    assert discounted["bias_over_noise"] > 1.5
    assert discounted["gradient_bias_over_noise"] > 1.5
    assert discounted["turn_bias_over_noise"] > 3


def test_turn_gae_is_unbiased_for_actions_and_moves_the_gradient_the_right_way(results):
    assert results["turn GAE"]["turn_bias_over_noise"] < 1.15
    assert results["turn GAE"]["gradient_bias_over_noise"] < 1.15
    assert results["turn GAE"]["bias_over_noise"] > 3  # it knows nothing of prefixes


def test_archer_with_exact_critics_is_unbiased(results):
    assert results["ArCHer"]["turn_bias_over_noise"] < 1.15
    assert results["ArCHer"]["gradient_bias_over_noise"] < 1.15
    assert results["ArCHer, token baseline"]["bias_over_noise"] < 1.15


def test_rows_are_of_recipes_that_there_are(oracle):
    rows = {name for recipes in oracle.ROWS.values() for name in recipes.split()}
    assert rows.isdisjoint(oracle.IMITATION.split())
    assert rows | set(oracle.IMITATION.split()) <= set(recipes.names())
    assert (
        oracle.ROWS.keys() <= oracle.with_critic(0.9, 0.9).keys() | oracle.without_critic().keys()
    )


def test_ntpo_is_biased(results):
    assert results["NTPO"]["bias_over_noise"] > 3
    assert results["NTPO"]["gradient_bias_over_noise"] > 2
    assert results["NTPO"]["cosine"] < results["POAD"]["cosine"] - 0.003


def test_leaving_oneself_out_removes_the_bias_of_the_group_mean(results):
    assert results["RLOO"]["gradient_bias_over_noise"] < 1.15
    assert results["REINFORCE"]["gradient_bias_over_noise"] < 1.15
    assert results["Dr. GRPO"]["gradient_bias"] > 1.1 * results["RLOO"]["gradient_bias"]


def test_a_token_baseline_lowers_the_noise_of_the_gradient(results):
    assert results["POAD"]["noise_to_signal"] < results["turn GAE"]["noise_to_signal"]
