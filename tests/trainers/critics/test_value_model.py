from __future__ import annotations

import copy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.trainers.credit import two_clock
from agentgym.trainers.critics.heads import (
    ActionValueHead,
    TokenValueHead,
    TurnValueHead,
    ValueHead,
)
from agentgym.trainers.critics.two_hot import BINS
from agentgym.trainers.critics.value_model import ValueModel, action_model, own_critic
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.policy_agent.agent import make_context
from agentgym.trainers.recipes import ilql
from agentgym.trainers.rollout.collector import collect
from agentgym.trainers.rollout.context import ContextSettings
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.settings import CriticConfig
from agentgym.trainers.update.rows import Rows

from ..recipes.test_recipes import train, train_quickly, whole_and_resumed

OWN: dict[str, Any] = {"critic_backbone": "separate", "critic_episodes": 8, "critic_lr": 3e-4}


@pytest.fixture(scope="module")
def policy() -> Policy:
    return tiny_policy("NumberLine-v0", seed=0, size="nano")


def critic_of(policy: Policy, kind: type[ValueHead], **settings: Any) -> ValueModel:
    return ValueModel(policy, kind(policy.hidden_size, (16,)), **settings)


@pytest.fixture(scope="module")
def batch(policy: Policy) -> Batch:
    """Episodes of the policy."""
    context = make_context(policy, ContextSettings("current", max_tokens=64))
    episodes = [EpisodeSpec(f"train/{i}", i, (i,)) for i in range(12)]
    make = partial(NumberLine, size=4, max_turns=3)
    with EnvPool(make, 12) as pool:
        return Batch.of(collect(policy, pool, episodes, context, Sampling(max_new_tokens=4)))


@pytest.mark.parametrize(
    "kind",
    [
        TurnValueHead,
        pytest.param(TokenValueHead, marks=pytest.mark.slow),
        pytest.param(ActionValueHead, marks=pytest.mark.slow),
    ],
)
def test_it_fits_values_and_leaves_the_policy_alone(
    policy: Policy, batch: Batch, kind: type[ValueHead]
):
    critic = critic_of(policy, kind, lr=3e-3, epochs=15, batch_tokens=256)
    before = {name: weight.clone() for name, weight in policy.state_dict().items()}
    kinds = {name: n for n, name in enumerate(sorted({t.observation for t in batch.turns}))}
    of_turn = np.array([kinds[t.observation] / len(kinds) for t in batch.turns], np.float32)
    targets = of_turn[batch.token_turn] if kind is TokenValueHead else of_turn
    losses = critic.fit(batch, targets, np.random.default_rng(2))
    assert losses[-1] < 0.5 * losses[0]
    assert np.square(critic.predict(batch) - targets).mean() < 0.6 * np.var(targets)
    assert all(torch.equal(weight, before[name]) for name, weight in policy.state_dict().items())


def test_it_forgets_rounds_and_a_checkpoint_keeps_them(policy: Policy, batch: Batch):
    rng = np.random.default_rng
    targets = np.ones(batch.num_turns, np.float32)
    critic = critic_of(policy, TurnValueHead, lr=1e-3, rounds=2)
    for number in range(3):
        critic.fit(batch, number * targets, rng(number))
    other = critic_of(policy, TurnValueHead, lr=1e-3, rounds=2)
    other.restore(copy.deepcopy(critic.states()))
    assert [targets[0] for _, targets in other._earlier] == [2]
    assert critic.fit(batch, targets, rng(3)) == other.fit(batch, targets, rng(3))
    assert np.array_equal(critic.evaluate(batch).turns, other.evaluate(batch).turns)


def test_values_of_states_are_those_at_first_tokens_and_of_actions_after_the_last(
    policy: Policy, batch: Batch
):
    tokens = critic_of(policy, TokenValueHead, lr=1e-3)
    turns, actions = (critic_of(policy, k, lr=1e-3) for k in (TurnValueHead, ActionValueHead))
    for other in (turns, actions):
        other.head.load_state_dict(tokens.head.state_dict())
    values, found = tokens.evaluate(batch), turns.evaluate(batch)
    np.testing.assert_allclose(found.turns, values.turns, atol=1e-6)
    np.testing.assert_allclose(found.bootstrap, values.bootstrap, atol=1e-6)
    cut = np.flatnonzero(~batch.terminated)
    assert len(cut) and found.bootstrap[cut].all()
    span = batch.trajectories[0].turns[0]
    read = batch.trajectories[0].segments[span.segment].tokens[: span.stop].astype(np.int64)
    state = policy.model.model(input_ids=torch.from_numpy(read)[None])[0][0, -1]
    expected = float(actions.head(state).detach())
    assert actions.predict(batch)[0] == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
