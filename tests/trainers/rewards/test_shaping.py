"""Shaping changes no advantage, process rewards keep the outcome's sign, weights follow means."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.errors import ConfigError
from agentgym.trainers import recipes
from agentgym.trainers.api import make_trainer
from agentgym.trainers.credit import group, two_clock
from agentgym.trainers.credit.joint import Joint
from agentgym.trainers.credit.scan import discounted_returns
from agentgym.trainers.data.batch import Batch, Credit, Values
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.recipes import poad
from agentgym.trainers.rewards import shaping
from agentgym.trainers.rewards.reward_options import RewardOptions

from ...helpers.worlds import generators, random_batch, trajectory, values
from ..recipes.test_recipes import train_quickly

few = settings(max_examples=30, deadline=None)


def with_progress(rng: np.random.Generator) -> tuple[Batch, np.ndarray]:
    """A random batch, and the progress before each turn."""
    batch = random_batch(rng, min_tokens=1)
    before = np.zeros(batch.num_turns)
    for start, each in zip(batch.turn_offsets, batch.trajectories, strict=False):
        # Episodes of a group start in the same state.
        before[start] = each.start_progress = int(each.task[-1]) / 2
    for m, turn in enumerate(batch.turns):
        turn.progress = float(rng.random())
        if m + 1 < batch.num_turns and m + 1 not in batch.turn_offsets:
            before[m + 1] = turn.progress
    return batch, before


@given(generators, st.floats(0.1, 1.0), st.floats(0.1, 2.0))
@few
def test_shaping_lowers_every_return_by_the_potential_of_its_state(rng, gamma, coef):
    batch, before = with_progress(rng)
    shaped = shaping.shape_by_progress(batch, coef, gamma, bootstraps=False)
    returns = [discounted_returns(b.rewards, b.turn_offsets, gamma) for b in (batch, shaped)]
    assert np.allclose(returns[1], returns[0] - coef * before)
    assert shaped.trajectories is batch.trajectories


@given(generators, st.floats(0.1, 1.0), st.floats(0.0, 1.0))
@few
def test_shaping_changes_no_advantage_of_a_critic(rng, gamma, lambda_):
    batch, before = with_progress(rng)
    critic = values(batch, rng)
    last = np.array([turn.progress for turn in batch.turns])[batch.turn_offsets[1:] - 1]
    # The values of the shaped task are those of the task minus the potential.
    moved = Values(None, critic.turns - before, critic.bootstrap - last)
    estimator = two_clock.turn(gamma, lambda_)
    shaped = shaping.shape_by_progress(batch, 1.0, gamma, bootstraps=True)
    plain = estimator(batch, Values(None, critic.turns, critic.bootstrap)).advantages
    assert np.allclose(estimator(shaped, moved).advantages, plain, atol=1e-4)


@given(generators)
@few
def test_shaping_leaves_undiscounted_returns_of_groups_unchanged(rng):
    batch, _ = with_progress(rng)
    shaped = shaping.shape_by_progress(batch, 0.7, 1.0, bootstraps=False)
    assert np.allclose(group.grpo()(shaped).advantages, group.grpo()(batch).advantages, atol=1e-4)


@given(generators, st.floats(0.1, 1.0))
@few
def test_shaping_changes_no_comparison_of_turns_in_equal_states(rng, gamma):
    batch, before = with_progress(rng)
    for m, turn in enumerate(batch.turns):
        turn.state_key = str(before[m])  # the potential is a function of the state
    shaped = shaping.shape_by_progress(batch, 0.7, gamma, bootstraps=False)
    for estimator in (group.HGPO(gamma=gamma), group.GiGPO(gamma, omega=1.0, scale=False)):
        if isinstance(estimator, group.GiGPO) and gamma < 1.0:
            continue  # shaping would change its episode-level comparison
        plain = estimator(batch).advantages
        assert np.allclose(estimator(shaped).advantages, plain, atol=1e-3)


@given(generators, st.floats(0.1, 1.0), st.booleans())
@few
def test_shaping_of_a_single_agent_is_the_same_in_a_team_of_one(rng, gamma, bootstraps):
    batch, _ = with_progress(rng)
    alone, team = (
        shaping.shape_by_progress(batch, 0.7, gamma, bootstraps=bootstraps, joint=joint)
        for joint in (False, True)
    )
    assert np.allclose(alone.rewards, team.rewards) and team.delayed == ()


@pytest.mark.parametrize("recipe", ["grpo", "rloo", "gigpo", "hgpo", "p3o"])
def test_a_recipe_that_compares_equal_starts_only_has_no_shaping(recipe: str):
    with pytest.raises(ConfigError, match=f"^{recipe} has no shape_progress: it is a setting of "):
        recipes.load(recipe).Config.of(shape_progress=1.0)


@pytest.mark.parametrize(
    ("recipe", "settings"),
    [
        # An action had more credit if a longer one followed it.
        ("ntpo", {"gamma": 1.0}),
        ("nlpo", {"gamma": 1.0}),
        ("cory", {"gamma": 1.0}),
        ("bilevel", {"gamma_token": 1.0}),
        # An agent had more credit if the one before it had less progress.
        ("marft", {"gamma_hop": 1.0}),
        # A subgoal that is reached with more progress had more credit.
        ("vsc_rl", None),
        # The last action of a success had that of a failure.
        ("istar", None),
    ],
)
def test_shaping_is_refused_where_it_would_move_the_optimum(recipe, settings):
    config = recipes.load(recipe).Config
    others = {name: 0.9 for name in settings or ()}
    with pytest.raises(ConfigError, match="shape_progress"):
        config.of(shape_progress=1.0, **others)
    if settings is not None:
        config.of(shape_progress=1.0, **settings)


@pytest.mark.parametrize(("before", "after", "score"), [(0.5, 0.5, 0), (0.5, 0.2, 0), (0.5, 1, 1)])
def test_the_first_turn_is_compared_with_the_progress_at_the_start(before, after, score):
    found = trajectory([1], [0.0])
    found.start_progress, found.turns[0].progress = before, after
    assert shaping.turn_scores(Batch.of([found]), "progress").tolist() == [score]


@pytest.mark.parametrize(
    "reward",
    [{"process_reward": "valid"}, {"novelty_bonus": 0.1}, {"reward_constraints": {"format": 0.5}}],
)
def test_groups_are_not_filtered_by_returns_that_are_not_compared(reward):
    with pytest.raises(ConfigError, match="equal returns"):
        recipes.load("grpo").Config.of(filter_groups=True, **reward)
    with pytest.raises(ConfigError, match="arpo_replay has no"):
        recipes.load("arpo_replay").Config.of(**reward)


def test_new_states_are_counted_once_per_episode():
    returning = trajectory([1] * 4, [0] * 4, keys=["a", "b", "a", "c"])
    batch = Batch.of([returning, trajectory([1], [0])])
    assert shaping.new_states(batch).tolist() == [1, 0, 1, 0, 0]


def scored(scores: list[float], success: bool) -> Trajectory:
    """An episode whose turns have the scores as a reward term."""
    found = trajectory([1] * len(scores), [0.0] * len(scores), success=success)
    for turn, score in zip(found.turns, scores, strict=True):
        turn.reward_terms = {"format": score}
    return found


def test_process_scores_may_be_fractions_decimals_and_tensors():
    batch = Batch.of([trajectory([1, 2], [0, 1]), trajectory([1], [0])])
    halves = [Fraction(1, 2), Decimal("0.5"), torch.tensor(0.5)]

    def scores(*given: Any) -> list[float]:
        def score(trajectories: Any) -> list[list[Any]]:
            return [[*given][: len(each.turns)] for each in trajectories]

        return shaping.turn_scores(batch, "mine:score", score).tolist()

    for half in halves:
        assert scores(half, True) == [0.5, 1.0, 0.5]
    for wrong in (Decimal("NaN"), Decimal("sNaN"), Fraction(3, 2), float("nan")):
        with pytest.raises(ConfigError, match="Process scores of 'mine:score' must lie in"):
            scores(wrong, 1)
    for wrong in ("0.5", None, 1j):
        with pytest.raises(ConfigError, match="must be numbers, one per turn, 2, got"):
            scores(wrong, 1)


@given(
    st.lists(
        st.tuples(st.lists(st.floats(0, 1), min_size=1, max_size=4), st.booleans()),
        min_size=1,
        max_size=5,
    )
)
@few
def test_process_scores_never_flip_the_sign_of_the_outcome(episodes):
    batch = Batch.of([scored(*each) for each in episodes])
    scores = shaping.turn_scores(batch, "format")
    rewards = shaping.process_rewards(batch, scores, "outcome")
    success = np.array([t.success for t in batch.trajectories])[batch.turn_trajectory]
    assert (rewards[success] >= 0).all() and (rewards[~success] <= 0).all()
    # Among turns of one episode, a higher score is never worth less.
    for start, stop in zip(batch.turn_offsets, batch.turn_offsets[1:], strict=False):
        order = np.argsort(scores[start:stop])
        assert (np.diff(rewards[start:stop][order]) >= -1e-9).all()


def test_gated_scores_count_in_successes_alone():
    batch = Batch.of([scored([1.0, 0.5], True), scored([1.0], False)])
    rewards = shaping.process_rewards(batch, shaping.turn_scores(batch, "format"), "gated")
    assert np.allclose(rewards, [0.5, 0.25, 0.0])


def test_a_replayed_episode_is_no_further_visit():
    one = trajectory([1, 1], [0.0, 0.0])
    batch, counts = Batch.of([one, replace(one, replayed=True)]), dict[str, int]()
    assert shaping.rarity(batch, counts).tolist() == [1.0] * 4
    assert sorted(counts.values()) == [1, 1]
    alone = Batch.of([replace(one, task="b", replayed=True)])  # its counts may be lost
    assert shaping.rarity(alone, {}).tolist() == [1.0, 1.0]


def test_the_count_bonus_falls_with_each_visit_and_is_resumed():
    def visits(*pairs: str) -> Batch:
        found = trajectory([1] * len(pairs), [0.0] * len(pairs))
        for turn, (state, action) in zip(found.turns, pairs, strict=True):
            turn.state_key, turn.action = state, action
        return Batch.of([found])

    config = poad.Config.of(count_bonus=2.0)
    options = RewardOptions(config)
    first = options(visits("xa", "xa", "xb", "ya"), 0)
    assert first.rewards == pytest.approx([2, 2 / 2**0.5, 2, 2])
    resumed = RewardOptions(config)
    resumed.load_state_dict(options.state_dict())
    for each in (options, resumed):
        again = each(visits("xa", "yb"), 1)
        assert again.rewards == pytest.approx([2 / 3**0.5, 2])
        assert each.metrics["count_bonus"] == pytest.approx(again.rewards.mean())


def test_sources_of_process_scores(tmp_path: Path):
    found = scored([1.0, 0.5, 0.0], True)
    for turn, progress, valid in zip(found.turns, [0.5, 0.5, 1], [True, False, True], strict=True):
        turn.progress, turn.valid = progress, valid
    batch = Batch.of([found])
    assert shaping.turn_scores(batch, "progress").tolist() == [1, 0, 1]
    assert shaping.turn_scores(batch, "valid").tolist() == [1, 0, 1]
    assert shaping.turn_scores(batch, "format").tolist() == [1, 0.5, 0]
    own = f"{__name__}:halves"
    assert shaping.turn_scores(batch, own).tolist() == [0.5] * 3
    mean = shaping.process_rewards(batch, shaping.turn_scores(batch, "format"))
    assert mean.sum() == pytest.approx(0.5)
    for source, message in [
        ("speed", "no reward term 'speed'.*format"),
        ("nowhere:halves", "module:function"),
        (f"{__name__}:too_large", r"in \[0, 1\]"),
        (f"{__name__}:too_few", r"one per turn, 3, got \[\]"),
        (f"{__name__}:one_number", "one per turn, 3, got 0.5"),
        (f"{__name__}:words", "one per turn, 3, got 'yes'"),
        (f"{__name__}:of_a_model", r"one per turn, 3, got tensor\(.*requires_grad=True"),
    ]:
        with pytest.raises(ConfigError, match=message):
            shaping.turn_scores(batch, source)
    with pytest.raises(ConfigError, match="module:function"):
        make_trainer("turn", process_reward="nowhere:halves", run_dir=str(tmp_path))


def halves(trajectory: Trajectory) -> list[float]:
    return [0.5] * len(trajectory.turns)


def too_large(trajectory: Trajectory) -> list[float]:
    return [2.0] * len(trajectory.turns)


def too_few(trajectory: Trajectory) -> list[float]:
    return []


def one_number(trajectory: Trajectory) -> float:
    return 0.5


def words(trajectory: Trajectory) -> str:
    return "yes"


def of_a_model(trajectory: Trajectory) -> torch.Tensor:
    return torch.full((3,), 0.5, requires_grad=True)


def test_the_weight_of_process_rewards_falls_to_zero():
    config = poad.Config.of(process_reward="format", process_weight=0.8, process_iterations=4)
    options = RewardOptions(config)
    weights = [options.process_weight(iteration) for iteration in (0, 1, 2, 4, 9)]
    assert weights == pytest.approx([0.8, 0.6, 0.4, 0.0, 0.0])
    batch = Batch.of([scored([1.0, 0.0], False)])
    batch = batch.with_rewards([0.0, 1.0])
    assert options(batch, 0).rewards.tolist() == pytest.approx([0.4, 0.2])
    assert options(batch, 4) is batch


@pytest.mark.parametrize("combine", ["mean", "episode"])
@pytest.mark.parametrize("weight", [0.5, 1.0])
def test_a_process_reward_counts_in_its_own_turn_of_a_team(combine: str, weight: float):
    """An agent's reward came in the turn of another one. Its process reward does not."""
    one, two = (trajectory([1], [reward], agent=name) for name, reward in (("a", 2.0), ("b", 0.0)))
    for clock, member in enumerate((one, two)):
        member.episode = (7,)
        member.turns[0].clock = member.turns[0].order = clock
    one.turns[0].delayed = ((1, 2.0, "task"),)
    two.turns[0].valid = False
    config = poad.Config.of(process_reward="valid", process_weight=weight, process_combine=combine)
    rewards = RewardOptions(config)(Batch.of([one, two]), 0)
    score = 1.0 if combine == "mean" else 2.0  # of the first agent, whose action is valid
    expected = [weight * score / 2, (1 - weight) * 2.0 / 2]
    assert Joint.of(rewards).batch.rewards == pytest.approx(expected)


