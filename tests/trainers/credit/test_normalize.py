# A None where an array is needed is a failing test.
# pyright: reportOptionalMemberAccess=false, reportOptionalSubscript=false
# pyright: reportOptionalOperand=false
# pyright: reportArgumentType=false, reportCallIssue=false
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from agentgym.trainers.credit.normalize import normalize_advantages
from agentgym.trainers.credit.two_clock import poad, turn
from agentgym.trainers.data.batch import Batch, Credit
from agentgym.trainers.data.trajectory import Support

from ...helpers.worlds import generators, random_batch, trajectory, values


def credit_of(*advantages: float) -> Credit:
    return Credit(np.array(advantages, np.float32))


def test_golden_normalisation_over_tokens_and_turns():
    batch = Batch.of([trajectory([3, 1], [0, 0])])
    credit = credit_of(0, 0, 0, 4)
    tokens = normalize_advantages(credit, batch).advantages
    assert np.allclose(tokens, np.array([-1, -1, -1, 3]) / 3**0.5)
    turns = normalize_advantages(credit, batch, over="turns").advantages
    assert np.allclose(turns, [-1, -1, -1, 1])
    assert normalize_advantages(credit, batch, per=None) is credit


def test_turns_weigh_the_same_if_the_weights_of_their_tokens_are_small():
    """A turn of thoughts, whose action has a single possible token, and a turn without thoughts."""
    batch = Batch.of([trajectory([2, 1], [0, 0])])
    turn = batch.turns[0]
    turn.thought = np.array([True, False])
    turn.support = Support(np.array([0, 2, 3], np.int32), np.array([1, 2, 3], np.int32))
    found = normalize_advantages(credit_of(0, 0, 4), batch, over="turns", thought_coef=0.25)
    assert np.allclose(found.advantages, [-1, -1, 1])


@pytest.mark.parametrize("per", ["batch", "task", "agent", "group"])
@pytest.mark.parametrize("over", ["tokens", "turns"])
@given(rng=generators)
def test_mean_is_zero_and_deviation_one(per, over, rng):
    batch = random_batch(rng, trajectories=8, min_tokens=1)
    credit = poad()(batch, values(batch, rng))
    result = normalize_advantages(credit, batch, per, over).advantages
    assert result.dtype == np.float32
    labels = {
        "batch": lambda t: 0,
        "task": lambda t: t.task,
        "agent": lambda t: t.agent,
        "group": lambda t: t.group,
    }[per]
    names = [labels(t) for t in batch.trajectories]
    lengths = np.diff(batch.token_offsets)[batch.token_turn]
    weights = 1 / lengths if over == "turns" else np.ones(batch.num_tokens)
    owner = batch.turn_trajectory[batch.token_turn]
    for name in set(names):
        mask = np.array([names[n] == name for n in owner])
        if mask.sum() > 1:
            mean = np.average(result[mask], weights=weights[mask])
            assert abs(mean) < 1e-4
            assert np.isclose(np.average(result[mask] ** 2, weights=weights[mask]), 1, atol=1e-3)


@pytest.mark.parametrize("per", ["batch", "task", "agent", "group"])
@pytest.mark.parametrize("over", ["tokens", "turns"])
def test_equal_one_and_no_advantages_give_no_nan_and_no_noise(per, over):
    batch = Batch.of([trajectory([2, 0, 1], [0, 0, 0]), trajectory([1], [0], task="other")])
    equal = normalize_advantages(credit_of(0.1, 0.1, np.nextafter(0.1, 1), 0.1), batch, per, over)
    assert np.abs(equal.advantages).max() < 1e-6
    empty = Batch.of([trajectory([0], [1])])
    assert len(normalize_advantages(credit_of(), empty, per, over).advantages) == 0


def test_agents_with_different_scales_are_each_normalised():
    batch = Batch.of(
        [trajectory([1], [0], agent=agent) for agent in ("small", "small", "large", "large")]
    )
    credit = credit_of(0.01, 0.03, 100, 300)
    result = normalize_advantages(credit, batch, per="group", over="turns").advantages
    assert np.allclose(result, [-1, 1, -1, 1], atol=1e-4)
    mixed = normalize_advantages(credit, batch).advantages
    assert abs(mixed[0] - mixed[1]) < 1e-3


def test_unknown_options_are_named():
    batch = Batch.of([trajectory([1], [0])])
    with pytest.raises(ValueError, match="'word'"):
        normalize_advantages(credit_of(1), batch, over="word")
    with pytest.raises(ValueError, match="'word'"):
        normalize_advantages(credit_of(1), batch, per="word")


@given(generators)
def test_charging_the_divergence_to_the_policy(rng):
    batch = random_batch(rng)
    critic, kl = values(batch, rng), rng.random(batch.num_tokens)
    charged = poad(0.9, 1.0)(batch, critic, -0.1 * kl)
    free = poad(0.9, 1.0)(batch, critic)
    assert (charged.targets <= free.targets + 1e-6).all()
    turns = turn(0.9, 1.0)(batch, critic, -0.1 * kl).targets
    first = batch.token_offsets[:-1][np.diff(batch.token_offsets) > 0]
    assert np.allclose(turns[np.diff(batch.token_offsets) > 0], charged.targets[first], atol=1e-5)