def test_normalised_values_keep_their_size_and_reach_large_targets(policy: Policy, batch: Batch):
    critic = critic_of(policy, TurnValueHead, lr=3e-3, epochs=10, batch_tokens=256, normalize=True)
    left = batch.turn_offsets[1:][batch.turn_trajectory] - np.arange(batch.num_turns)
    targets = (-100.0 * left).astype(np.float32)
    before = critic.predict(batch)
    critic._rescale([(batch, targets)])
    assert float(critic.mean) == pytest.approx(targets.mean(), rel=1e-5)
    np.testing.assert_allclose(critic.predict(batch), before, atol=1e-3)
    critic.fit(batch, targets, np.random.default_rng(0))
    assert np.square(critic.predict(batch) - targets).mean() < 0.8 * np.var(targets)
    other = critic_of(policy, TurnValueHead, lr=3e-3, batch_tokens=256, normalize=True)
    other.restore(copy.deepcopy(critic.states()))
    assert np.array_equal(other.predict(batch), critic.predict(batch))


def test_a_prompt_without_an_action_makes_no_step(policy: Policy, batch: Batch, monkeypatch):
    critic, sizes = critic_of(policy, TurnValueHead, lr=1e-3, batch_tokens=8), []

    def step() -> None:
        sizes.append(
            max(float(p.grad.abs().max()) for p in critic.parameters() if p.grad is not None)
        )

    monkeypatch.setattr(critic.optimizer, "step", step)
    assert not batch.terminated.all()
    critic.fit(batch, np.ones(batch.num_turns), np.random.default_rng(0))
    assert len(sizes) == 2 * batch.num_turns and min(sizes) > 0


def test_a_model_of_actions_keeps_no_episodes(policy: Policy, batch: Batch):
    model = action_model(policy, seed=0)
    model.fit(batch, np.zeros(batch.num_turns, np.float32), np.random.default_rng(0))
    assert model.states()["rounds"] == []


@pytest.mark.slow
def test_before_rl_it_is_fitted_to_the_targets_of_the_recipe(policy: Policy, batch: Batch):
    critic = critic_of(policy, TokenValueHead, lr=3e-3, epochs=8, batch_tokens=256)
    credit = two_clock.poad(1.0, 1.0)

    def error() -> float:
        values = critic.evaluate(batch)
        targets = credit(batch, values).targets
        assert targets is not None and values.tokens is not None
        return float(np.square(targets - values.tokens).mean())

    untrained = error()
    critic.begin(batch, credit, np.random.default_rng(0))
    assert error() < 0.7 * untrained


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["poad", "turn"])
def test_a_run_with_it_learns_and_resumes_as_if_never_stopped(recipe: str, tmp_path: Path):
    run = partial(train_quickly, recipe, **OWN)
    whole, resumed = whole_and_resumed(tmp_path, run, 3, at=1)
    for name in ("rollout/return", "losses/value_loss", "losses/value_correlation"):
        rows = [[row[name] for row in rows if name in row] for rows in (whole, resumed)]
        assert rows[0] == rows[1] and len(rows[0]) == 3
    assert whole[-1]["env_steps"] > sum(row.get("rollout/turns", 0) for row in whole)
    assert not any("rollout/logprob_gap" in row for row in whole)  # no pass of the policy


@pytest.mark.parametrize("kind", [TurnValueHead, TokenValueHead])
def test_a_two_hot_head_fits_values_and_a_checkpoint_keeps_them(
    policy: Policy, batch: Batch, kind: type[ValueHead]
):
    def critic() -> ValueModel:
        head = kind(policy.hidden_size, (16,), bins=BINS)
        return ValueModel(policy, head, lr=3e-3, epochs=15, batch_tokens=256, normalize=True)

    one, other = critic(), critic()
    assert np.abs(one.predict(batch)).max() < 1e-3  # the bins are symmetric
    kinds = {name: n for n, name in enumerate(sorted({t.observation for t in batch.turns}))}
    of_turn = np.array([100.0 * kinds[t.observation] for t in batch.turns], np.float32)
    targets = of_turn[batch.token_turn] if kind is TokenValueHead else of_turn
    losses = one.fit(batch, targets, np.random.default_rng(2))
    assert losses[-1] < 0.8 * losses[0]
    assert np.square(one.predict(batch) - targets).mean() < 0.6 * np.var(targets)
    other.restore(copy.deepcopy(one.states()))
    assert np.array_equal(other.predict(batch), one.predict(batch))


