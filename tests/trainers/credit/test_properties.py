"""What holds for every estimator; those of a new recipe or file are found and tested too."""

# A None where an array is needed is a failing test.
# pyright: reportOptionalMemberAccess=false, reportOptionalSubscript=false
# pyright: reportOptionalOperand=false
# pyright: reportArgumentType=false, reportCallIssue=false
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from agentgym.trainers.data.batch import Batch, Values
from agentgym.trainers.data.trajectory import Segment, Trajectory

from ...helpers.worlds import generators, random_batch, trajectory, values
from .estimators import ESTIMATORS, WITH_CRITIC, of_recipe

few = settings(max_examples=10)
every = pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS)
grouped = {name: each for name, each in ESTIMATORS.items() if name != "marshal"}
with_groups = pytest.mark.parametrize("estimator", grouped.values(), ids=grouped)
with_critic = pytest.mark.parametrize("estimator", WITH_CRITIC.values(), ids=WITH_CRITIC)


def test_the_estimators_are_found():
    found = {repr(estimator) for estimator in ESTIMATORS.values()}
    for name in ("poad", "ntpo", "bilevel", "turn", "chunk", "grpo", "rloo", "gigpo", "hgpo"):
        assert repr(of_recipe(name)) in found
    assert {"istar", "GAGPO"} <= ESTIMATORS.keys()
    critics = {repr(estimator) for estimator in WITH_CRITIC.values()}
    for name in ("poad", "ntpo", "bilevel", "turn", "chunk"):
        assert repr(of_recipe(name)) in critics


def of_some(batch: Batch, critic: Values, some: np.ndarray) -> tuple[Batch, Values, np.ndarray]:
    """Some trajectories in some order, what the critic says of them, and which tokens they have."""
    turns = np.concatenate([np.arange(*batch.turn_offsets[n : n + 2]) for n in some])
    tokens = np.concatenate([np.arange(*batch.token_offsets[m : m + 2]) for m in turns])
    part = Values(critic.tokens[tokens], critic.turns[turns], critic.bootstrap[some])
    return Batch.of([batch.trajectories[n] for n in some]), part, tokens


def relaid(before: Trajectory, rng: np.random.Generator) -> Trajectory:
    """The same actions with other observation tokens before them, each turn in its own segment."""
    turns, segments = [], []
    for number, turn in enumerate(before.turns):
        start, length = int(rng.integers(1, 40)), turn.stop - turn.start
        turns.append(replace(turn, segment=number, start=start, stop=start + length))
        segments.append(Segment(rng.integers(0, 99, start + length).astype(np.int32)))
    return replace(before, turns=turns, segments=segments, final_observation="x" * 99)


@every
@given(rng=generators)
@few
def test_a_number_for_every_token_and_nothing_is_written_to(estimator, rng):
    batch = random_batch(rng)
    critic, rewards = values(batch, rng), batch.rewards.copy()
    before = [array.copy() for array in (critic.tokens, critic.turns, critic.bootstrap)]
    credit = estimator(batch, critic)
    assert credit.advantages.shape == (batch.num_tokens,)
    assert credit.advantages.dtype == np.float32
    assert np.isfinite(credit.advantages).all()
    assert np.isfinite(list(credit.metrics.values())).all()
    if credit.targets is not None:
        assert len(credit.targets) in (batch.num_tokens, batch.num_turns)
        assert credit.targets.dtype == np.float32 and np.isfinite(credit.targets).all()
    assert np.array_equal(batch.rewards, rewards)
    for array, old in zip((critic.tokens, critic.turns, critic.bootstrap), before, strict=True):
        assert np.array_equal(array, old)


@every
@given(rng=generators)
@few
def test_observation_tokens_and_segments_change_nothing(estimator, rng):
    batch = random_batch(rng)
    critic = values(batch, rng)
    other = Batch.of([relaid(each, rng) for each in batch.trajectories])
    one, two = estimator(batch, critic), estimator(other, critic)
    assert np.array_equal(one.advantages, two.advantages)
    assert one.targets is None or np.array_equal(one.targets, two.targets)


@every
@given(rng=generators)
@few
def test_permuting_trajectories_permutes_advantages(estimator, rng):
    batch = random_batch(rng, trajectories=8)
    critic = values(batch, rng)
    moved, read, tokens = of_some(batch, critic, rng.permutation(8))
    whole = estimator(batch, critic).advantages
    assert np.allclose(estimator(moved, read).advantages, whole[tokens], atol=1e-5)


