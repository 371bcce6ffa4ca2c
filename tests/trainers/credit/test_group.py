# A None where an array is needed is a failing test.
# pyright: reportOptionalMemberAccess=false, reportOptionalSubscript=false
# pyright: reportArgumentType=false, reportCallIssue=false
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trainers.credit.graph import GAGPO
from agentgym.trainers.credit.group import (
    HGPO,
    GiGPO,
    GroupBaseline,
    anchor_groups,
    anchor_values,
    dr_grpo,
    flow_grpo,
    grpo,
    rloo,
)
from agentgym.trainers.credit.scan import discounted_returns
from agentgym.trainers.data.batch import Batch

from ...helpers.worlds import generators, random_batch, trajectory

ALL = [
    grpo(),
    dr_grpo(),
    rloo(),
    flow_grpo(),
    GiGPO(),
    GiGPO(statistics="steps"),
    GiGPO(scale=False),
    HGPO(),
    HGPO(base=True, scale=False),
    GAGPO(),
]


def returns_batch(*returns: float, **kwargs) -> Batch:
    """One group; trajectory n has n + 1 turns of two tokens and is rewarded at its end."""
    return Batch.of(
        [
            trajectory([2] * (n + 1), [0.0] * n + [value], **kwargs)
            for n, value in enumerate(returns)
        ]
    )


def per_trajectory(batch: Batch, advantages) -> list[float]:
    starts = batch.token_offsets[batch.turn_offsets[:-1]]
    assert np.array_equal(advantages, advantages[starts][batch.turn_trajectory][batch.token_turn])
    return advantages[starts].tolist()


def test_statistics_of_all_agents_mix_the_scales_of_their_returns():
    """The advantages of an agent with a tenth of the returns are a tenth of the other's."""
    scales = {"player_0": 1.0, "player_1": 10.0}
    some = [trajectory([1], [r * s], agent=a) for a, s in scales.items() for r in (0.0, 1.0)]
    batch = Batch.of(some)
    own = per_trajectory(batch, GroupBaseline(scale=True)(batch).advantages)
    assert own == pytest.approx([-(0.5**0.5), 0.5**0.5] * 2, rel=1e-4)
    low, high, lower, higher = per_trajectory(
        batch, GroupBaseline(scale=True, by_agent=False)(batch).advantages
    )
    assert low < high < 0 and high - low == pytest.approx((higher - lower) / 10)


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (dr_grpo(), [-3, -1, 4]),
        (rloo(), [-4.5, -1.5, 6]),  # 0 - (2 + 7) / 2, 2 - 3.5, 7 - 1
        (grpo(), np.array([-3, -1, 4]) / 13**0.5),
    ],
)
def test_golden_trajectory_baselines(estimator, expected):
    batch = returns_batch(0, 2, 7)
    credit = estimator(batch)
    assert np.allclose(per_trajectory(batch, credit.advantages), expected, atol=1e-5)
    assert credit.targets is None
    assert credit.metrics == {"group/alone": 0.0, "group/all_equal": 0.0}


def test_success_is_an_outcome():
    batch = Batch.of([trajectory([1], [9], success=s) for s in (True, False, False, True)])
    assert np.allclose(flow_grpo()(batch).advantages, np.array([1, -1, -1, 1]) * 0.75**0.5)
    assert not grpo()(batch).advantages.any()


@pytest.mark.parametrize("estimator", ALL)
def test_alone_or_all_equal_gives_zero(estimator):
    alone = Batch.of([trajectory([2, 1], [1, 2], task=str(n), keys=["a", "b"]) for n in range(3)])
    if not isinstance(estimator, GAGPO) or estimator.lambda_ == 1:
        assert not estimator(alone).advantages.any()
    equal = Batch.of([trajectory([2, 1], [0.1, 0.2], keys=["a", "b"]) for _ in range(4)])
    assert np.allclose(estimator(equal).advantages, 0, atol=1e-6)


@pytest.mark.parametrize("estimator", ALL)
def test_agents_of_one_game_are_groups_of_their_own(estimator):
    batch = Batch.of(
        [
            trajectory([1], [reward], agent=agent, success=reward > 50)
            for agent, reward in [("a", 0), ("a", 2), ("b", 100), ("b", 102)]
        ]
    )
    advantages = estimator(batch).advantages
    assert np.allclose(advantages[:2], -advantages[1::-1], atol=1e-6)
    if estimator != flow_grpo():
        assert np.allclose(advantages[:2], advantages[2:], atol=1e-6)


@given(generators)
def test_leave_one_out_is_the_mean_of_the_others(rng):
    batch = returns_batch(*rng.normal(size=5))
    returns = [t.episode_return for t in batch.trajectories]
    expected = [r - np.mean(returns[:n] + returns[n + 1 :]) for n, r in enumerate(returns)]
    assert np.allclose(per_trajectory(batch, rloo()(batch).advantages), expected, atol=1e-5)