def test_gradients_do_not_underflow_in_float16(policy: Policy, batch: Batch):
    gradients, rows = [], Rows.of(batch, bootstrap=False)
    for half in (False, True):
        critic = critic_of(policy, TurnValueHead, lr=1e-3)
        critic.trunk.autocast = partial(torch.autocast, "cpu", torch.float16, enabled=half)
        targets = torch.linspace(-1, 1, batch.num_turns)
        critic._backward(batch, rows, targets, np.arange(len(rows.rows)))
        found = [p.grad.flatten() for p in critic.parameters() if p.grad is not None]
        gradients.append(torch.cat(found))
    exact, rounded = gradients
    assert ((rounded == 0) & (exact != 0)).float().mean() < 1e-3
    assert (rounded - exact).norm() < 0.05 * exact.norm()


@pytest.mark.slow
@pytest.mark.parametrize(
    "recipe", ["bilevel", "chunk", "glam", "nlpo", "ntpo", "poad", "steppo", "turn", "twosome"]
)
def test_a_two_hot_critic_works_in_recipes_and_resumes(recipe: str, tmp_path: Path):
    run = partial(train_quickly, recipe, **OWN, critic_head="two_hot")
    whole, resumed = whole_and_resumed(tmp_path, run, 2, at=1)
    for name in ("rollout/return", "losses/value_loss"):
        rows = [[row[name] for row in rows if name in row] for rows in (whole, resumed)]
        assert rows[0] == rows[1] and np.isfinite(rows[0]).all()


def test_settings_that_cannot_work_are_refused(tmp_path: Path):
    with pytest.raises(
        ConfigError, match="critic_head belongs to critic_backbone separate: set critic_backbone to"
    ):
        train("poad", tmp_path, critic_head="two_hot")
    with pytest.raises(
        ConfigError, match="grpo has no critic_backbone: it is a setting of recipes with a critic"
    ):
        train("grpo", tmp_path, group_size=4, critic_backbone="separate")
    with pytest.raises(ConfigError, match="critic_episodes belongs to critic_backbone separate"):
        train("poad", tmp_path, critic_episodes=8)
    with pytest.raises(ConfigError, match="critic_backbone to shared, or leave out value_clip"):
        train("poad", tmp_path, critic_backbone="separate", value_clip=0.2)
    with pytest.raises(ConfigError, match="inverse_prm changes them"):
        train("inverse_prm", tmp_path, **OWN)
    for recipe in ("grpo", "spear"):
        with pytest.raises(ConfigError, match=f"{recipe} has no critic_warmup"):
            train(recipe, tmp_path / recipe, group_size=4, critic_warmup=2)


def test_before_rl_long_actions_are_penalised_as_in_the_recipe(tmp_path: Path, monkeypatch):
    rewards: list[float] = []

    def seen(critic: ValueModel, batch: Batch, *args: Any) -> None:
        rewards.extend(batch.rewards - [turn.reward for turn in batch.turns])

    monkeypatch.setattr(ValueModel, "begin", seen)
    few: dict[str, Any] = {"iterations": 0, "kl_coef": 0.1, "kl_in": "reward"}
    train_quickly("poad", tmp_path, **OWN, **few, overlong_margin=8, max_new_tokens=8)
    assert min(rewards) < 0 and max(rewards) <= 0


def test_the_gradient_clip_is_the_one_of_the_settings(policy: Policy, batch: Batch, monkeypatch):
    limits: list[float] = []
    monkeypatch.setattr(
        torch.nn.utils, "clip_grad_norm_", lambda parameters, limit: limits.append(limit)
    )
    settings = CriticConfig(critic_backbone="separate", critic_lr=1e-3)
    head = TurnValueHead(policy.hidden_size, (16,))
    context = make_context(policy, ContextSettings("current"))
    critic = own_critic(policy, head, settings, context, max_grad_norm=0.25)
    critic.fit(batch, np.ones(batch.num_turns), np.random.default_rng(0))
    assert set(limits) == {0.25}


@pytest.mark.parametrize(
    "setting",
    [{"horizons": (2,)}, {"curriculum": "window"}, {"adaptive_groups": True}, {"group_size": 4}],
)
def test_settings_of_rollouts_are_refused_by_offline_recipes(setting: dict[str, Any]):
    with pytest.raises(ConfigError, match=f"ilql has no {next(iter(setting))}"):
        ilql.Config.of(**setting)
