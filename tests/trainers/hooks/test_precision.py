"""Models that hooks train beside the policy learn in float16 and bfloat16 too."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from agentgym.registration.making import make_env
from agentgym.trainers.critics.transitions import Encoder, TurnBuffer
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.hooks.preference_model import PreferenceModel
from agentgym.trainers.hooks.utterance_critic import UtteranceHooks
from agentgym.trainers.policy.adapters import add_adapter
from agentgym.trainers.policy.lora import LoraSettings
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.policy_agent.agent import make_context
from agentgym.trainers.recipes import archer, etpo, ilql
from agentgym.trainers.rollout.collector import collect
from agentgym.trainers.rollout.context import ContextSettings
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.update.rows import Rows

Played = tuple[Policy, Batch]


@pytest.fixture(scope="module")
def played() -> Played:
    """A new policy and episodes of it, all of which are cut off."""
    policy = tiny_policy("NumberLine-v0", size="nano")
    context = make_context(policy, ContextSettings("current"))
    episodes = [EpisodeSpec(f"train/{i}", i // 8, (i,)) for i in range(16)]
    with EnvPool(lambda: make_env("NumberLine-v0", size=9, max_turns=2), 16) as pool:
        return policy, Batch.of(collect(policy, pool, episodes, context, Sampling()))


def trainer_of(policy: Policy, config: Any) -> Any:
    return SimpleNamespace(
        config=config,
        policy=policy,
        accelerator=SimpleNamespace(autocast=policy.autocast),
        updater=SimpleNamespace(microbatch_tokens=4096),
    )


def of_preferences(policy: Policy, batch: Batch) -> tuple[Any, nn.Module, Callable[[], Any]]:
    config = archer.Config()
    hooks = PreferenceModel(trainer_of(policy, config), lr=1e-3, beta=0.05)
    pairs = [(i, j) for i in range(16) for j in range(i)]
    share = np.full(batch.num_tokens, 0.005)  # of episodes with 200 turns
    return hooks, hooks.model, lambda: hooks.fit(batch, np.zeros(batch.num_tokens), share, pairs)


def of_etpo(policy: Policy, batch: Batch) -> tuple[Any, nn.Module, Callable[[], Any]]:
    hooks = etpo.SoftBackup(trainer_of(policy, None), etpo.Config.of(q_epochs=1))
    targets = np.zeros(batch.num_tokens, np.float32)
    rescale(hooks.heads, 0.05)
    fit = partial(hooks._fit, batch, targets, targets, np.random.default_rng(0))
    return hooks, hooks.trunk, fit


def of_ilql(policy: Policy, batch: Batch) -> tuple[Any, nn.Module, Callable[[], Any]]:
    config = ilql.Config()
    policy = policy.clone()
    hooks = ilql.ImplicitQ(trainer_of(policy, config), config)
    rows = Rows.of(batch)
    actions = np.zeros(batch.num_tokens, np.int64)
    rescale(hooks.heads, 0.05)
    part = np.arange(len(rows.rows))
    return hooks, policy, partial(hooks._step, batch, rows, part, actions)


def of_archer(policy: Policy, batch: Batch) -> tuple[Any, nn.Module, Callable[[], Any]]:
    hooks = archer_hooks(policy)
    hooks.remember(batch)
    rescale(hooks.critic, 0.01)
    drawn = np.random.default_rng(0).integers(len(hooks.buffer), size=512)
    assert isinstance(hooks.buffer, TurnBuffer)
    drawn = next(hooks._with_targets(hooks._read(hooks.buffer, [drawn], [], [drawn])))
    return hooks, hooks.encoder.policy, partial(hooks._step, *drawn)


def archer_hooks(policy: Policy, **changes: Any) -> UtteranceHooks:
    config = archer.Config.of(**changes)
    return UtteranceHooks(
        trainer_of(policy, config),
        config.utterance,
        config.gamma,
        replay=config.replay,
        trained=True,
    )


def rescale(module: nn.Module, factor: float) -> None:
    """Makes the outputs of MLPs small, as the errors of a critic that has nearly converged."""
    for each in module.modules():
        if isinstance(each, nn.Sequential):
            each[-1].weight.data *= factor  # type: ignore[operator]


def gradient_of(
    make: Callable[[Policy, Batch], tuple[Any, nn.Module, Callable[[], Any]]],
    policy: Policy,
    batch: Batch,
    dtype: torch.dtype | None,
    monkeypatch: pytest.MonkeyPatch,
) -> Tensor:
    """Returns the gradient of a model, before it is clipped."""
    policy = policy.clone()
    policy.autocast = partial(torch.autocast, "cpu", dtype, enabled=dtype is not None)
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", lambda *args: None)
    hooks, model, fit = make(policy, batch)
    found: list[Tensor] = []

    def step(*args: Any) -> None:
        grads = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        found.append(torch.cat(grads))

    hooks.optimizer.step = step
    fit()
    return found[0]


@pytest.mark.parametrize("make", [of_preferences, of_etpo, of_ilql, of_archer])
def test_gradients_do_not_underflow_in_float16(played: Played, make: Any, monkeypatch):
    exact, rounded = (
        gradient_of(make, *played, dtype, monkeypatch) for dtype in (None, torch.float16)
    )
    lost = float(((rounded == 0) & (exact != 0)).float().mean())
    error = float((rounded - exact).norm() / exact.norm())
    assert lost < 1e-3 and error < 0.05


def in_bfloat16(policy: Policy) -> Policy:
    policy = policy.clone()
    policy.model.bfloat16()
    return policy


def test_the_target_network_of_an_encoder_follows_bfloat16_weights(played: Played):
    policy, batch = played
    encoder = Encoder(in_bfloat16(policy), trained=True)
    start = encoder.target.own_weights()["model.model.embed_tokens.weight"].clone()
    for parameter in encoder.policy.parameters():
        parameter.data *= 1.01
    for _ in range(40):
        encoder.update_target(0.1)
    end = encoder.target.own_weights()["model.model.embed_tokens.weight"]
    moved = float((end - start).norm() / start.norm())
    assert 0.008 < moved < 0.012
    slow, fast = encoder.encode(batch, target=True), encoder.encode(batch)
    torch.testing.assert_close(slow.observation, fast.observation, atol=0.2, rtol=0.1)


def test_the_encoder_of_archer_takes_small_steps_in_bfloat16(played: Played):
    policy, batch = played
    hooks = archer_hooks(in_bfloat16(policy), critic_lr=1e-6, critic_steps=20, critic_batch=4)
    hooks.remember(batch)
    before = [p.detach().float().clone() for p in hooks.encoder.policy.parameters()]
    hooks._fit([], np.random.default_rng(0))
    states = [hooks.optimizer.state[p] for p in hooks.encoder.policy.parameters()]
    moved = [
        float((state["master"].detach() - old).abs().max())
        for state, old in zip(states, before, strict=True)
        if "master" in state
    ]
    assert moved and min(moved) > 0


@pytest.mark.parametrize("steps", [3, 12])
def test_target_networks_follow_after_any_number_of_critic_steps(played: Played, steps: int):
    policy, batch = played
    hooks = archer_hooks(policy, critic_steps=steps, critic_batch=4, tau=1.0)
    hooks.remember(batch)
    hooks._fit([], np.random.default_rng(0))
    for slow, fast in zip(
        hooks.critic.target.parameters(), hooks.critic.online.parameters(), strict=True
    ):
        assert torch.equal(slow, fast)


def test_the_target_network_of_an_encoder_leaves_the_base_of_an_adapter_alone(played: Played):
    """The acting policy has the same base in memory."""
    policy, batch = played
    lora = add_adapter(in_bfloat16(policy).model, LoraSettings(2))
    adapted = Policy(lora, policy.tokenizer)
    encoder = Encoder(adapted, trained=True)
    for each in (adapted, encoder.policy):
        assert {p.dtype for p in each.parameters()} == {torch.bfloat16}
    kinds = {("lora_" in name, p.dtype) for name, p in encoder.target.named_parameters()}
    assert kinds == {(True, torch.float32), (False, torch.bfloat16)}
    start = {name: weight.clone() for name, weight in encoder.target.own_weights().items()}
    for weight in encoder.policy.parameters():
        weight.data += weight.requires_grad
    encoder.update_target(1e-3)
    for name, weight in encoder.target.own_weights().items():
        torch.testing.assert_close(weight, start[name] + 1e-3, atol=1e-5, rtol=0)
    assert encoder.encode(batch, target=True).observation.isfinite().all()