def test_the_weight_of_a_term_counts_where_a_team_received_it():
    """The first agent got one term for its action and the other one in the turn of the second."""
    one, two = (trajectory([1], [reward], agent=name) for name, reward in (("a", 3.0), ("b", 0.0)))
    for clock, member in enumerate((one, two)):
        member.episode = (7,)
        member.turns[0].clock = member.turns[0].order = clock
        member.turns[0].reward_terms = {"now": 1.0 - clock, "later": 2.0 - 2.0 * clock}
    one.turns[0].delayed = ((1, 2.0, "later"),)
    for name, expected in (("now", [0.0, 1.0]), ("later", [0.5, 0.0])):
        options = RewardOptions(poad.Config.of(reward_constraints={name: 0.0}))
        options.weights[name] = 0.0
        rewards = options(Batch.of([one, two]), 0)
        assert Joint.of(rewards).batch.rewards.tolist() == expected


def test_weights_of_constrained_terms_follow_their_means():
    config = poad.Config.of(reward_constraints={"format": 1.0}, constraint_lr=0.5)
    options = RewardOptions(config)
    low, high = Batch.of([scored([0.0, 0.2], False)]), Batch.of([scored([2.0, 3.0], True)])
    assert options(low, 0).rewards.tolist() == [0, 0]
    options.observe(low.trajectories)
    assert options.weights == {"format": pytest.approx(1.4)}
    assert options(low, 1).rewards.tolist() == pytest.approx([0, 0.4 * 0.2])
    options.observe(high.trajectories)
    assert options.weights == {"format": 0.0}
    other = RewardOptions(config)
    other.load_state_dict(options.state_dict())
    assert other.weights == options.weights
    with pytest.raises(ConfigError, match="must be numbers"):
        poad.Config.of(reward_constraints={"format": "high"})


