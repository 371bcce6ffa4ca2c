# A None where an array is needed is a failing test.
# pyright: reportOptionalMemberAccess=false, reportOptionalSubscript=false
# pyright: reportOptionalOperand=false
# pyright: reportArgumentType=false, reportCallIssue=false
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trainers.credit.two_clock import TwoClockGAE, ntpo, poad, turn
from agentgym.trainers.data.batch import Batch, Values

from ...helpers.worlds import generators, random_batch, trajectory, values

fractions = st.floats(0, 1)


def golden(terminated: bool) -> tuple[Batch, Values]:
    """Two turns of 3 and 2 tokens, rewards 0.5 and 1."""
    batch = Batch.of([trajectory([3, 2], [0.5, 1.0], terminated=terminated)])
    tokens = np.array([0.2, 0.4, 0.1, 0.5, 0.3], np.float32)
    return batch, Values(tokens, tokens[[0, 3]], np.array([0.7], np.float32))


@pytest.mark.parametrize(
    ("estimator", "terminated", "advantages"),
    [
        (poad(0.9, 0.8, 0.8), True, [0.669888, 0.587360, 1.109200, 0.36, 0.7]),
        (poad(0.9, 0.8), True, [1.11, 0.91, 1.21, 0.5, 0.7]),
        (ntpo(0.9, 0.8), True, [0.479710, 0.444042, 1.047280, 0.274, 0.7]),
        (turn(0.9, 0.8), True, [1.11, 1.11, 1.11, 0.5, 0.5]),
        (poad(0.9, 0.8, 0.8), False, [0.902131, 0.877664, 1.472080, 0.864, 1.33]),
        (ntpo(0.9, 0.8), False, [0.649015, 0.679188, 1.373872, 0.7276, 1.33]),
    ],
)
def test_golden_advantages(estimator, terminated, advantages):
    credit = estimator(*golden(terminated))
    assert np.allclose(credit.advantages, advantages, atol=1e-6)
    assert credit.advantages.dtype == credit.targets.dtype == np.float32


def test_golden_targets_at_lambda_one():
    batch, critic = golden(True)
    assert np.allclose(poad(0.9, 1.0)(batch, critic).targets, [1.4, 1.4, 1.4, 1, 1])
    assert np.allclose(ntpo(0.9, 1.0)(batch, critic).targets, [1.0611, 1.179, 1.31, 0.9, 1])


def naive(batch: Batch, critic: Values, e: TwoClockGAE, extra=None):
    """The equations, token by token; a turn without tokens is one slot valued V(o_t)."""
    assert critic.tokens is not None
    advantages, targets = np.zeros(batch.num_tokens), np.zeros(batch.num_tokens)
    for n in range(len(batch.trajectories)):
        last = True
        value_after, advantage_after = 0.0, 0.0
        for m in range(batch.turn_offsets[n + 1] - 1, batch.turn_offsets[n] - 1, -1):
            start, stop = batch.token_offsets[m : m + 2]
            if last:
                value_after = 0.0 if batch.terminated[n] else float(critic.bootstrap[n])
            slots = list(range(start, stop)) or [None]
            for place, k in enumerate(reversed(slots)):
                value = float(critic.turns[m] if k is None else critic.tokens[k])
                if place == 0:
                    delta = batch.rewards[m] + e.gamma_turn * value_after - value
                    trace = 0.0 if last else e.gamma_turn * e.lambda_turn
                else:
                    delta = e.gamma_token * value_after - value
                    trace = e.gamma_token * e.lambda_token
                if extra is not None and k is not None:
                    delta += extra[k]
                advantage_after = delta + trace * advantage_after
                value_after = value
                if k is not None:
                    advantages[k], targets[k] = advantage_after, advantage_after + value
            last = False
    return advantages, targets


@given(generators, fractions, fractions, fractions, fractions)
def test_it_equals_the_equations_for_ragged_batches(rng, gw, lw, ga, la):
    batch = random_batch(rng)
    critic, extra = values(batch, rng), rng.normal(size=batch.num_tokens)
    estimator = TwoClockGAE(gw, lw, ga, la)
    for token_rewards in (None, extra):
        credit = estimator(batch, critic, token_rewards)
        advantages, targets = naive(batch, critic, estimator, token_rewards)
        assert np.allclose(credit.advantages, advantages, atol=2e-5)
        assert np.allclose(credit.targets, targets, atol=2e-5)


def test_actions_of_ten_thousand_tokens():
    rng = np.random.default_rng(0)
    batch = Batch.of([trajectory([10_000, 3, 10_000], [1, 2, 3]), trajectory([1], [1])])
    critic = values(batch, rng)
    for estimator in (poad(lambda_token=0.95), ntpo(0.99, 0.95), poad(1.0, 1.0)):
        credit = estimator(batch, critic)
        assert np.allclose(credit.advantages, naive(batch, critic, estimator)[0], atol=1e-4)
    assert np.all(poad(1.0, 1.0)(batch, critic).targets[:10_000].round(3) == 6.0)


@given(generators, fractions, fractions)
def test_one_token_actions_make_all_alike(rng, gamma, lambda_):
    batch = random_batch(rng, max_tokens=1, min_tokens=1)
    critic = values(batch, rng)
    expected = turn(gamma, lambda_)(batch, critic)
    for estimator in (poad(gamma, lambda_), poad(gamma, lambda_, 0.3), ntpo(gamma, lambda_)):
        credit = estimator(batch, critic)
        assert np.allclose(credit.advantages, expected.advantages, atol=1e-6)
        assert np.allclose(credit.targets, expected.targets, atol=1e-6)


