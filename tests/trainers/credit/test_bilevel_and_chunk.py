# A None where an array is needed is a failing test.
# pyright: reportOptionalMemberAccess=false, reportOptionalSubscript=false
# pyright: reportOptionalOperand=false
# pyright: reportArgumentType=false, reportCallIssue=false
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trainers.credit.bilevel import BilevelGAE
from agentgym.trainers.credit.chunk import ChunkGAE
from agentgym.trainers.credit.two_clock import TwoClockGAE, poad, turn
from agentgym.trainers.data.batch import Batch, Values

from ...helpers.worlds import generators, random_batch, trajectory, values

fractions = st.floats(0, 1)


def test_bilevel_golden():
    # Two turns of five tokens, V = 0.1 .. 1.0, a reward of 1 at each turn's end. Turn 2: 1 - 1 = 0;
    # turn 1: 1 + 0.95 * 1 - 0.5 = 1.45; inside a turn every target is that of its end.
    batch = Batch.of([trajectory([5, 5], [1, 1])])
    tokens = np.linspace(0.1, 1.0, 10).astype(np.float32)
    critic = Values(tokens, tokens[[0, 5]], np.zeros(1, np.float32))
    credit = BilevelGAE(1, 1, 0.95, 1)(batch, critic)
    assert np.allclose(credit.targets, [1.95] * 5 + [1.0] * 5)
    assert np.allclose(credit.advantages, credit.targets - tokens)


def test_bilevel_sees_turns_without_reward():
    batch = Batch.of([trajectory([2, 2, 2], [0, 0, 1])])
    zero = Values(np.zeros(6, np.float32), np.zeros(3, np.float32), np.zeros(1, np.float32))
    credit = BilevelGAE(1, 1, 0.5, 1)(batch, zero)
    assert np.allclose(credit.advantages, [0.25, 0.25, 0.5, 0.5, 1, 1])


def naive_bilevel(batch, critic, e):
    out = np.zeros(batch.num_tokens)
    for n in range(len(batch.trajectories)):
        after = 0.0 if batch.terminated[n] else float(critic.bootstrap[n])
        turn_after, trace = 0.0, 0.0
        for m in range(batch.turn_offsets[n + 1] - 1, batch.turn_offsets[n] - 1, -1):
            tokens = range(*batch.token_offsets[m : m + 2])
            end = float(critic.tokens[tokens[-1]] if tokens else critic.turns[m])
            turn_after = batch.rewards[m] + e.gamma_turn * after - end + trace * turn_after
            after, trace = end, e.gamma_turn * e.lambda_turn
            advantage = turn_after
            for k in reversed(tokens):
                if k != tokens[-1]:
                    delta = e.gamma_token * float(critic.tokens[k + 1]) - float(critic.tokens[k])
                    advantage = delta + e.gamma_token * e.lambda_token * advantage
                out[k] = advantage
    return out


@given(generators, fractions, fractions, fractions, fractions)
def test_bilevel_equals_its_equations(rng, gw, lw, ga, la):
    batch = random_batch(rng)
    critic = values(batch, rng)
    estimator = BilevelGAE(gw, lw, ga, la)
    credit = estimator(batch, critic)
    assert np.allclose(credit.advantages, naive_bilevel(batch, critic, estimator), atol=2e-5)


@given(generators, fractions, fractions)
def test_one_token_actions_make_bilevel_the_turn_gae(rng, gamma, lambda_):
    batch = random_batch(rng, min_tokens=1, max_tokens=1)
    critic = values(batch, rng)
    one = BilevelGAE(1, 0.3, gamma, lambda_)(batch, critic)
    assert np.allclose(one.advantages, turn(gamma, lambda_)(batch, critic).advantages, atol=1e-6)


@given(generators, fractions, fractions)
def test_chunks_of_one_turn_are_turns(rng, gamma, lambda_):
    batch = random_batch(rng)
    critic = values(batch, rng)
    one, other = ChunkGAE(1, gamma, lambda_)(batch, critic), turn(gamma, lambda_)(batch, critic)
    assert np.allclose(one.advantages, other.advantages, atol=1e-5)
    assert np.allclose(one.targets, other.targets, atol=1e-5)


@given(generators, fractions, fractions)
def test_a_chunk_longer_than_all_is_monte_carlo_from_the_first_turn(rng, gamma, lambda_):
    batch = random_batch(rng)
    critic = values(batch, rng)
    credit = ChunkGAE(99, gamma, lambda_)(batch, critic)
    monte_carlo = turn(gamma, 1.0)(batch, critic).targets
    assert np.allclose(credit.targets, monte_carlo, atol=1e-5)
    first = batch.turn_offsets[:-1][batch.turn_trajectory]
    expected = (monte_carlo - critic.turns)[first][batch.token_turn]
    assert np.allclose(credit.advantages, expected, atol=1e-5)


def test_chunk_golden():
    # gamma 0.5, lambda 0.5, chunks (1, 2), (3): G3 = 4, G2 = 2 + 0.5 (0.5 * 1 + 0.5 * 4) = 3.25,
    # G1 = 1 + 0.5 * 3.25 = 2.625
    batch = Batch.of([trajectory([1, 2, 1], [1.0, 2.0, 4.0])])
    critic = Values(None, np.array([0.5, 9.0, 1.0], np.float32), np.zeros(1, np.float32))
    credit = ChunkGAE(2, 0.5, 0.5)(batch, critic)
    assert np.allclose(credit.targets, [2.625, 3.25, 4.0])
    assert np.allclose(credit.advantages, [2.125, 2.125, 2.125, 3.0])


def test_chunks_end_with_valid_actions():
    # The second action is rejected: chunks (1), (2, 3). G3 = 4, G2 = 2 + 0.5 * 4 = 4,
    # G1 = 1 + 0.5 (0.5 * 9 + 0.5 * 4) = 4.25. The next trajectory begins a chunk of its own.
    one, other = trajectory([1, 2, 1], [1.0, 2.0, 4.0]), trajectory([1], [1.0])
    one.turns[1].valid = other.turns[0].valid = False
    critic = Values(None, np.array([0.5, 9.0, 1.0, 0.0], np.float32), np.zeros(2, np.float32))
    credit = ChunkGAE(99, 0.5, 0.5, "valid")(Batch.of([one, other]), critic)
    assert np.allclose(credit.targets, [4.25, 4.0, 4.0, 1.0])
    assert np.allclose(credit.advantages, [3.75, -5.0, -5.0, -5.0, 1.0])


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="size 0"):
        ChunkGAE(0)
    with pytest.raises(ValueError, match="lambda_turn"):
        BilevelGAE(lambda_turn=-0.1)
    with pytest.raises(ValueError, match="reads"):
        TwoClockGAE(reads="words")
    with pytest.raises(ValueError, match="got None"):
        ChunkGAE()(Batch.of([trajectory([1], [1])]), None)
    assert poad(1.0).gamma_turn == 1.0
