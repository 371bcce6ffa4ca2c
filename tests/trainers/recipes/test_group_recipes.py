"""Group recipes with one formula each: win rates, pairs, and turns compared at equal places."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from agentgym.errors import ConfigError
from agentgym.trainers.credit import group
from agentgym.trainers.recipes import mt_grpo, p3o, spo
from agentgym.trainers.trajectory import Batch, Trajectory
from agentgym.trainers.update.losses import aggregation_weights, clipped_surrogate

from ...helpers.worlds import generators, random_batch, trajectory

few = settings(max_examples=20, deadline=None)


def of_trajectories(batch: Batch, advantages: np.ndarray) -> np.ndarray:
    """The advantage of each trajectory, whose tokens share it."""
    return advantages[batch.token_offsets[batch.turn_offsets[:-1]]]


def test_golden_win_rates():
    some = [trajectory([1], [r], seed=1) for r in (3.0, 1.0, 1.0, -8.0)] + [trajectory([1], [1.0])]
    found = spo.WinRate()(Batch.of(some)).advantages
    assert np.allclose(found, [0.5, 0.0, 0.0, -0.5, 0.0])


@given(generators)
@few
def test_win_rates_add_up_to_zero_and_ignore_the_scale_of_returns(rng):
    batch = random_batch(rng, min_tokens=1)
    found = of_trajectories(batch, spo.WinRate()(batch).advantages)
    for index in np.unique(batch.groups):
        assert found[batch.groups == index].sum() == pytest.approx(0, abs=1e-6)
    scaled = spo.WinRate()(batch.with_rewards(7 * batch.rewards)).advantages
    assert np.array_equal(of_trajectories(batch, scaled), found)


def cycle(a: Trajectory, b: Trajectory) -> float:
    """Rock, paper, scissors: a preference that no reward can express."""
    return {0: 0.5, 1: 1.0, 2: 0.0}[(int(a.episode_return) - int(b.episode_return)) % 3]


def certain(a: Trajectory, b: Trajectory) -> float:
    return 2.0


def test_any_function_may_prefer():
    batch = Batch.of([trajectory([1], [float(r)]) for r in (0, 1, 2)])
    own = spo.WinRate(f"{__name__}:cycle")(batch).advantages
    assert np.allclose(own, 0.0)  # no pure strategy wins
    two = Batch.of([trajectory([1], [0.0]), trajectory([1], [1.0])])
    assert np.allclose(spo.WinRate(f"{__name__}:cycle")(two).advantages, [-0.5, 0.5])
    with pytest.raises(ConfigError, match=r"in \[0, 1\], got 2"):
        spo.WinRate(f"{__name__}:certain")(two)
    with pytest.raises(ConfigError, match="module:function"):
        spo.Config.of(preference="longer")
    with pytest.raises(ConfigError, match="episodes are compared"):
        spo.Config.of(preference="success", shape_progress=1.0)


@given(generators)
@few
def test_p3o_is_the_gradient_of_all_pairs(rng):
    batch = Batch.of(random_batch(rng, min_tokens=1).trajectories[::2])  # one group of three
    owner = torch.from_numpy(batch.turn_trajectory[batch.token_turn])
    logprobs = torch.tensor(batch.logprobs, dtype=torch.float64, requires_grad=True)
    config = p3o.Config()
    surrogate = clipped_surrogate(
        logprobs,
        logprobs.detach(),
        torch.from_numpy(p3o.build(config).credit(batch, None).advantages),  # type: ignore[misc]
        span=owner,
        span_ratio="product",
        weights=aggregation_weights(config.loss.aggregation, owner, owner),
    )
    (found,) = torch.autograd.grad(-surrogate.loss.total, logprobs, retain_graph=True)
    whole = torch.zeros(3, dtype=torch.float64).index_add(0, owner, logprobs)
    returns = [t.episode_return for t in batch.trajectories]
    pairs = sum(
        (returns[i] - returns[j]) / 2 * (whole[i] - whole[j]) for i, j in combinations(range(3), 2)
    )
    (expected,) = torch.autograd.grad(pairs, logprobs)  # type: ignore[arg-type]
    assert torch.allclose(found, expected, atol=1e-5)  # 2 / (n - 1) = 1 times the sum over pairs


def test_golden_turn_groups():
    some = [trajectory([1, 2, 1], [0, 0, 1.0]), trajectory([1, 1], [0, 0.0])]
    for turn, progress in zip([*some[0].turns, *some[1].turns], [0.5, 0.5, 1, 0, 0], strict=True):
        turn.progress = progress
    found = mt_grpo.TurnGroups(omega=2.0, scale=False)(Batch.of(some)).advantages
    # Outcomes 1 and 0. First turns score 1 and 0. The second turn of the other one is its last.
    assert np.allclose(found, [0.5 + 1.0, 0.5, 0.5, 0.5, -0.5 - 1.0, -0.5])
    plain = mt_grpo.TurnGroups(omega=0.0)(Batch.of(some)).advantages
    assert np.allclose(
        plain, group.GroupBaseline(scale=True, epsilon=1e-4)(Batch.of(some)).advantages
    )
    with pytest.raises(ConfigError, match="module:function"):
        mt_grpo.Config.of(turn_score="nowhere:halves")