def naive_gigpo(batch: Batch, e: GiGPO):
    """The definition, by loops."""
    group = [t.group for t in batch.trajectories]
    returns = [t.episode_return for t in batch.trajectories]
    turn_returns = discounted_returns(batch.rewards, batch.turn_offsets, e.gamma)
    owner, keys = batch.turn_trajectory, [t.state_key for t in batch.turns]
    out = []
    for m in range(batch.num_turns):
        peers = [n for n in range(len(group)) if group[n] == group[owner[m]]]
        if e.statistics == "steps":
            sample = [returns[n] for n in peers for _ in batch.trajectories[n].turns]
        else:
            sample = [returns[n] for n in peers]
        anchor = [
            turn_returns[i]
            for i in range(batch.num_turns)
            if group[owner[i]] == group[owner[m]] and keys[i] == keys[m]
        ]
        total = 0.0
        for x, items, company, weight in (
            (returns[owner[m]], sample, len(peers) > 1, 1.0),
            (turn_returns[m], anchor, len(anchor) > 1, e.omega),
        ):
            if company:
                scale = np.std(items, ddof=1) + e.epsilon if e.scale else 1.0
                total += weight * (x - np.mean(items)) / scale
        out.append(total)
    return np.array(out)[batch.token_turn]


@given(generators, st.booleans(), st.sampled_from(["trajectories", "steps"]), st.floats(0, 1))
def test_gigpo_equals_its_definition(rng, scale, statistics, gamma):
    batch = random_batch(rng, trajectories=7)
    estimator = GiGPO(gamma=gamma, omega=0.7, scale=scale, statistics=statistics)
    assert np.allclose(estimator(batch).advantages, naive_gigpo(batch, estimator), atol=1e-4)


def test_gigpo_golden_and_the_two_statistics():
    # Returns 0 (one turn) and 3 (three turns); state "x" is visited by both, the rest once.
    batch = Batch.of(
        [
            trajectory([1], [0.0], keys=["x"]),
            trajectory([1, 1, 1], [0.0, 0.0, 3.0], keys=["y", "x", "z"]),
        ]
    )
    gamma = 0.5  # the visits of x return 0 and 1.5
    by_trajectory = GiGPO(gamma=gamma, scale=False)(batch)
    assert np.allclose(by_trajectory.advantages, [-1.5 - 0.75, 1.5, 1.5 + 0.75, 1.5])
    by_step = GiGPO(gamma=gamma, scale=False, statistics="steps")(batch)
    assert np.allclose(by_step.advantages, [-2.25 - 0.75, 0.75, 0.75 + 0.75, 0.75])
    assert by_trajectory.metrics["anchor/alone"] == 0.5


def naive_hgpo(batch: Batch, e: HGPO):
    """The definition, by loops."""
    returns = discounted_returns(batch.rewards, batch.turn_offsets, e.gamma)
    owner, keys = batch.turn_trajectory, [t.state_key for t in batch.turns]

    def history(m, k):
        start = batch.turn_offsets[owner[m]]
        group = batch.trajectories[owner[m]].group
        return (group, *keys[m - k + 1 : m + 1]) if m - k + 1 >= start else None

    out = np.zeros(batch.num_turns)
    for m in range(batch.num_turns):
        parts = []
        for k in range(1, e.history + 2):
            mine = history(m, k)
            peers = [i for i in range(batch.num_turns) if mine and history(i, k) == mine]
            if len(peers) > 1:
                sample = returns[peers]
                scale = np.std(sample) + e.epsilon if e.scale else 1.0
                parts.append(((k + 1) ** e.alpha, (returns[m] - sample.mean()) / scale))
        if parts:
            out[m] = sum(w * a for w, a in parts) / sum(w for w, _ in parts)
    return out[batch.token_turn]


@given(generators, st.integers(0, 3), st.booleans(), st.floats(0, 2))
def test_hgpo_equals_its_definition(rng, history, scale, alpha):
    batch = random_batch(rng, trajectories=7)
    estimator = HGPO(history=history, alpha=alpha, scale=scale)
    assert np.allclose(estimator(batch).advantages, naive_hgpo(batch, estimator), atol=1e-4)


@given(generators)
def test_hgpo_without_history_is_the_step_part_of_gigpo(rng):
    batch = random_batch(rng)
    step = GiGPO(scale=False)(batch).advantages - GiGPO(scale=False, omega=0)(batch).advantages
    assert np.allclose(HGPO(history=0, scale=False)(batch).advantages, step, atol=1e-5)


@given(generators, st.floats(0, 1))
def test_gagpo_at_lambda_one_is_the_step_part_of_gigpo(rng, gamma):
    batch = random_batch(rng)
    whole = GiGPO(gamma=gamma, scale=False)(batch).advantages
    step = whole - GiGPO(gamma=gamma, scale=False, omega=0)(batch).advantages
    assert np.allclose(GAGPO(gamma, 1.0)(batch).advantages, step, atol=1e-5)


def test_anchor_values_are_means_over_visits():
    batch = Batch.of(
        [trajectory([1, 1], [1.0, 2.0], keys=["a", "a"]), trajectory([1], [6.0], keys=["a"])]
    )
    assert np.allclose(anchor_values(batch, 0.5), (2 + 2 + 6) / 3)
    assert anchor_groups(batch).tolist() == [0, 0, 0]


def test_mistakes_are_named():
    batch = Batch.of([trajectory([1], [1])])
    with pytest.raises(ValueError, match="outcome"):
        GroupBaseline(outcome="luck")(batch)
    with pytest.raises(ValueError, match="statistics"):
        GiGPO(statistics="tokens")
    with pytest.raises(ValueError, match="history"):
        HGPO(history=-1)
