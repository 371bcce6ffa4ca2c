# A None where an array is needed is a failing test.
# pyright: reportOptionalMemberAccess=false, reportOptionalSubscript=false
# pyright: reportOptionalOperand=false
# pyright: reportArgumentType=false, reportCallIssue=false
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trainers.credit.normalize import normalize_advantages, normalize_per_agent
from agentgym.trainers.credit.soft import soft_q_targets, soft_values
from agentgym.trainers.credit.two_clock import poad, turn
from agentgym.trainers.trajectory import Batch, Credit, Values

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
    raw = normalize_advantages(credit, batch, over="turns", center=False).advantages
    assert np.allclose(raw, [0, 0, 0, 2])
    assert normalize_advantages(credit, batch, per=None) is credit


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
    result = normalize_per_agent(credit_of(0.01, 0.03, 100, 300), batch).advantages
    assert np.allclose(result, [-1, 1, -1, 1], atol=1e-4)
    mixed = normalize_advantages(credit_of(0.01, 0.03, 100, 300), batch).advantages
    assert abs(mixed[0] - mixed[1]) < 1e-3


def test_unknown_options_are_named():
    batch = Batch.of([trajectory([1], [0])])
    with pytest.raises(ValueError, match="'word'"):
        normalize_advantages(credit_of(1), batch, over="word")
    with pytest.raises(ValueError, match="'word'"):
        normalize_advantages(credit_of(1), batch, per="word")


def test_golden_soft_backup():
    batch = Batch.of([trajectory([2, 1], [1.0, 2.0]), trajectory([1], [3.0], terminated=False)])
    v = soft_values([1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 2.0, 3.0], beta=0.5)
    assert v.tolist() == [1.0, 1.5, 2.0, 2.5]
    critic = Values(v, v[[0, 2, 3]], np.array([9.0, 5.0], np.float32))
    one_step = soft_q_targets(batch, critic, gamma=0.9)
    assert np.allclose(one_step, [1.5, 1.0 + 0.9 * 2.0, 2.0, 3.0 + 0.9 * 5.0])
    # the sampled soft return: rewards less beta KL of the tokens still to come
    sampled = soft_q_targets(batch, critic, gamma=0.9, lambda_=1.0, kl=[0, 1, 2, 3], beta=0.5)
    last = 2.0
    middle = 1.0 + 0.9 * (last - 0.5 * 2)
    assert np.allclose(sampled, [middle - 0.5 * 1, middle, last, 7.5])


@given(generators, st.floats(0, 1), st.floats(0, 1))
def test_without_entropy_the_soft_target_follows_the_two_clock_targets(rng, gamma, lambda_):
    # y_k = r + d [(1 - lambda) V' + lambda y'] is the lambda-return: A + V of the same scan.
    batch = random_batch(rng)
    critic = values(batch, rng)
    soft = soft_q_targets(
        batch, critic, gamma=gamma, lambda_=lambda_, kl=np.zeros(batch.num_tokens)
    )
    hard = poad(gamma, lambda_, lambda_)(batch, critic)
    assert np.allclose(soft, hard.targets, atol=1e-4)


def test_a_trace_needs_kl():
    batch = Batch.of([trajectory([1], [0])])
    with pytest.raises(ValueError, match="kl"):
        soft_q_targets(batch, values(batch, np.random.default_rng(0)), gamma=1.0, lambda_=0.5)


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
