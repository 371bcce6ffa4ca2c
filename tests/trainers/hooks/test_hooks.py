"""Replay, learned rewards, preferences and branches: what they keep and what they hand on."""

from __future__ import annotations

import dataclasses
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.optim.optimizer import register_optimizer_step_pre_hook

from agentgym.errors import ConfigError
from agentgym.registration.making import make_env
from agentgym.trainers.algorithm import Algorithm, PolicyGradient, Preference
from agentgym.trainers.callbacks import Callback
from agentgym.trainers.credit import two_clock
from agentgym.trainers.credit.given import preference_credit, preference_weights
from agentgym.trainers.credit.normalize import normalize_advantages
from agentgym.trainers.critics.transitions import Encoder, Features, TransitionBuffer, TurnBuffer
from agentgym.trainers.critics.value_model import action_model
from agentgym.trainers.data.batch import Batch, Credit, Values
from agentgym.trainers.data.learn import Learn, Pair
from agentgym.trainers.data.packing import pack, pack_all, unpack, unpack_all
from agentgym.trainers.data.replay import ReplayBuffer, pairs_of
from agentgym.trainers.data.trajectory import Segment, Trajectory
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.hooks.branching import Branching, choose
from agentgym.trainers.hooks.branching import Path as Branch
from agentgym.trainers.hooks.preferences import action_pairs
from agentgym.trainers.hooks.run import Run
from agentgym.trainers.hooks.utterance_critic import Minibatch, UtteranceHooks
from agentgym.trainers.policy.collate import collate
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sample, Sampling
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.policy_agent.agent import make_context
from agentgym.trainers.recipes import (
    agent_rlvr,
    agentprm,
    archer_iql,
    cory,
    digi_q,
    etpo,
    ilql,
    inverse_prm,
    istar,
    nlpo,
    spear,
    sweet_rl,
)
from agentgym.trainers.recipes.sac_glam import CandidateFeatures, steps_of
from agentgym.trainers.recipes.spa import Config
from agentgym.trainers.recipes.spear import Config as SpearConfig
from agentgym.trainers.recipes.spear import SelfImitation, is_void
from agentgym.trainers.rewards.penalties import with_penalties, without_equal_groups
from agentgym.trainers.rollout.collector import collect
from agentgym.trainers.rollout.context import ContextSettings
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.run.iteration import Iteration
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.update.learner import ForwardPass

from ...helpers.chat_server import ChatServer, Messages, chat_server
from ...helpers.worlds import generators, random_batch, trajectory
from ..recipes.test_recipes import QUICK, train, train_quickly, whole_and_resumed


@given(rng=generators)
def test_a_packed_trajectory_comes_back_as_it_was(rng):
    for before in random_batch(rng).trajectories:
        after = unpack(pack(before))
        assert Batch.of([after]).logprobs.dtype == np.float32
        assert pack(after) == pack(before)
        for a, b in zip(after.segments, before.segments, strict=True):
            assert np.array_equal(a.tokens, b.tokens) and a.tokens.dtype == b.tokens.dtype


@settings(max_examples=30, deadline=None)
@given(rng=generators)
def test_packed_trajectories_come_back_as_they_were(rng):
    before = list(random_batch(rng).trajectories)
    for turn in (turn for each in before for turn in each.turns[::2]):
        turn.version = 3
        turn.token_versions = rng.integers(4, size=len(turn.logprobs), dtype=np.int32)
    stream = io.BytesIO()
    torch.save(pack_all(before), stream)
    stream.seek(0)
    after = unpack_all(torch.load(stream, weights_only=True))
    assert [pack(each) for each in after] == [pack(each) for each in before]
    assert all(s.tokens.dtype == np.int32 for each in after for s in each.segments)
    assert unpack_all(pack_all([])) == []


def test_packed_trajectories_hold_prompts_and_texts_once():
    def size(count: int) -> int:
        played = [trajectory([1] * 8, [0.0] * 8) for _ in range(count)]
        for each in played:
            each.segments = [Segment(np.r_[:500, number].astype(np.int32)) for number in range(8)]
            for turn in each.turns:
                turn.observation, turn.admissible = "o" * 900, ("go north", "go south")
        stream = io.BytesIO()
        torch.save(pack_all(played), stream)
        return len(stream.getvalue())

    assert (size(20) - size(10)) / 10 < 8 * 500  # tokens alone were 8 * 500 * 4 bytes


def test_the_buffer_forgets_by_age_and_size():
    buffer = ReplayBuffer(3)
    for iteration in range(3):
        buffer.add([trajectory([1], [iteration]), trajectory([1], [iteration])], iteration)
    assert [t.episode_return for t in buffer.since(0)] == [1, 2, 2]
    assert [t.episode_return for t in buffer.since(2)] == [2, 2]
    other = ReplayBuffer(3)
    other.load_state_dict(buffer.state_dict())
    assert [pack(t) for t in other.since(0)] == [pack(t) for t in buffer.since(0)]


def test_pairs_are_of_one_group_and_the_better_comes_first():
    some = [trajectory([1], [r], seed=seed) for r, seed in [(0.0, 1), (1.0, 1), (1.0, 1), (0.5, 2)]]
    assert pairs_of(some) == [(1, 0), (2, 0)]


def test_the_model_of_istar_prefers_the_outcome_that_is_compared():
    hook = istar.ImplicitReward.__new__(istar.ImplicitReward)
    fitted: list[list[tuple[int, int]]] = []
    hook.outcome = "success"
    hook.logprobs = lambda batch, model=None, reuse=False: batch.logprobs  # type: ignore[method-assign]
    hook.fit = lambda batch, ratios, share, pairs: fitted.append(pairs) or 0.0  # type: ignore
    hook.optimizer, hook.beta = SimpleNamespace(state={}), 0.05  # type: ignore[assignment]
    batch = Batch.of([trajectory([1], [r], success=r > 0) for r in (0.5, 1.0, 0.0)])
    hook.on_rewards(batch, None, 0, np.random.default_rng(0))
    assert fitted == [[(0, 2), (1, 2)]]


