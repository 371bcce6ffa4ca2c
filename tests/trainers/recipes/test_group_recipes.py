"""Recipes with one formula each: win rates, pairs, levels, and turns compared or standardised."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.agents.basic.chat import ChatAgent
from agentgym.errors import ConfigError
from agentgym.registration.making import make_env
from agentgym.trainers import recipes
from agentgym.trainers.credit import group, two_clock
from agentgym.trainers.data.batch import Batch, Credit, Values
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.recipes import (
    arpo_replay,
    dpo,
    filtered_bc,
    glam,
    grpo_roc,
    mt_grpo,
    p3o,
    spa,
    spo,
    steppo,
    trpa,
    vsc_rl,
)
from agentgym.trainers.update.learner import ForwardPass
from agentgym.trainers.update.losses import aggregation_weights, clipped_surrogate

from ...helpers.learning import learn, token_weights
from ...helpers.worlds import generators, random_batch, trajectory, values

few = settings(max_examples=20, deadline=None)


def of_trajectories(batch: Batch, advantages: np.ndarray) -> np.ndarray:
    """The advantage of each trajectory, whose tokens share it."""
    return advantages[batch.token_offsets[batch.turn_offsets[:-1]]]


def test_golden_win_rates():
    some = [trajectory([1], [r], seed=1) for r in (3.0, 1.0, 1.0, -8.0)] + [trajectory([1], [1.0])]
    found = spo.WinRate()(Batch.of(some)).advantages
    assert np.allclose(found, [0.5, 0.0, 0.0, -0.5, 0.0])


def test_the_order_of_rewards_does_not_break_a_tie():
    """0.1 + 0.2 + 0.3 and 0.3 + 0.2 + 0.1 are different floats."""
    some = [trajectory([1] * 3, rewards) for rewards in ([0.1, 0.2, 0.3], [0.3, 0.2, 0.1])]
    assert np.allclose(spo.WinRate()(Batch.of(some)).advantages, 0.0)


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
    with pytest.raises(ConfigError, match="novelty_bonus belongs to preference return"):
        spo.Config.of(preference="success", novelty_bonus=1.0)


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
        torch.from_numpy(p3o.build(config).signal.assign(batch, None).advantages),
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
    with pytest.raises(ConfigError, match="turn_score must name a module:function"):
        mt_grpo.Config.of(turn_score="nowhere:halves")


def doubtful(trajectory: Trajectory) -> list[float]:
    """Scores that prefer episodes with a low return."""
    return [1.0 / (2.0 + trajectory.episode_return)] * len(trajectory.turns)


@pytest.mark.parametrize(
    ("judge", "best"), [("", [3.0, 2.0]), (f"{__name__}:doubtful", [0.0, 1.0])]
)
def test_episodes_are_filtered_by_their_return_or_by_a_judge(judge: str, best: list[float]):
    played = [trajectory([1, 1], [float(i), 0.0], seed=i) for i in range(4)]
    trainer = SimpleNamespace(pool=SimpleNamespace(env=lambda _: make_env("NumberLine-v0")))
    config = filtered_bc.Config.of(top_fraction=0.5, judge=judge)
    hooks = filtered_bc.Best(trainer, config)  # type: ignore[arg-type]
    kept = learn(hooks, played).trajectories
    assert [each.episode_return for each in kept] == best
    with pytest.raises(ConfigError, match="judge must name a module:function"):
        filtered_bc.Config.of(judge="nowhere:here")


@pytest.mark.parametrize(
    ("judge", "pairs"),
    [
        ("", [(1, 0), (2, 0), (2, 1)]),
        (f"{__name__}:doubtful", [(0, 1), (0, 2), (1, 2)]),
        ("chat:judge@http://127.0.0.1:9/v1", [(2, 1)]),
    ],
)
def test_pairs_follow_the_returns_or_a_judge(
    judge: str, pairs: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
):
    """Unreadable replies, here on the first episode, make no pair."""
    replies = iter(["I cannot tell.", "1: 2\n2: 0", "1: 4\n2: 1"])
    monkeypatch.setattr(ChatAgent, "act", lambda self, views: [next(replies) for _ in views])
    played = [trajectory([1, 1], [float(i), 0.0], seed=1) for i in range(3)]
    other = trajectory([1, 1], [9.0, 0.0], seed=2)
    trainer = SimpleNamespace(pool=SimpleNamespace(env=lambda _: make_env("NumberLine-v0")))
    hooks = dpo.build(dpo.Config.of(judge=judge)).hooks(trainer)  # type: ignore[arg-type]
    replies = iter([*replies, "1: 10\n2: 10"])
    found = learn(hooks, [*played, other])  # another group: in no pair
    assert found.pairs is not None
    assert [(pair.better, pair.worse) for pair in found.pairs] == pairs
    with pytest.raises(ConfigError, match="judge must name a module:function"):
        dpo.Config.of(judge="nowhere:here")


def test_an_episode_below_the_minimum_is_not_cloned():
    hooks = filtered_bc.Best(None, filtered_bc.Config.of(min_return=1.0))  # type: ignore[arg-type]
    for best, weight in [(0.5, 0.0), (1.0, 1.0)]:
        played = [trajectory([1, 2], [best, 0.0], seed=1), trajectory([1], [0.0])]
        found = learn(hooks, played)
        assert found.trajectories == played[:1] and hooks.metrics["imitated"] == weight
        assert token_weights(found).tolist() == [weight] * 3


@pytest.mark.parametrize("recipe", ["agent_rlvr", "arpo_entropy", "aepo"])
def test_groups_are_not_filtered_before_they_are_complete(recipe: str):
    """Retries and branches join a group after its first episodes, which may all be equal."""
    with pytest.raises(ConfigError, match="has no filter_groups"):
        recipes.load(recipe).Config.of(filter_groups=True)


def of_level(trajectory: Trajectory) -> int:
    return int(trajectory.episode_return)


@given(generators)
@few
def test_trpa_is_the_gradient_of_its_loss(rng):
    levels = [1, 2, 2, 3]
    batch = Batch.of(
        [trajectory(rng.integers(1, 5, 2), [level, 0.0], seed=1) for level in levels]
        + [trajectory([1], [1.0])]  # alone in its group
    )
    owner = torch.from_numpy(batch.turn_trajectory[batch.token_turn])
    reference = torch.from_numpy(rng.normal(size=batch.num_tokens))
    logprobs = torch.from_numpy(rng.normal(size=batch.num_tokens)).requires_grad_()
    config = trpa.Config.of(levels=f"{__name__}:of_level")
    forward = ForwardPass(logprobs.detach().numpy(), reference=reference.numpy())
    found = learn(trpa.LevelPreferences(config), list(batch.trajectories))
    credit = trpa.build(config).signal.assign(Batch.to_learn(found), forward)
    weights = aggregation_weights(config.loss.aggregation, owner, owner)
    ours = -(torch.from_numpy(credit.advantages) * logprobs * weights.weight).sum()
    (found,) = torch.autograd.grad(ours / weights.share.sum(), logprobs)

    means = [(logprobs - reference)[owner == i].mean() for i in range(4)]
    pairs = [(i, j) for i in range(4) for j in range(4) if levels[i] < levels[j]]
    losses = [
        -torch.nn.functional.logsigmoid((0.25 if i == 0 else 0.1) * (means[i] - means[j]))
        for i, j in pairs
    ]
    (expected,) = torch.autograd.grad(sum(losses) / len(pairs), logprobs)  # type: ignore[arg-type]
    assert torch.allclose(found, expected, atol=1e-6)


def test_levels_of_outcomes():
    good, failed, invalid = (trajectory([1, 1], [0, 0], success=i == 0) for i in range(3))
    good.turns[0].valid = invalid.turns[1].valid = False
    assert [trpa.outcome_level(each) for each in (good, failed, invalid)] == [1, 2, 3]
    with pytest.raises(ConfigError, match="module:function"):
        trpa.Config.of(levels="returns")


def test_golden_subgoals():
    # gamma 0.5, lambda 1. The second turn reaches a subgoal: returns (0 + 0.5 * 1, 1), (0 + 2).
    some = trajectory([1, 2, 1, 1], [0.0, 1.0, 0.0, 4.0])
    some.turns[1].reward_terms = {"subgoal": 1.0}
    critic = Values(None, np.array([0.25, 9, 0.5, 0], np.float32), np.zeros(1, np.float32))
    found = vsc_rl.SubgoalGAE(0.5, 1.0)(Batch.of([some]), critic)
    assert found.targets is not None and np.allclose(found.targets, [0.5, 1, 2, 4])
    assert np.allclose(found.advantages, [0.25, -8, -8, 1.5, 4])


@given(generators)
@few
def test_without_subgoals_vsc_rl_has_the_advantages_of_turns(rng):
    batch = random_batch(rng)
    critic = values(batch, rng)
    one, other = vsc_rl.SubgoalGAE(0.9, 0.8)(batch, critic), two_clock.turn(0.9, 0.8)(batch, critic)
    assert np.allclose(one.advantages, other.advantages, atol=1e-5)
    assert one.targets is not None and other.targets is not None
    assert np.allclose(one.targets, other.targets, atol=1e-5)


def test_golden_steps():
    # Mean 2 and standard deviation 1 over turns, although the first turn has three tokens.
    batch = Batch.of([trajectory([3, 1], [0.0, 0.0])])
    credit = Credit(np.array([1, 1, 1, 3], np.float32))
    found = steppo.PerTurn().on_advantages(batch, credit, 0)
    assert np.allclose(found.advantages, [-1, -1, -1, 1])


def test_golden_progress_model():
    """The sum of a trajectory's predictions is fitted to its return, in any order of the turns."""
    batch = Batch.of([trajectory([1] * len(r), r) for r in ([0, 1.0], [0.0], [0.0, 0.0])])
    predicted, index = torch.tensor([1.0, 0.5, 1.0, 0.25]), torch.tensor([4, 0, 3, 1])
    loss = spa.error_of_sums(predicted, torch.tensor([1.0, 9.0, 0.0]), index, batch)
    assert (float(loss.total), float(loss.count)) == (0.5 * (0.25**2 + 2**2), 2)
    critic = Values(None, np.zeros(5, np.float32), np.zeros(3, np.float32))
    returns = spa.ProgressGAE(1.0, 1.0, 0.5, 0.95, reads="turns")(batch, critic).returns
    assert returns is not None and returns.tolist() == [0.5, 1, 0, 0, 0]