@with_groups  # the baseline of marshal is over all groups
@given(rng=generators)
@few
def test_other_groups_change_nothing(estimator, rng):
    batch = random_batch(rng, trajectories=8)
    critic = values(batch, rng)
    alone, read, tokens = of_some(batch, critic, np.flatnonzero(batch.groups == batch.groups[0]))
    whole = estimator(batch, critic).advantages
    assert np.allclose(estimator(alone, read).advantages, whole[tokens], atol=1e-5)


@with_critic
@given(rng=generators)
@few
def test_truncation_bootstraps_and_termination_does_not(estimator, rng):
    batch = random_batch(rng, min_tokens=1)
    critic = values(batch, rng)
    moved = replace(critic, bootstrap=critic.bootstrap + 1)
    changed = estimator(batch, critic).advantages != estimator(batch, moved).advantages
    ended = batch.terminated[batch.turn_trajectory][batch.token_turn]
    assert not changed[ended].any()
    last = batch.turn_offsets[1:][~batch.terminated] - 1
    credit = estimator(batch, critic).targets, estimator(batch, moved).targets
    per_turn = len(credit[0]) == batch.num_turns
    at = last if per_turn else batch.token_offsets[last + 1] - 1
    assert (credit[0][at] != credit[1][at]).all()


CASES = {
    "all rewards equal": [trajectory([2, 1], [0.1, 0.1], keys=["a", "b"]) for _ in range(4)],
    "no rewards": [trajectory([2, 1], [0.0, 0.0], terminated=n > 1) for n in range(4)],
    "single turns": [trajectory([3], [float(n)], terminated=n > 1) for n in range(4)],
    "empty actions": [trajectory([0, 2, 0], [1.0, n, 2.0], terminated=n > 1) for n in range(4)],
    "nothing but empty actions": [trajectory([0], [1.0]), trajectory([0, 0], [1.0, 2.0])],
    "groups of one": [trajectory([1, 2], [0.0, n], task=str(n)) for n in range(3)],
    "one trajectory": [trajectory([1], [1.0])],
    "10,000 tokens": [trajectory([10_000, 1], [1.0, n], padding=7) for n in range(2)],
}


@every
@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("error")
def test_extreme_batches_give_finite_numbers(estimator, case):
    batch = Batch.of(CASES[case])
    critic = values(batch, np.random.default_rng(0))
    credit = estimator(batch, critic)
    assert credit.advantages.shape == (batch.num_tokens,)
    assert np.isfinite(credit.advantages).all()
    assert credit.targets is None or np.isfinite(credit.targets).all()


@with_critic
@pytest.mark.filterwarnings("error")
def test_huge_values_give_finite_numbers(estimator):
    batch = random_batch(np.random.default_rng(1))
    critic = values(batch, np.random.default_rng(0))
    huge = Values(critic.tokens * 1e30, critic.turns * 1e30, critic.bootstrap * 1e30)
    assert np.isfinite(estimator(batch, huge).advantages).all()


@with_critic
@given(rng=generators)
@few
def test_values_in_bfloat16_are_off_by_no_more_than_their_rounding(estimator, rng):
    # bfloat16 keeps 8 significant bits, so cutting a value off errs by less than |V| / 128. A
    # target sums at most 2 values a slot with weights of at most 1, and so many an advantage and
    # one more; weights of imitation, min(exp(5 A), 20), are at most 100 times as steep.
    batch = random_batch(rng)
    critic = values(batch, rng)

    def cut(x):
        return (x.view(np.uint32) & 0xFFFF0000).view(np.float32)

    rough = Values(cut(critic.tokens), cut(critic.turns), cut(critic.bootstrap))
    largest = max(
        np.abs(x).max(initial=0.0) for x in (critic.tokens, critic.turns, critic.bootstrap)
    )
    slots = np.add.reduceat(np.maximum(np.diff(batch.token_offsets), 1), batch.turn_offsets[:-1])
    bound = (2 * slots.max() + 1) * largest / 128
    steep = 100 if "Weight" in type(estimator).__name__ else 1
    one, two = estimator(batch, critic), estimator(batch, rough)
    assert np.abs(one.advantages - two.advantages).max(initial=0.0) <= steep * bound
    assert np.abs(one.targets - two.targets).max(initial=0.0) <= bound