@pytest.mark.usefixtures("without_files")
def test_means_of_constrained_terms_are_those_of_all_played_episodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(RecipeHooks, "on_rollout_end", lambda self, fresh, *_: Learn(fresh[:4]))
    options = {"reward_constraints": {"task": 2.0}}
    [row] = train_quickly("grpo", tmp_path, iterations=1, **options)[:1]
    assert row["rollout/return"] == pytest.approx(row["credit/term/task"])


def test_groups_that_fail_weigh_up_to_twice_as_much():
    some = [trajectory([1, 1], [0, 1], seed=1, success=True) for _ in range(2)]
    some += [trajectory([1, 1], [0, 0], seed=2) for _ in range(2)]
    batch = Batch.of(some)
    credit = Credit(np.linspace(-1, 1, batch.num_tokens, dtype=np.float32))
    weighed = group.weigh_by_difficulty(credit, batch)
    assert np.allclose(weighed.advantages / credit.advantages, [2 / 3] * 4 + [4 / 3] * 4)
    equal = replace(batch, groups=np.zeros(4, np.int64))
    assert np.allclose(group.weigh_by_difficulty(credit, equal).advantages, credit.advantages)
    with pytest.raises(ConfigError, match="group_weight"):
        poad.Config.of(group_weight="difficulty")


@pytest.mark.slow
def test_the_options_change_a_run_and_are_resumed(tmp_path: Path):
    options = {
        "process_reward": "progress", "novelty_bonus": 0.1, "count_bonus": 0.1,
        "reward_constraints": {"task": 2.0}, "group_weight": "difficulty", "gamma": 1.0,
    }  # fmt: skip
    whole = train_quickly("gigpo", tmp_path / "whole", iterations=2, **options)
    assert whole[-1]["credit/weight/task"] > whole[0]["credit/weight/task"] > 1
    assert 0 < whole[-1]["credit/process_score"] <= 1
    train_quickly("gigpo", tmp_path / "part", iterations=1, **options)
    resumed = train_quickly("gigpo", tmp_path / "part", iterations=2, resume=True, **options)
    names = [name for name in whole[-1] if name.startswith(("losses", "credit"))]
    assert {n: resumed[-1][n] for n in names} == {n: whole[-1][n] for n in names}
    plain = train_quickly("gigpo", tmp_path / "plain", iterations=1, gamma=1.0)
    assert plain[0]["rollout/return"] == whole[0]["rollout/return"]
    assert plain[0]["credit/advantage_std"] != whole[0]["credit/advantage_std"]