def test_settings_are_those_of_the_authors_code():
    """GLAM reads three observations, the current one included. StepPO has no dual clip."""
    prompt = glam.Config().context_settings()
    assert (prompt.mode, prompt.window) == ("window", 2)
    assert steppo.Config().loss.dual_clip is None


def played(wins: int, losses: int, seed: int = 0) -> list[Trajectory]:
    """A group whose i-th success and failure have i invalid actions of ten."""
    found = []
    for won, count in ((True, wins), (False, losses)):
        for i in range(count):
            one = trajectory([1] * 10, [0.0] * 9 + [float(won)], seed=seed, success=won)
            for turn in one.turns[:i]:
                turn.valid = False
            found.append(one)
    return found


def invalid(trajectories: list[Trajectory], success: bool) -> list[float]:
    return [10 * grpo_roc.invalid_share(t) for t in trajectories if t.success == success]


@given(generators, st.integers(0, 9), st.integers(0, 9), st.floats(0, 1), st.integers(0, 4))
@few
def test_the_cleanest_successes_and_any_failures_stay(rng, wins, losses, keep, least):
    fresh = played(wins, losses) + played(2, 2, seed=1)
    found = grpo_roc.ResampleOnCorrect(keep, least).on_rollout_end(fresh, 0, rng).trajectories
    places = [[t is one for t in fresh].index(True) for one in found]
    assert places == sorted(set(places))
    first = [t for t in found if t.seed == 0]
    total = len(first)
    assert total == min(wins + losses, max(2, round(keep * (wins + losses))))
    assert len(found) - total == max(2, round(keep * 4))
    successes = invalid(first, True)
    assert sorted(successes) == pytest.approx(range(len(successes)))
    least = min(least, total // 2)
    assert len(successes) >= min(least, wins) and total - len(successes) >= min(least, losses)


def test_failures_stay_at_random_and_the_share_of_successes_is_kept():
    roc = grpo_roc.ResampleOnCorrect(0.5, 1)
    left = Counter[float]()
    for seed in range(200):
        learned = roc.on_rollout_end(played(2, 6), 0, np.random.default_rng(seed))
        found = list(learned.trajectories)
        assert invalid(found, True) == [0]
        left.update(map(round, invalid(found, False)))
    assert set(left) == set(range(6)) and max(left.values()) < 1.5 * min(left.values())


def test_replayed_actions_of_an_extreme_perplexity_are_not_learned_from():
    """The mean probabilities of the actions of the success are 0.3, 0.7 and 0.99."""
    solved = trajectory([2, 1, 1], [0, 0, 1], success=True)
    failed = [trajectory([1], [0]) for _ in range(2)]
    logprobs = np.log(np.array([0.1, 0.9, 0.7, 0.99], np.float32))
    passes: list[Batch] = []

    def evaluate(batch: Batch, reference: bool) -> ForwardPass:
        passes.append(batch)
        return ForwardPass(logprobs)

    run = SimpleNamespace(updaters=SimpleNamespace(evaluate_actions=evaluate))
    for bounds, weights in (((0.5, 0.95), [0, 1, 0]), ((0.0, 1.0), [1, 1, 1])):
        config = arpo_replay.Config.of(replay_probability=bounds)
        hooks = arpo_replay.SuccessReplay(run, config)  # type: ignore[arg-type]
        learn(hooks, [solved])
        found = learn(hooks, failed).trajectories
        assert [turn.weight for turn in found[-1].turns] == weights and found[-1].replayed
    assert len(passes) == 1 and all(turn.weight == 1 for turn in solved.turns)
    with pytest.raises(ConfigError, match=r"lower and an upper bound, .* got 0.9 0.1"):
        arpo_replay.Config.of(replay_probability=(0.9, 0.1))