@given(
    scores=st.lists(st.floats(-5, 5), min_size=2, max_size=6),
    beta=st.floats(0.05, 2.0),
    rng=generators,
)
def test_preference_weights_are_the_gradient_of_dpo(scores, beta, rng):
    n = len(scores)
    pairs = [(int(a), int(b)) for a, b in rng.integers(n, size=(4, 2)) if a != b] or [(0, 1)]
    x = torch.tensor(scores, dtype=torch.float64, requires_grad=True)
    better, worse = (torch.tensor(side) for side in zip(*pairs, strict=True))
    (-torch.nn.functional.logsigmoid(beta * (x[better] - x[worse])).mean()).backward()
    assert x.grad is not None
    weights, _ = preference_weights(np.array(scores), [Pair(*pair) for pair in pairs], beta)
    assert np.allclose(weights, -x.grad.numpy(), atol=1e-9)


def test_groups_in_which_all_are_equal_are_left_out_unless_nothing_is_left():
    equal = [trajectory([1], [1.0], seed=1), trajectory([1], [1.0], seed=1)]
    mixed = [trajectory([1], [0.0], seed=2), trajectory([1], [1.0], seed=2)]
    assert without_equal_groups(equal + mixed) == mixed
    assert without_equal_groups(equal) == equal


def test_groups_are_left_out_by_the_outcome_that_is_compared():
    """Successes with different returns teach nothing if success is compared."""
    slow = [trajectory([1], [reward], seed=1, success=True) for reward in (0.5, 1.0)]
    mixed = [trajectory([1], [0.0], seed=2, success=won) for won in (False, True)]
    assert without_equal_groups(slow + mixed, "success") == mixed
    assert without_equal_groups(slow + mixed) == slow


def test_the_agents_of_a_start_are_left_out_together():
    """One of them alone would be taken for the whole team."""
    mixed = {(1, "a"): (1.0, 1.0), (1, "b"): (0.0, 1.0)}
    returns = mixed | {(2, "a"): (1.0, 1.0), (2, "b"): (0.0, 0.0)}
    played = [
        dataclasses.replace(trajectory([1], [reward], seed=seed), agent=agent)
        for (seed, agent), rewards in returns.items()
        for reward in rewards
    ]
    assert without_equal_groups(played) == played[:4]


def test_long_actions_are_charged_for():
    batch = Batch.of([trajectory([2, 7, 8, 10], [0, 0, 0, 1])])
    config = Config.of(max_new_tokens=10, overlong_margin=4)
    rewards = with_penalties(batch, None, config).rewards
    assert np.allclose(rewards, [0, -0.25, -0.5, 0.0])
    assert with_penalties(batch, None, Config()) is batch


def test_divergence_is_taken_off_the_turn_it_happened_in():
    batch = Batch.of([trajectory([2, 1], [0, 1])])
    zeros = np.zeros(3, np.float32)
    forward = ForwardPass(np.array([-1, -1, -2], np.float32), None, zeros - 1.5, zeros)
    config = Config.of(kl_coef=0.1, kl_in="reward")
    assert np.allclose(with_penalties(batch, forward, config).rewards, [-0.1, 1.05])
    team = {"env_id": "Team-Countdown-v0", "opponents": "mirror"}
    assert with_penalties(batch, forward, cory.Config.of(**team)) is not batch
    squared = cory.Config.of(**team, surrogate="squared")  # which has the penalty in its loss
    assert with_penalties(batch, forward, squared) is batch


END = 7
"""The end token of actions."""


def ended(tokens: Sequence[int]) -> bool:
    """Whether an action is complete."""
    return tokens[-1] == END


def test_self_imitation_weighs_old_episodes_by_what_is_usual_now():
    config = SpearConfig.of(
        ramp=2, max_age=5, episodes_per_iteration=8, normalize_advantages="none"
    )
    hook, rng = SelfImitation(config, ended), np.random.default_rng(0)
    first = [trajectory([1], [r], seed=1) for r in (0.0, 1.0)]
    assert hook.on_rollout_end(first, 0, rng).trajectories == first  # nothing to replay yet
    second = [trajectory([1], [r], seed=2) for r in (0.0, 0.0)]
    mixed = hook.on_rollout_end(second, 1, rng).trajectories
    assert [t.episode_return for t in mixed] == [0.0, 0.0, 1.0]
    batch = Batch.of(mixed)
    credit = hook.on_advantages(batch, Credit(np.array([0.3, -0.3, 9.0], np.float32)), 1)
    assert credit.advantages == pytest.approx([0.3, -0.3, 0.5])  # half of what it will weigh later
    assert hook.on_advantages(batch, credit, 2).advantages[2] == pytest.approx(1.0)


def test_a_replayed_episode_of_spear_has_the_advantage_of_its_return_over_the_median():
    config = SpearConfig.of(ramp=1, filter_void=False, tool_bonus=0)
    hook, rng = SelfImitation(config, ended), np.random.default_rng(0)
    hook.buffer.add([trajectory([1], [0.7], seed=1)], 0)
    failures = [trajectory([1], [0.0], seed=seed) for seed in range(256)]
    batch = Batch.to_learn(hook.on_rollout_end(failures, 1, rng))  # recent returns are all 0
    credit = hook.on_advantages(batch, Credit(np.zeros(257, np.float32)), 1)
    assert credit.advantages == pytest.approx([0.0] * 256 + [0.7])