@given(generators, fractions, fractions)
def test_first_tokens_of_poad_have_the_action_level_advantage(rng, gamma, lambda_):
    batch = random_batch(rng, min_tokens=1)
    critic = values(batch, rng)
    first = batch.token_offsets[:-1]
    tokens, turns = poad(gamma, lambda_)(batch, critic), turn(gamma, lambda_)(batch, critic)
    assert np.allclose(tokens.advantages[first], turns.advantages[first], atol=1e-5)
    assert np.allclose(tokens.targets[first], turns.targets, atol=1e-5)


@given(generators, fractions)
def test_at_lambda_one_a_target_is_the_discounted_return_whatever_the_length(rng, gamma):
    batch = random_batch(rng)
    critic = values(batch, rng)
    targets = poad(gamma, 1.0)(batch, critic).targets
    other = turn(gamma, 1.0)(batch, critic).targets
    assert np.allclose(targets, other[batch.token_turn], atol=1e-5)


@given(generators, fractions)
def test_at_lambda_one_ntpo_discounts_by_tokens(rng, gamma):
    batch = random_batch(rng, trajectories=1, min_tokens=1)
    batch = replace(batch, terminated=np.array([True]))
    targets = ntpo(gamma, 1.0)(batch, values(batch, rng)).targets
    ends, turns = batch.token_offsets[1:] - 1, batch.token_turn
    for k in range(batch.num_tokens):
        worth = sum(
            gamma ** (ends[m] - k) * batch.rewards[m] for m in range(turns[k], batch.num_turns)
        )
        assert np.isclose(targets[k], worth, atol=1e-5)


@given(generators, fractions, fractions)
def test_splitting_a_token_in_two_of_equal_value_changes_no_other_target(rng, gamma, lambda_):
    lengths = rng.integers(1, 5, 3).tolist()
    rewards = rng.normal(size=3).tolist()
    batch = Batch.of([trajectory(lengths, rewards, terminated=False)])
    critic = values(batch, rng)
    k = int(rng.integers(batch.num_tokens))
    longer = list(lengths)
    longer[batch.token_turn[k]] += 1
    split = Batch.of([trajectory(longer, rewards, terminated=False)])
    twice = np.insert(critic.tokens, k, critic.tokens[k])
    estimator = poad(gamma, lambda_)
    before = estimator(batch, critic)
    after = estimator(split, replace(critic, tokens=twice))
    assert np.allclose(np.delete(after.targets, k), before.targets, atol=1e-5)
    assert np.isclose(after.targets[k], after.targets[k + 1], atol=1e-5)


def test_ntpo_punishes_long_actions_and_poad_does_not():
    short, long = (Batch.of([trajectory([1, length], [0.0, 1.0])]) for length in (1, 20))

    def first(estimator, batch):
        zero = np.zeros(batch.num_tokens, np.float32)
        return estimator(batch, Values(zero, zero[:2], zero[:1])).targets[0]

    assert np.isclose(first(poad(0.9, 1.0), short), first(poad(0.9, 1.0), long))
    assert first(ntpo(0.9, 1.0), long) < 0.2 * first(ntpo(0.9, 1.0), short)


@pytest.mark.parametrize("estimator", [poad(), poad(lambda_token=0.5), ntpo(), turn()])
@given(rng=generators)
def test_trajectories_do_not_touch_each_other(estimator, rng):
    batch = random_batch(rng)
    critic = values(batch, rng)
    whole = estimator(batch, critic)
    starts = batch.token_offsets[batch.turn_offsets]
    for n, alone in enumerate(batch.trajectories):
        k = slice(starts[n], starts[n + 1])
        m = slice(*batch.turn_offsets[n : n + 2])
        part = Values(critic.tokens[k], critic.turns[m], critic.bootstrap[n : n + 1])
        credit = estimator(Batch.of([alone]), part)
        assert np.allclose(credit.advantages, whole.advantages[k], atol=1e-6)
        targets = whole.targets[m if estimator.reads == "turns" else k]
        assert np.allclose(credit.targets, targets, atol=1e-6)


def test_a_turn_without_tokens_passes_its_reward_on():
    batch = Batch.of([trajectory([1, 0, 1], [0.0, 1.0, 0.0]), trajectory([0], [1.0])])
    zero = Values(np.zeros(2, np.float32), np.zeros(4, np.float32), np.zeros(2, np.float32))
    for estimator in (poad(0.5, 1.0), ntpo(0.5, 1.0), turn(0.5, 1.0)):
        assert np.allclose(estimator(batch, zero).advantages, [0.5, 0.0])


def test_mistakes_are_named():
    batch, critic = golden(True)
    with pytest.raises(ValueError, match="got None"):
        poad()(batch, None)
    with pytest.raises(ValueError, match=r"values\.tokens should have shape \(5,\), got None"):
        poad()(batch, replace(critic, tokens=None))
    with pytest.raises(ValueError, match=r"values\.turns"):
        turn()(batch, replace(critic, turns=critic.turns[:1]))
    with pytest.raises(ValueError, match="gamma_turn"):
        poad(gamma=1.5)
    assert turn()(batch, replace(critic, tokens=None)).targets.shape == (2,)
