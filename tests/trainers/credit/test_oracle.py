"""Bias of the estimators in a world whose advantages are known exactly."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import is_dataclass

import numpy as np
import pytest

from agentgym.trainers import recipes
from benchmarks.credit import credit_oracle as oracle
from benchmarks.shared.result_files import RESULTS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, float]]:
    settings = oracle.Settings(trajectories=20_000, states=2, tokens=4)
    world = oracle.world_of(settings, settings.gamma)
    undiscounted = oracle.world_of(settings, 1.0)
    with_critic = oracle.with_critic(settings.gamma, settings.lambda_)
    one = oracle.measure(world, settings, with_critic)
    names = ("RLOO", "Dr. GRPO", "REINFORCE", "GRPO", "MT-GRPO", "VinePPO")
    groups = {name: oracle.without_critic()[name] for name in names}
    return one | oracle.measure(undiscounted, settings, groups)


def test_the_exact_values_satisfy_the_bellman_backup():
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


def test_rows_are_of_recipes_that_there_are():
    """Every recipe has one row or a reason, and every row a recipe or a reason."""
    listed = " ".join([*oracle.ROWS.values(), *oracle.ABSENT.values()]).split()
    assert sorted(listed) == sorted(recipes.names())
    rows = oracle.with_critic(0.9, 0.9).keys() | oracle.without_critic().keys()
    variants = {name for name in rows if "," in name}
    assert rows - variants == oracle.ROWS.keys() | {"REINFORCE"}  # of no recipe
    saved = json.loads((RESULTS / "credit_oracle.json").read_text())
    assert saved["estimators"].keys() == rows


def test_rows_are_the_estimators_of_their_recipes():
    """With its discounts: those of the world, and a trained or given part replaced."""
    replaced = "gamma gamma_token gamma_turn lambda_ lambda_turn lambda_token size source".split()
    estimators = oracle.with_critic(0.9, 0.9) | oracle.without_critic()
    compared = []
    for row, names in oracle.ROWS.items():
        for name in names.split():
            recipe = recipes.load(name)
            own = recipe.build(recipe.Config()).estimator
            given = estimators[row]
            if not (is_dataclass(own) and is_dataclass(given)) or type(own) is not type(given):
                continue
            fields = [f.name for f in dataclasses.fields(own) if f.name not in replaced]
            if name == "flow_grpo":  # compares successes
                fields.remove("outcome")
            for field in fields:
                assert getattr(own, field) == getattr(given, field), (name, field)
            compared.append(name)
    assert {"hgpo", "gigpo", "grpo", "rloo", "poad", "turn", "istar"} <= set(compared)


def test_the_values_of_vine_are_unbiased(results):
    assert results["VinePPO"]["turn_bias_over_noise"] < 1.15
    assert results["VinePPO"]["gradient_bias_over_noise"] < 1.15


def test_scores_of_turns_make_another_estimator_than_grpo(results):
    assert results["MT-GRPO"]["cosine"] < results["GRPO"]["cosine"] - 0.01
    assert results["MT-GRPO"]["noise_to_signal"] < results["GRPO"]["noise_to_signal"]


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