@pytest.mark.parametrize("per", ["batch", "group", "none"])
def test_replayed_episodes_of_spear_do_not_change_the_advantages_of_fresh_ones(per: str):
    """Also those with the start of fresh ones, which are in their group."""
    config = SpearConfig.of(ramp=1, filter_void=False, tool_bonus=0, normalize_advantages=per)
    rng = np.random.default_rng(0)
    fresh = [trajectory([2], [r], seed=n // 4) for n, r in enumerate((0, 1, 0, 0, 1, 2, 0, 3.0))]
    old = [trajectory([1], [r], seed=seed) for r, seed in ((9.0, 0), (5.0, 1), (7.0, 8))]
    found = []
    for buffered in ([], old):
        algorithm = spear.build(config)
        hook = SelfImitation(config, ended)
        hook.buffer.add(buffered, 0)
        batch = Batch.to_learn(hook.on_rollout_end(fresh, 1, rng))
        credit = algorithm.signal.assign(batch, None)
        scope = None if per == "none" else per
        entering = normalize_advantages(credit, batch, scope)  # type: ignore[arg-type]
        found.append(hook.on_advantages(batch, entering, 1).advantages)
    alone, mixed = found
    assert np.allclose(mixed[: len(alone)], alone, atol=1e-5) and (mixed[len(alone) :] > 0).all()


def test_spear_replays_successes_if_these_are_compared():
    config = SpearConfig.of(outcome="success", ramp=1, filter_void=False, tool_bonus=0)
    hook, rng = SelfImitation(config, ended), np.random.default_rng(0)
    wins = [trajectory([1], [0.5], success=True), trajectory([1], [0.2], success=True)]
    losses = [trajectory([1], [float(r)]) for r in (3, 2, 1)]
    hook.on_rollout_end([*wins, *losses], 0, rng)
    learning = hook.on_rollout_end(losses, 1, rng).trajectories
    assert [t.success for t in learning if t.replayed] == [True, True]
    batch = Batch.of(learning)
    advantages = hook.on_advantages(batch, Credit(np.zeros(5, np.float32)), 1).advantages
    assert advantages[:3].tolist() == [0] * 3
    assert advantages[3] == advantages[4] > 0


def test_inverse_rewards_are_logits_of_the_expert():
    batch = Batch.of([trajectory([1, 1], [0, 0]), trajectory([1], [0])])
    assert inverse_prm.following(batch, np.array([1, 2, 3], np.float32)).tolist() == [2, 0, 0]
    values = torch.tensor([0.5, -1.0], requires_grad=True)
    targets = torch.tensor([[9.0, 0, 9], [0.5, 1.0, 2.0], [1.0, 0.0, 1.0]])
    loss = inverse_prm.error_of_labels(values, targets, torch.tensor([1, 2]), batch)
    expected = 2 * math.log(2) + math.log(1 + math.exp(-2))  # logits 0 and -2
    assert float(loss.total.detach()) == pytest.approx(expected)
    assert float(loss.count) == 3
    loss.total.backward()
    # An expert's turn is pulled up, one of the policy down.
    assert torch.allclose(values.grad, torch.tensor([-1.0, 1 / (1 + math.exp(2))]))  # type: ignore


@pytest.mark.slow
def test_inverse_rewards_need_no_reward_of_the_environment(tmp_path: Path):
    def losses(run: str, **changes: Any) -> list[float]:
        rows = train_quickly("inverse_prm", tmp_path / run, iterations=2, **changes)
        return [row[name] for row in rows for name in ("losses/policy_loss", "losses/value_loss")]

    assert losses("none", reward=lambda transition: 0.0) == losses("own")


def test_the_bonus_of_spear_for_valid_actions_falls_to_zero():
    config = SpearConfig.of(tool_bonus=0.4, tool_bonus_iterations=4)
    hook, rng = SelfImitation(config, ended), np.random.default_rng(0)
    batch = Batch.of([trajectory([1] * 3, [0, 0, 1]), trajectory([1], [1])])
    batch.turns[1].valid = False
    for iteration, weight in [(0, 1.0), (2, 0.5), (4, 0.0), (9, 0.0)]:
        given = hook.on_rewards(batch, None, iteration, rng).rewards - batch.rewards
        np.testing.assert_allclose(given, [0, 0, 0.8 * weight, 0.4 * weight], atol=1e-12)
    many = Batch.of([trajectory([1] * 5, [0] * 5)])
    assert hook.on_rewards(many, None, 0, rng).rewards.tolist() == [0, 0, 0, 0, 1]


@pytest.mark.parametrize("bonus", [0.0, 0.25])
def test_the_bonus_of_spear_is_added_to_success_if_this_is_compared(bonus: float):
    config = SpearConfig.of(outcome="success", tool_bonus=bonus, scale=False)
    hook, rng = SelfImitation(config, ended), np.random.default_rng(0)
    won = trajectory([1, 1], [0.0, 9.0], success=True)
    lost, void = trajectory([1, 1], [7.0, 0.0]), trajectory([1], [0.0])
    void.turns[0].valid = False
    batch = Batch.of([won, lost, void])
    credit = spear.build(config).estimator
    assert credit is not None
    found = credit(hook.on_rewards(batch, None, 0, rng), None).advantages
    outcomes = np.array([1 + 2 * bonus, 2 * bonus, 0.0])
    expected = outcomes - outcomes.mean()
    assert np.allclose(found, expected[batch.turn_trajectory])


def weights_of(modules: Sequence[Policy]) -> list[dict[str, torch.Tensor]]:
    return [{k: v.clone() for k, v in module.own_weights().items()} for module in modules]


def test_the_critic_of_archer_trains_an_encoder_of_its_own(tmp_path: Path):
    seen: list[list[dict[str, torch.Tensor]]] = []

    class Watch(Callback):
        def on_update_end(self, trainer: Any, metrics: Mapping[str, float]) -> bool:
            assert isinstance(trainer.hooks, UtteranceHooks)
            encoder = trainer.hooks.encoder
            seen.append(weights_of([trainer.policy, encoder.policy, encoder.target]))
            return True

    few: dict[str, Any] = {"iterations": 1, "lr": 0.0, "critic_batch": 4, "tau": 0.5}
    few |= {"critic_steps": 10, "replayed": 8} | QUICK
    train("archer", tmp_path, callbacks=[Watch()], **few)
    policy, encoder, target = seen[0]
    read = [name for name in policy if "lm_head" not in name]
    for name in read:
        moved, slow = (float((x[name] - policy[name]).abs().max()) for x in (encoder, target))
        assert moved > 0, name
        assert 0 < slow < 0.6 * moved, name


def test_minibatches_of_archer_have_the_features_of_their_turns(tmp_path: Path):
    checked = 0

    class Watch(Callback):
        def on_update_end(self, trainer: Any, metrics: Mapping[str, float]) -> bool:
            nonlocal checked
            hooks = trainer.hooks
            assert isinstance(hooks, UtteranceHooks) and isinstance(hooks.buffer, TurnBuffer)
            drawn = [np.array([2, 0, 2]), np.array([1, 0, 3])]
            own = [np.array([1, 1, 0]), np.array([0, 2, 1])]
            for answers in ([], hooks.buffer.take(np.array([5, 0, 4]))):
                read = hooks._read(hooks.buffer, drawn, answers, own)
                for index, at, (kept, fresh) in zip(drawn, own, read, strict=True):
                    turns = hooks.buffer.take(index)
                    check(hooks, turns, kept)
                    check(hooks, [answers[i] for i in at] if answers else turns, fresh)
                    checked += 1
            return True

    def check(hooks: UtteranceHooks, turns: list[Trajectory], found: Minibatch) -> None:
        batch = Batch.of(turns)
        fast, slow = (hooks.encoder.encode(batch, target=target) for target in (False, True))
        assert found.reward.tolist() == batch.rewards.astype(np.float32).tolist()
        assert found.terminated.tolist() == batch.terminated.tolist()
        for expected, features in ((fast, found.fast), (slow, found.slow)):
            for kind in ("observation", "action"):
                one, other = getattr(features, kind), getattr(expected, kind)
                torch.testing.assert_close(one, other, atol=1e-4, rtol=0)
        torch.testing.assert_close(found.slow.following, slow.following, atol=1e-4, rtol=0)

    few: dict[str, Any] = {"iterations": 1, "critic_batch": 4, "critic_steps": 10, "tau": 0.5}
    train("archer", tmp_path, callbacks=[Watch()], **few | {"replayed": 8} | QUICK)
    assert checked == 4


def test_a_turn_of_the_buffer_has_the_features_that_it_had_in_its_episode(played):
    policy, batch = played
    encoder = Encoder(policy, trained=True)
    whole = encoder.encode(batch)
    buffer = TurnBuffer(batch.num_turns)
    buffer.add(batch)
    alone = Batch.of(buffer.take(np.arange(batch.num_turns)))
    assert alone.rewards.tolist() == batch.rewards.tolist()
    found = encoder.encode(alone)
    for name in ("observation", "action", "following"):
        torch.testing.assert_close(getattr(found, name), getattr(whole, name), atol=1e-4, rtol=0)
    ends = np.zeros(batch.num_turns, bool)
    ends[batch.turn_offsets[1:] - 1] = batch.terminated
    assert alone.terminated.tolist() == ends.tolist()
    again = TurnBuffer(4)
    again.load_state_dict(buffer.state_dict())
    assert len(again) == 4
    encoder.features(alone).observation[:, 0].sum().backward()
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in encoder.policy.parameters())


def test_digi_q_knows_which_actions_change_the_state():
    some = trajectory([1] * 3, [0] * 3, keys=["a", "a", "b"])
    some.turns[2].observation = some.final_observation = "the end"
    other = trajectory([1] * 2, [0] * 2, keys=["b", "c"])
    other.final_observation = "further on"
    assert digi_q.state_changes(Batch.of([some, other])).tolist() == [0, 1, 0, 1, 1]


def test_digi_q_fine_tunes_its_features_once_and_plays_only_its_data(tmp_path: Path):
    seen: list[dict[str, torch.Tensor]] = []

    class Watch(Callback):
        def on_update_end(self, trainer: Any, metrics: Mapping[str, float]) -> bool:
            weights = trainer.hooks.encoder.policy.own_weights()  # type: ignore[attr-defined]
            seen.append({name: tensor.clone() for name, tensor in weights.items()})
            return True

    rows = train_quickly("digi_q", tmp_path, iterations=2, callbacks=[Watch()], lr=0.0)
    policy = Policy.load(tmp_path / "policy").own_weights()
    assert any(not torch.equal(tensor, policy[name]) for name, tensor in seen[0].items())
    assert all(torch.equal(tensor, seen[0][name]) for name, tensor in seen[1].items())
    assert rows[-1]["env_steps"] == rows[1]["env_steps"] > 0


def test_void_turns_of_spear_have_no_advantage():
    some = trajectory([2, 2, 4, 4, 29], [0, 0, 0, 0, 1], actions=["a", "b\ufffd", "c", "d", "e"])
    some.turns[0].valid = False
    some.segments[0].tokens[some.turns[3].stop - 1] = END  # as long as the limit, and complete
    batch = Batch.of([some])
    credit = Credit(np.ones(41, np.float32))
    raw: dict[str, Any] = {"normalize_advantages": "none"}
    for limit, void in [(4, [0, 1, 2, 4]), (30, [0, 1])]:
        hook = SelfImitation(SpearConfig.of(max_new_tokens=limit, **raw), ended)
        hook.on_rollout_end([some], 0, np.random.default_rng(0))
        found = hook.on_advantages(batch, credit, 0).advantages == 0
        assert np.unique(batch.token_turn[found]).tolist() == void
        assert found.sum() == np.isin(batch.token_turn, void).sum()
    turn, tokens = some.turns[2], list(range(30))
    assert is_void(turn, 11 * tokens) and not is_void(turn, 10 * tokens)
    off = SelfImitation(SpearConfig.of(max_new_tokens=4, filter_void=False, **raw), ended)
    off.on_rollout_end([some], 0, np.random.default_rng(0))
    assert off.on_advantages(batch, credit, 0).advantages.all()


@given(rng=generators, turn=st.integers(1, 3), budget=st.integers(0, 4))
def test_a_branch_depends_on_the_turns_up_to_it_alone(rng, turn: int, budget: int):
    hook = Branching.__new__(Branching)
    hook.alpha, hook.beta, hook.adaptive = 0.5, 0.5, True
    entropies = [rng.random(int(n)) for n in rng.integers(1, 6, size=4)]
    origins = rng.integers(0, 3, size=4).tolist()
    seed = int(rng.integers(1 << 30))

    def chosen(later: float) -> list[int]:
        changed = [np.where(np.arange(len(e)) > turn, later, e) for e in entropies]
        paths = [
            Branch(trajectory([1], [0]), e, origin)
            for e, origin in zip(changed, origins, strict=True)
        ]
        chance = partial(hook._chance, streak=2)
        found = choose(paths, turn, budget, chance, np.random.default_rng(seed))
        return [paths.index(path) for path in found]

    found = chosen(0.0)
    assert found == chosen(1.0)
    assert len(found) <= budget
    assert all(origins[i] < turn < len(entropies[i]) for i in found)


@pytest.mark.parametrize("rise", [-0.4, 0.0, 0.7])
@pytest.mark.parametrize("streak", [0, 1, 5, 10, 19, 20, 25])
def test_the_penalty_of_aepo_is_the_published_one(streak: int, rise: float):
    """A branch needs (1 - 0.05 n) (u + 0.2 dH) >= 0.5, so its probability falls from 0.5 to 0."""
    hook = Branching.__new__(Branching)
    hook.alpha, hook.beta, hook.adaptive = 0.2, 0.5, True
    path = Branch(trajectory([1], [0]), np.array([0.1, 0.1 + rise]))
    draws = (np.arange(100_000) + 0.5) / 100_000
    branches = max(0.0, 1 - 0.05 * streak) * (draws + 0.2 * rise) >= 0.5
    found = float(np.clip(hook._chance(path, 1, streak), 0, 1))
    assert found == pytest.approx(branches.mean(), abs=1e-4)
    if (streak, rise) == (5, 0.0):
        assert found == pytest.approx(1 / 3)
    hook.adaptive = False  # ARPO has none
    assert hook._chance(path, 1, streak) == pytest.approx(0.5 + 0.2 * rise)


def test_the_penalty_of_aepo_counts_the_turns_at_which_a_group_branched(
    monkeypatch: pytest.MonkeyPatch,
):
    hook = Branching.__new__(Branching)
    hook.alpha, hook.beta, hook.adaptive, hook.branches = 1e3, 0.5, True, 50
    hook._entropy = []
    entropies = {1: [0.0, 1, 1, 0, 1], 2: [1.0, 0, 0, 0, 0]}  # the second group never branches
    fresh = [trajectory([1] * 5, [0] * 5, seed=seed) for seed in (1, 1, 2)]
    monkeypatch.setattr(
        hook, "_turn_entropy", lambda some: [np.array(entropies[t.seed]) for t in some]
    )
    monkeypatch.setattr(
        hook,
        "_play",
        lambda points, *_: [Branch(p.trajectory, p.entropy, turn) for p, turn in points],
    )
    real, seen = hook._chance, set()

    def chance(path: Branch, turn: int, streak: int) -> float:
        seen.add((path.trajectory.seed, turn, streak))
        return -1.0 if turn == 3 else real(path, turn, streak)

    monkeypatch.setattr(hook, "_chance", chance)
    hook.on_rollout_end(fresh, 0, np.random.default_rng(0))
    assert sorted(seen) == [(1, 1, 0), (1, 2, 1), (1, 3, 2), (1, 4, 0)] + [
        (2, turn, 0) for turn in (1, 2, 3, 4)
    ]


def test_groups_whose_entropy_rises_get_more_branches_in_aepo():
    hook = Branching.__new__(Branching)
    hook.branches, hook.adaptive = 100, True
    for rise in (-1.0, 0.0, 0.5, 1.0):
        path = Branch(trajectory([1], [0]), np.array([0.2, 0.1 + rise, 0.3 + rise]))
        assert hook._budget([path]) == round(200 / (1 + math.exp(-0.5 * rise)))
    hook.adaptive = False
    assert hook._budget([path]) == 100


def test_aepo_weighs_advantages_by_the_entropy_of_their_tokens():
    hook = Branching.__new__(Branching)
    hook.entropy_weight, hook._entropy = 0.5, [np.array([0, 2]), np.array([1, 1], np.float32)]
    batch = Batch.of([trajectory([2], [0]), trajectory([1, 1], [0, 0])])
    found = hook.on_advantages(batch, Credit(np.array([1, 1, -2, 0], np.float32)), 0).advantages
    step = 0.5 / np.sqrt(0.5)
    np.testing.assert_allclose(found, [1 - step, 1 + step, -2, 0], rtol=1e-5)


def test_aepo_never_turns_the_sign_of_an_advantage():
    """A single token that is certain among many uncertain ones lies far below the mean."""
    hook = Branching.__new__(Branching)
    entropy = np.append(np.full(40, 2.0), 0.0)  # 6.3 standard deviations
    hook.entropy_weight, hook._entropy = 0.2, [entropy]
    for sign in (1.0, -1.0):
        credit = Credit(np.full(41, sign, np.float32))
        found = hook.on_advantages(Batch.of([trajectory([41], [0])]), credit, 0).advantages
        assert (sign * found[:40] > 1).all() and found[40] == 0


@pytest.mark.slow
def test_branches_keep_what_they_took_over(tmp_path: Path):
    rows = train(
        "arpo_entropy", tmp_path / "run", iterations=2, group_size=4, branches=4, eval_episodes=0,
        kl_coef=0.01, episodes_per_iteration=128,
    )  # fmt: skip
    row = rows[-1]
    assert row["credit/branches"] == 128
    assert row["rollout/logprob_gap"] < 1e-4  # taken-over tokens have the probability they had
    played = 2 * 128 * row["rollout/turns"]
    assert row["env_steps"] > played * 0.9


WITH_STATE = (
    "spear arpo_replay spa istar nlpo etpo sac_glam ilql archer archer_iql digi_q agentprm orm mc "
    "bc dpo inverse_prm sweet_rl"
).split()


@pytest.mark.slow
@pytest.mark.parametrize("recipe", WITH_STATE)
def test_a_resumed_run_goes_on_with_the_state_of_its_hooks(recipe: str, tmp_path: Path):
    whole, resumed = whole_and_resumed(tmp_path, partial(train_quickly, recipe), 4, at=2)
    assert resumed == whole


def test_nlpo_is_sampled_by_an_engine_that_has_the_mask():
    with pytest.raises(ConfigError, match="nlpo has no engine"):
        nlpo.Config.of(engine="vllm", top_k=50)


def test_the_mask_of_nlpo_is_the_policy_before_every_nth_update():
    policy = tiny_policy("NumberLine-v0", seed=0, size="nano")
    trainer: Any = SimpleNamespace(policy=policy)
    hooks = nlpo.LaggedMask(trainer, nlpo.Config.of(mask_every=2))
    [weight, *_] = policy.model.parameters()
    masks = []
    for iteration in range(4):
        weight.data.fill_(float(iteration))
        hooks.on_rollout_end([], iteration, np.random.default_rng(0))
        assert policy.guide is not None
        masks.append(float(next(policy.guide.model.parameters()).flatten()[0]))
    assert masks == [0, 0, 2, 2]


@pytest.mark.slow
def test_nlpo_starts_from_the_distribution_it_masked(tmp_path: Path):
    few = {"iterations": 3, "episodes_per_iteration": 32, "eval_episodes": 0, "epochs": 1}
    free = {"constrain": False, "max_new_tokens": 4, "top_p": 0.8}
    rows = train("nlpo", tmp_path, mask_every=2, **few, **free)
    gaps = [row["rollout/logprob_gap"] for row in rows if "rollout/logprob_gap" in row]
    assert len(gaps) == 3 and max(gaps) < 1e-5  # with a mask of the policy's own and a lagged one


@given(rng=generators, beta=st.floats(0.05, 2.0))
def test_at_the_soft_optimum_of_etpo_no_token_has_an_advantage(rng, beta: float):
    q, reference = (torch.from_numpy(rng.normal(size=(3, 5))) for _ in range(2))
    possible = torch.from_numpy(rng.random((3, 5)) < 0.7)
    possible[:, 0] = True
    reference = reference.masked_fill(~possible, -torch.inf).log_softmax(-1)
    best = (reference + q / beta).log_softmax(-1)
    value, divergence = etpo.soft_values(q, best, reference, beta)
    partition = (reference + q / beta).logsumexp(-1)
    torch.testing.assert_close(value, beta * partition)
    advantage = q - beta * (best - reference) - value[:, None]
    assert advantage[possible].abs().max() < 1e-9 and (divergence > -1e-9).all()
    other = torch.from_numpy(rng.normal(size=(3, 5))).masked_fill(~possible, -torch.inf)
    assert (etpo.soft_values(q, other.log_softmax(-1), reference, beta)[0] <= value + 1e-9).all()


def test_the_backup_of_etpo_is_the_value_of_the_state_that_follows(tmp_path: Path):
    batch = Batch.of([trajectory([2, 3], [0.5, 1.0]), trajectory([1], [0.2], terminated=False)])
    tokens = np.array([1, 2, 3, 4, 5, 6], np.float32)
    values = Values(tokens, tokens[batch.token_offsets[:-1]], np.array([9, 7], np.float32))
    penalties = np.full(6, 0.1, np.float32)
    found = etpo.q_targets(two_clock.poad(0.9, 0.0, 0.0), batch, values, penalties)
    expected = [2, 0.5 + 0.9 * 3, 4, 5, 1.0, 0.2 + 0.9 * 7]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    # Returns from the state after a token are charged for the states on their way.
    found = etpo.q_targets(two_clock.poad(1.0, 1.0), batch, values, penalties)
    np.testing.assert_allclose(found, [1.1, 1.2, 0.8, 0.9, 1.0, 7.2], rtol=1e-6)


def test_etpo_fits_no_prompts_without_an_action(played, monkeypatch):
    policy, batch = played
    hooks: Any = etpo.SoftBackup(SimpleNamespace(policy=policy), etpo.Config())  # type: ignore[arg-type]
    monkeypatch.setattr(etpo, "STEP_TOKENS", 8)
    nothing = np.zeros(batch.num_tokens, np.float32)
    hooks._fit(batch, nothing, nothing, np.random.default_rng(0))
    assert np.isfinite(hooks.metrics["q_loss"])


def test_what_a_recipe_copies_is_the_policy_after_imitation(tmp_path: Path):
    seen: list[Any] = []

    class Copies(RecipeHooks):
        def __init__(self, trainer: Run):
            super().__init__()
            self.model = action_model(trainer.policy, seed=0)
            seen.append(self.model.trunk)

    config = TrainConfig.of(
        model="nano", context="current", bc_demonstrations=2, bc_epochs=1, iterations=0,
        eval_episodes=0, quiet=True, device="cpu", run_dir=str(tmp_path),
    )  # fmt: skip
    trainer = Trainer("test", config, Algorithm(PolicyGradient(two_clock.turn()), hooks=Copies))
    before = trainer.policy.clone()
    trainer.run()
    now = trainer.policy.state_dict()
    assert all(torch.equal(p, now[name]) for name, p in seen[0].state_dict().items())
    assert any(not torch.equal(p, now[name]) for name, p in before.state_dict().items())
    assert seen[0].tokenizer is trainer.policy.tokenizer
    assert seen[0].model is not trainer.policy.model


def test_sac_learns_only_from_turns_whose_future_is_known():
    played = trajectory([2, 3, 1], [0.0, 0.0, 1.0], actions=["b", "c", "d"])
    for turn in played.turns:
        turn.admissible = ("a", turn.action)
    known = steps_of(played)
    assert [step.choice for step in known] == [1] * len(played.turns)
    assert known[-1].following is None and known[0].following is not None
    cut = dataclasses.replace(played, terminated=False, truncated=True)
    assert len(steps_of(cut)) == len(known) - 1


@settings(deadline=None, max_examples=30)
@given(rng=generators, alpha=st.floats(0, 2))
def test_soft_values_of_sac_are_exact_and_its_advantages_have_the_mean_0(rng, alpha: float):
    counts = torch.from_numpy(rng.integers(1, 5, 3))
    logits = [torch.from_numpy(rng.normal(size=int(n))) for n in counts]
    logprobs = torch.cat([each.log_softmax(-1) for each in logits])
    q = torch.from_numpy(rng.normal(size=(2, int(counts.sum()))))
    owner = torch.repeat_interleave(torch.arange(3), counts)
    empty = torch.zeros(0)
    found = CandidateFeatures(empty, empty, logprobs, owner, counts.cumsum(0) - counts, counts)
    value, target = found.value(q, alpha), 0.3
    excess = found.excess_entropy(target)
    for n in range(3):
        p, low = logprobs[owner == n].exp(), q[:, owner == n].amin(0)
        entropy = -(p * p.log()).sum()
        assert float(value[n]) == pytest.approx(float((p * low).sum() + alpha * entropy))
        expected = float(entropy) - target * math.log(len(p))
        assert float(excess[n]) == pytest.approx(expected, abs=1e-6)  # logs of counts are float32
        gain = low - alpha * p.log() - value[n]
        assert float((p * gain).sum()) == pytest.approx(0, abs=1e-9)


def test_the_backup_of_ilql_is_the_value_of_the_next_token_or_turn():
    batch = Batch.of([trajectory([2, 1], [0.5, 1.0]), trajectory([1], [0.2], terminated=False)])
    learner: Any = SimpleNamespace(config=ilql.Config(gamma=0.9))
    index = np.array([3, 0, 1, 2])  # the second trajectory first
    values, after = torch.tensor([4.0, 1.0, 2.0, 3.0]), torch.tensor([7.0])
    found = ilql.ImplicitQ._targets(learner, batch, index, values, after, torch.tensor([1]))
    assert found.tolist() == pytest.approx([0.2 + 0.9 * 7, 2.0, 0.5 + 0.9 * 3, 1.0])


@pytest.mark.slow
@pytest.mark.parametrize(("target", "sign"), [(0.0, -1), (1.0, 1)])
def test_sac_learns_its_temperature_from_the_entropy(target: float, sign: int, tmp_path: Path):
    few: dict[str, Any] = {"iterations": 2, "critic_batch": 4, "alpha": 0.1, "alpha_lr": 0.01}
    rows = train_quickly("sac_glam", tmp_path, target_entropy=target, **few)
    alphas = [0.1, *(row["credit/alpha"] for row in rows if "credit/alpha" in row)]
    assert (sign * np.diff(alphas) > 0).all()
    # Every critic step has a minibatch of its own: the 8 steps of 4 see more than 4 turns.
    assert rows[-1]["credit/critic_turns"] > 16


def test_every_step_of_sac_has_a_clipped_gradient(tmp_path: Path):
    norms: list[float] = []

    def measure(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for group in optimizer.param_groups:
            gradients = [p.grad for p in group["params"] if p.grad is not None]
            norms.append(float(torch.nn.utils.get_total_norm(gradients)))

    handle = register_optimizer_step_pre_hook(measure)
    try:
        train_quickly("sac_glam", tmp_path, iterations=1, critic_batch=4, max_grad_norm=1e-3)
    finally:
        handle.remove()
    assert len(norms) > 16 and max(norms) < 1.001e-3


def test_a_turn_that_was_cut_off_is_no_end_to_the_critic():
    batch = Batch.of(
        [trajectory([1, 2], [0.5, 1.0]), trajectory([1, 1], [0.0, 2.0], terminated=False)]
    )
    vectors = torch.arange(4.0)[:, None]
    buffer = TransitionBuffer(3)
    buffer.add(batch, Features(vectors, vectors + 10, vectors + 20))
    kept = buffer.take(slice(None))  # the first turn had to make room
    assert kept.reward.tolist() == [1.0, 0.0, 2.0]
    assert kept.terminated.tolist() == [True, False, False]
    assert kept.following[:, 0].tolist() == [21, 22, 23]
    assert len(buffer) == 3


@pytest.fixture(scope="module")
def played() -> tuple[Policy, Batch]:
    """A new policy and 24 episodes of it, some of which are cut off."""
    policy = tiny_policy("NumberLine-v0", size="nano", env_kwargs={"size": 6, "max_turns": 3})
    context = make_context(policy, ContextSettings("current", instructions=False))
    pool = EnvPool(lambda: make_env("NumberLine-v0", size=6, max_turns=3), 4)
    episodes = [EpisodeSpec(f"train/{i}", i, (0, i)) for i in range(24)]
    sampling = Sampling(max_new_tokens=4)
    return policy, Batch.of(collect(policy, pool, episodes, context, sampling, constrain=True))


def test_the_log_probabilities_of_all_tokens_contain_those_of_the_sampled_ones(played):
    policy, batch = played
    rows = [(n, s) for n, t in enumerate(batch.trajectories) for s in range(len(t.segments))]
    collated = collate(batch, rows, policy.pad_token)
    logprobs = policy.all_logprobs(collated)
    torch.testing.assert_close(logprobs.exp().sum(-1), torch.ones(len(logprobs)))
    chosen = logprobs.gather(-1, collated.target[:, None])[:, 0]
    torch.testing.assert_close(chosen, policy(collated).logprobs.detach(), atol=1e-5, rtol=0)
    assert torch.isinf(logprobs).any()
    policy.freeze_reference()
    assert torch.equal(policy.all_logprobs(collated, reference=True), logprobs)


def test_what_follows_a_turn_is_what_was_read_next(played):
    policy, batch = played
    features = Encoder(policy).encode(batch)
    last = batch.turn_offsets[1:] - 1
    inner = np.setdiff1d(np.arange(batch.num_turns), last)
    assert torch.equal(features.following[inner], features.observation[inner + 1])
    assert set(batch.terminated.tolist()) == {True, False}
    assert not features.following[last[batch.terminated]].any()
    cut = int(np.flatnonzero(~batch.terminated)[0])
    read = batch.trajectories[cut].segments[-1].tokens.astype(np.int64)
    state = policy.model.model(input_ids=torch.from_numpy(read)[None])[0][0, -1]
    expected = torch.nn.functional.layer_norm(state, state.shape)
    torch.testing.assert_close(features.following[last[cut]], expected, atol=1e-4, rtol=0)


@pytest.mark.slow
def test_the_token_baseline_of_archer_is_learnt_and_subtracted(tmp_path: Path):
    rows = train_quickly("archer", tmp_path, iterations=4, critic_warmup=0, token_baseline=True)
    assert all(np.isfinite(row["losses/value_loss"]) for row in rows if "losses/kl" in row)
    assert rows[-1]["losses/value_grad_norm"] > 0


@pytest.mark.parametrize("recipe", ["spa", "agentprm", "orm", "istar"])
def test_learned_rewards_start_from_the_policy_after_imitation(recipe, tmp_path, monkeypatch):
    same: list[bool] = []

    def begun(iteration: Any) -> None:
        trainer = iteration._trainer
        model = trainer.hooks.model
        reader = getattr(model, "trunk", model)
        pairs = zip(reader.parameters(), trainer.policy.parameters(), strict=True)
        same.extend(torch.equal(a, b) and a is not b for a, b in pairs)
        assert all(p.requires_grad for p in reader.parameters())
        trainer.state.iteration += 1

    monkeypatch.setattr(Iteration, "run", begun)
    train_quickly(recipe, tmp_path, iterations=1)
    assert same and all(same)


@pytest.mark.usefixtures("without_files")
@pytest.mark.parametrize("recipe", ["istar", "sweet_rl"])
def test_a_preference_model_without_pairs_teaches_nothing(recipe: str, tmp_path: Path):
    """Its log-ratios to the policy are rounding errors, which normalisation would amplify."""
    equal = {"env_kwargs": {"size": 60, "max_turns": 2}, "entropy_coef": 0.0, "iterations": 1}
    row = train_quickly(recipe, tmp_path, **equal)[-1]
    assert row["credit/pairs"] == row["credit/advantage_std"] == 0
    assert row["losses/policy_grad_norm"] == 0


@pytest.mark.usefixtures("without_files")
def test_agentprm_prefers_actions_with_higher_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    real, assign = agentprm.action_pairs, Preference.assign
    values, states, seen = [], [], []

    def compared(of: list[int], found: list[float]) -> list[Pair]:
        states.extend(of)
        values.extend(found)
        return real(of, found)

    def watched(signal: Preference, batch: Batch, *args: Any) -> Credit:
        seen.append((batch, credit := assign(signal, batch, *args)))
        return credit

    monkeypatch.setattr(agentprm, "action_pairs", compared)
    monkeypatch.setattr(Preference, "assign", watched)
    changes = {"update": "dpo", "paired": 64, "iterations": 1, "bc_demonstrations": 0}
    changes["normalize_advantages"] = "none"
    row = train_quickly("agentprm", tmp_path, **changes)[-1]
    assert 0 < row["credit/pairs"] <= 64
    assert row["losses/policy_grad_norm"] > 0
    [(batch, credit)] = seen
    advantages = credit.advantages
    mean = np.bincount(states, values)[states] / np.bincount(states)[states]
    weights = advantages[batch.token_offsets[batch.turn_offsets[:-1]]]
    different = np.abs(values - mean) > 1e-5
    assert different.sum() > 8
    assert (np.sign(weights) == np.sign(values - mean))[different].all()


def test_weights_of_preferences_of_agentprm_are_not_standardised():
    """Standardised, an action in no pair is imitated, and a margin never ends a preference."""
    played = [trajectory([length], [0.0]) for length in (1, 3, 2, 2)]
    pairs = action_pairs([0, 0, 1, 1], [1.0, 0.0, 0.5, 0.5])
    batch = Batch.to_learn(Learn(played, pairs=pairs))
    credit = preference_credit(batch, np.zeros(8), 0.03, mean=False, thought_coef=1.0)
    assert credit.advantages == pytest.approx([0.06] + [-0.06] * 3 + [0.0] * 4)
    with pytest.raises(ConfigError, match="supports normalize_advantages = 'none' only"):
        agentprm.Config.of(update="dpo")


@pytest.mark.parametrize("setting", [{"gamma": 2.0}, {"expectile": 1.0}, {"critic_steps": 0}])
def test_offline_archer_checks_its_settings_at_once(setting: dict[str, Any]):
    with pytest.raises(ConfigError, match=next(iter(setting))):
        archer_iql.Config.of(**setting)


def test_hints_are_in_the_first_observations_of_a_retry():
    kwargs: dict[str, Any] = {"size": 6, "max_turns": 8}
    env = agent_rlvr.Hinted(make_env("NumberLine-v0", **kwargs), agent_rlvr.expert_action, 2)
    plain = make_env("NumberLine-v0", **kwargs)
    for episode in range(2):
        shown, expected = env.reset(seed=episode)[0], plain.reset(seed=episode)[0]
        hints = []
        for _ in range(3):
            action = str(plain.get_wrapper_attr("expert")())
            hints.append(shown.removeprefix(expected))
            assert hints[-1] in ("", f"\nHint: {action}")
            wrong = "-" if action == "+" else "+"
            shown, expected = env.step(wrong)[0], plain.step(wrong)[0]
        assert [bool(hint) for hint in hints] == [True, True, False]


@pytest.fixture
def teacher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    """A served model that reads failed attempts and tells the direction."""

    def reply(messages: Messages) -> str:
        text = messages[-1]["content"]
        start = re.search(r"Turn 1\n\nObservation: You are at (\d+)\. Go to (\d+)", text)
        assert start is not None and "Action: x" in text and "not solved" in text
        return f"<think>It has failed.</think>\n{'+' if int(start[2]) > int(start[1]) else '-'}"

    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    with chat_server(reply) as server:
        yield server


@pytest.mark.parametrize("source", ["expert", "chat"])
def test_guided_successes_join_their_group_without_the_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, teacher: ChatServer, source: str
):
    from agentgym.trainers.api import make_trainer

    class Follower:
        """Takes the hinted action, and else a wrong one, so that only retries succeed."""

        def __init__(self, policy: Policy):
            self.policy = policy

        def __call__(self, requests: Sequence[Any], sampling: Sampling, cache: Any = None) -> list:
            found = []
            for request in requests:
                text = self.policy.decode(request.prompt)
                sign = text.rpartition("Hint: ")[2].strip()[:1] if "Hint: " in text else "x"
                tokens = np.array(self.policy.encode_action(sign), np.int32)
                found.append(Sample(tokens, np.full(len(tokens), -9, np.float32), None, sign, True))
            return found

    trainer = make_trainer(
        "agent_rlvr", env_id="NumberLine-v0", env_kwargs={"size": 6, "max_turns": 8}, model="nano",
        context="current", instructions=False, group_size=2, episodes_per_iteration=4, retries=1,
        hint=f"chat:teacher@{teacher.url}" if source == "chat" else source, hinted_turns=8,
        eval_episodes=0, iterations=1, device="cpu", quiet=True, log_with=(),
        run_dir=str(tmp_path / "run"),
    )  # fmt: skip
    hooks = agent_rlvr.Guidance(trainer, trainer.config)  # type: ignore[arg-type]
    monkeypatch.setattr(trainer.policy, "act", Follower(trainer.policy))
    fresh = trainer.rollouts.collect(0)
    assert not any(t.success for t in fresh)
    mixed = hooks.on_rollout_end(fresh, 0, np.random.default_rng(0)).trajectories
    new = mixed[len(fresh) :]
    assert {t.group for t in new} == {t.group for t in fresh} and all(t.success for t in new)
    for each in new:
        assert not any("Hint" in turn.observation for turn in each.turns)
        assert "Hint" not in trainer.policy.decode(each.segments[0].tokens)
    assert hooks.metrics["guided_success"] == 1
    asked = len(teacher.requests)  # tasks with the same text are asked about once
    assert 1 <= asked <= len({t.task for t in fresh}) if source == "chat" else not asked
    assert trainer.rollouts.turns == sum(len(t.turns) for t in mixed)  # replays are not new
    trainer.log.close()
    trainer.folder.close()


def test_information_is_read_before_every_prompt_and_fits_the_context():
    policy = tiny_policy("NumberLine-v0", seed=0, size="nano", env_kwargs={"size": 6})
    before = trajectory([1, 2], [0, 1], padding=3)
    after = sweet_rl.with_information(before, "go right", policy)
    tokens = policy.encode("go right\n")
    assert after.segments[0].tokens.tolist() == [*tokens, *before.segments[0].tokens]
    for old, new in zip(before.turns, after.turns, strict=True):
        assert (new.start - old.start, new.stop - old.stop) == (len(tokens), len(tokens))
    policy.max_length = len(before.segments[0].tokens) + 1
    cut = sweet_rl.with_information(before, "go right", policy)
    assert cut.segments[0].tokens.tolist() == [tokens[0], *before.segments[0].tokens]


@pytest.mark.slow
def test_the_first_advantages_of_sweet_rl_follow_the_preferences(tmp_path: Path):
    sizes = {"env_kwargs": {"size": 6, "max_turns": 8}}
    rows = train_quickly("sweet_rl", tmp_path, iterations=3, model_lr=1e-3, **sizes)
    played = [row for row in rows if "credit/pairs" in row]
    assert played[0]["credit/pairs"] > 0
    assert played[0]["credit/preference_accuracy"] == 0  # the model is still the reference
    assert played[0]["credit/advantage_std"] > 0  # one step later it is not
    assert played[-1]["credit/preference_accuracy"] > 0.5
