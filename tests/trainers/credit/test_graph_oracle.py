"""Worlds with a success state: exact gradients, and the rows of the committed results."""

from __future__ import annotations

import json
from dataclasses import is_dataclass

import numpy as np
import pytest

from agentgym.trainers import recipes
from benchmarks.credit import graph_oracle as oracle
from benchmarks.credit.graph_world import (
    GOAL,
    distances_to_goal,
    gamble_world,
    play,
    probabilities,
    random_world,
)
from benchmarks.shared.result_files import RESULTS


def test_the_exact_gradient_is_the_derivative_of_the_success_rate():
    rng = np.random.default_rng(0)
    world = random_world(rng, slip=0.3, states=6, actions=3, turns=6)
    logits = rng.normal(size=world.moves.shape[:2])
    gradient = world.gradient(probabilities(logits))
    for place in np.ndindex(logits.shape):
        step = np.zeros_like(logits)
        step[place] = 1e-5
        high, low = (
            world.values(probabilities(logits + sign * step))[0, world.start] for sign in (1, -1)
        )
        assert gradient[place] == pytest.approx((high - low) / 2e-5, abs=1e-8)


def test_episodes_succeed_as_often_as_the_exact_rate_says():
    rng = np.random.default_rng(1)
    world = random_world(rng, slip=0.2)
    policy = probabilities(oracle.preferences(world, 0.3, rng))
    played = play(world, policy, groups=100, episodes=8, rng=rng)
    won = np.mean([t.success for t in played.batch.trajectories])
    assert won == pytest.approx(world.values(policy)[0, world.start], abs=0.06)
    ends = [t.final_state_key for t in played.batch.trajectories]
    assert [key == str(GOAL) for key in ends] == [t.success for t in played.batch.trajectories]
    assert max(len(t.turns) for t in played.batch.trajectories) <= world.turns


def test_the_shortest_path_of_the_gamble_is_the_gamble():
    world = gamble_world(0.5)
    assert world.distance.tolist() == [0, 1, 2, 1, np.inf]
    assert distances_to_goal(world.moves)[world.start] == 1
    safe = np.zeros((5, 4))
    safe[:, 2:] = 1 / 2
    safe[1:3] = [0.5, 0.5, 0.0, 0.0]
    assert world.values(safe)[0, world.start] == 1.0


def test_a_perfect_critic_is_unbiased_and_distances_are_not():
    few = oracle.Settings(worlds=2, groups=60)
    found = oracle.gradients(few, *oracle.GRADIENTS["slips"])
    bias = {name: np.mean(row["bias"]) for name, row in found.items() if name}
    assert bias["turn GAE, exact values"] > 0.95
    for name in ("GraphGPO", "GraphGPO, exact distances"):
        assert bias[name] < 0.85


def test_learning_is_measured_after_updates():
    found = oracle.report(oracle.Settings(worlds=2, groups=2, episodes=4, updates=(1, 2)))
    for rows in found["learning"].values():
        for row in rows.values():
            assert row.keys() == {"1", "2"}
            assert all(0 <= cell["mean"] <= 1 for cell in row.values())


def test_the_committed_results_have_the_rows_and_settings_of_the_script():
    saved = json.loads((RESULTS / "graph_oracle.json").read_text())
    rows = oracle.estimators(gamble_world(0.5)).keys()
    assert saved["gradients"].keys() == oracle.GRADIENTS.keys() == saved["success"].keys()
    assert saved["learning"].keys() == {*oracle.LEARNING, oracle.GAMBLE}
    for kinds in (saved["gradients"], saved["learning"]):
        assert all(found.keys() == rows for found in kinds.values())
    defaults = oracle.settings_of(oracle.Settings())
    assert saved["settings"] == defaults | {"updates": list(defaults["updates"])}


def test_rows_have_the_settings_of_their_recipes():
    estimators = oracle.estimators(gamble_world(0.5))
    for row, name in (("GiGPO", "gigpo"), ("HGPO", "hgpo"), ("G2PO", "g2po"), ("GRPO", "grpo")):
        recipe = recipes.load(name)
        assert is_dataclass(estimators[row])
        assert recipe.build(recipe.Config()).estimator == estimators[row]
    recipe = recipes.load("graphgpo")
    assert recipe.build(recipe.Config()).estimator == estimators["GraphGPO"]
    recipe = recipes.load("gagpo")
    assert recipe.build(recipe.Config()).estimator == oracle.GAGPO(lambda_=0.5)
