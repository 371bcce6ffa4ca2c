"""Updates within the memory of a device, on a CPU that pretends to run out of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator

from agentgym.trainers.critics.heads import TokenValueHead
from agentgym.trainers.critics.transitions import Encoder
from agentgym.trainers.critics.value_model import ValueModel, action_model
from agentgym.trainers.data.batch import Batch, Credit
from agentgym.trainers.hooks.preference_model import PreferenceModel
from agentgym.trainers.policy.lora import LoraSettings
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Request, Sampling
from agentgym.trainers.recipes import ilql, poad
from agentgym.trainers.run.setup import load_policy
from agentgym.trainers.update import memory
from agentgym.trainers.update.learner import Learner
from agentgym.trainers.update.memory import activation_bytes, fitting_tokens
from agentgym.trainers.update.microbatches import CPU_TOKENS
from agentgym.trainers.update.role_updater import RoleUpdater
from agentgym.trainers.update.rows import Rows

from ...helpers.launch import finish, launch
from ...helpers.short_of_memory import clone, learn, limit_memory, updater_of


@pytest.fixture
def batch(make_policy: Any, as_batch: Any) -> Batch:
    policy, rng = make_policy(), np.random.default_rng(0)
    prompts = [rng.integers(2, 250, size=n).astype(np.int32) for n in (30, 3, 12, 21, 17, 26)]
    requests = [Request(p, np.random.default_rng(i)) for i, p in enumerate(prompts)]
    return as_batch(prompts, policy.act(requests, Sampling(max_new_tokens=6)))


@pytest.mark.parametrize(("forward", "backward"), [(80, 10_000), (10_000, 80)])
def test_out_of_memory_halves_the_microbatches(make_policy, batch, forward, backward):
    expected = learn(updater_of(make_policy()), batch)
    policy = make_policy()
    limit_memory(policy, forward, backward)
    updater = updater_of(policy, microbatch_tokens=300)
    with pytest.warns(RuntimeWarning, match="Out of memory") as caught:
        got = learn(updater, batch)
    assert updater.microbatch_tokens in (37, 75)
    assert len(caught) == {37: 3, 75: 2}[updater.microbatch_tokens]
    np.testing.assert_allclose(got[0].logprobs, expected[0].logprobs, atol=1e-5)
    np.testing.assert_allclose(got[0].values.tokens, expected[0].values.tokens, atol=1e-5)
    torch.testing.assert_close(got[1], expected[1], atol=2e-5, rtol=0)


def test_a_row_that_does_not_fit_is_an_error(make_policy, batch):
    policy = make_policy()
    limit_memory(policy, 10, 10)
    with (
        pytest.warns(RuntimeWarning, match="continuing with 25"),
        pytest.raises(torch.OutOfMemoryError) as caught,
    ):
        learn(updater_of(policy, microbatch_tokens=50), batch)
    assert "the longest context has 36 tokens" in str(caught.value.__notes__)


@pytest.mark.parametrize(("changes", "saved"), [({}, 1), ({"microbatch_tokens": 80}, 0)])
def test_the_first_step_reuses_the_forward_pass(make_policy, batch, changes: Any, saved: int):
    """Values need no pass of their own if the first step is over the whole batch."""
    passes, weights = [], []
    for reuse in (False, True):
        policy = make_policy()
        updater, count = updater_of(policy, epochs=2, minibatches=1, **changes), []
        policy.model.register_forward_hook(lambda *_, count=count: count.append(1))
        weights.append(learn(updater, batch, reuse=reuse)[1])
        passes.append(len(count))
    assert passes[0] - passes[1] == saved
    torch.testing.assert_close(weights[1], weights[0], atol=1e-6, rtol=0)


def test_a_pass_under_other_weights_is_not_reused(make_policy, batch):
    policy, other = make_policy(), make_policy()
    for each, reuse in ((policy, True), (other, False)):
        updater = updater_of(each, epochs=1, minibatches=1)
        forward = updater.evaluate_actions(batch, False, reuse=reuse)
        with torch.no_grad():
            each.model.get_input_embeddings().weight.mul_(1.01)
        assert forward.values is not None
        credit = Credit(np.ones(batch.num_tokens, np.float32), forward.values.tokens)
        updater.update(batch, credit, forward, 0)
    for a, b in zip(policy.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_a_pass_of_the_policy_that_acts_is_not_reused_if_another_is_trained(make_policy, batch):
    """As under FSDP2, in a single process."""
    weights = []
    for reuse in (False, True):
        updater = updater_of(make_policy(), epochs=1, minibatches=1)
        acting = Learner(updater.policy.clone(), deepcopy(updater.trained.critic))
        updater.module = acting
        weights.append(learn(updater, batch, reuse=reuse)[1])
    torch.testing.assert_close(weights[1], weights[0])


def test_a_pass_that_is_kept_leaves_its_memory_to_a_second_attempt(make_policy, batch, monkeypatch):
    policy, reference = make_policy(), Policy.reference_logprobs
    policy.freeze_reference()

    def limited(policy: Policy, collated: Any) -> torch.Tensor:
        if collated.tokens.numel() > 300:
            raise torch.OutOfMemoryError("reference")
        return reference(policy, collated)

    monkeypatch.setattr(Policy, "reference_logprobs", limited)
    updater = updater_of(policy, epochs=1, minibatches=1, microbatch_tokens=600)
    with pytest.warns(RuntimeWarning, match="continuing with 300"):
        updater.evaluate_actions(batch, True, reuse=True)
    assert updater._kept is None


def test_no_pass_is_kept_for_a_role_that_does_not_learn(make_policy, batch):
    for n, trajectory in enumerate(batch.trajectories):
        trajectory.role = "ab"[n % 2]
    parts = {role: updater_of(make_policy(), epochs=1, minibatches=1) for role in "ab"}
    updaters = RoleUpdater(parts, lambda _: "a")
    forward = updaters.evaluate_actions(batch, False, reuse=True)
    assert parts["b"]._kept is not None
    assert forward.values is not None
    credit = Credit(np.ones(batch.num_tokens, np.float32), forward.values.tokens)
    updaters.update(batch, credit, forward, 0)
    assert parts["a"]._kept is parts["b"]._kept is None


# Loops besides the update. Each returns numbers that are the same with any microbatches.


def cloned(policy: Policy, batch: Batch) -> Any:
    updater = updater_of(policy)
    clone(updater, 3 * list(batch.trajectories))
    return dict(policy.named_parameters())


def of_actions(policy: Policy, batch: Batch) -> Any:
    model = action_model(policy, epochs=1, seed=0)
    model.fit(batch, np.arange(batch.num_turns), np.random.default_rng(0))
    return torch.from_numpy(model.predict(batch))


def of_a_critic(policy: Policy, batch: Batch) -> Any:
    head = TokenValueHead(policy.hidden_size, (8,))
    critic = ValueModel(policy, head, lr=1e-3, epochs=1, batch_tokens=300)
    critic.fit(batch, np.ones(batch.num_tokens, np.float32), np.random.default_rng(0))
    return torch.from_numpy(critic.evaluate(batch).turns)


def of_features(policy: Policy, batch: Batch) -> Any:
    return Encoder(policy, 300).encode(batch).action


def trainer_of(policy: Policy) -> Any:
    return SimpleNamespace(
        policy=policy,
        accelerator=SimpleNamespace(autocast=nullcontext),
        updater=SimpleNamespace(microbatch_tokens=300),
        config=ilql.Config(),
    )


def of_preferences(policy: Policy, batch: Batch) -> Any:
    hooks = PreferenceModel(trainer_of(policy), lr=6e-4, beta=0.05)
    ratios = hooks.logprobs(batch).astype(np.float64) - batch.logprobs
    hooks.fit(batch, ratios, np.ones(batch.num_tokens), [(0, 1), (3, 2)])
    return torch.from_numpy(hooks.logprobs(batch))


def of_implicit_q(policy: Policy, batch: Batch) -> Any:
    hooks = ilql.ImplicitQ(trainer_of(policy), ilql.Config())
    spans = [t.segments[0].tokens[t.turns[0].start : t.turns[0].stop] for t in batch.trajectories]
    rows, actions = Rows.of(batch), np.concatenate(spans).astype(np.int64)
    losses = hooks._step(batch, rows, np.arange(len(rows.rows)), actions)
    return [torch.from_numpy(losses), dict(hooks.heads.named_parameters())]


LOOPS = (cloned, of_actions, of_a_critic, of_features, of_preferences, of_implicit_q)


@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
def test_every_loop_halves_its_microbatches(make_policy, batch, loop: Callable[..., Any]):
    expected = loop(make_policy(), batch)
    policy = make_policy()
    limit_memory(policy, 100, 75)
    with pytest.warns(RuntimeWarning, match="Out of memory with"):
        got = loop(policy, batch)
    torch.testing.assert_close(got, expected, atol=2e-5, rtol=1e-4)


def test_microbatches_bound_the_passes_of_behaviour_cloning(make_policy, batch):
    """The steps stay the same."""
    weights, sizes = [], []
    for limit in (None, 80):
        policy, tokens = make_policy(), []
        record = lambda _, args, inputs, to=tokens: to.append(inputs["input_ids"].numel())  # noqa: E731
        policy.model.register_forward_pre_hook(record, with_kwargs=True)
        clone(updater_of(policy), 3 * list(batch.trajectories), microbatch_tokens=limit)
        weights.append(dict(policy.named_parameters()))
        sizes.append(max(tokens))
    assert sizes[1] <= 80 < sizes[0]
    torch.testing.assert_close(weights[1], weights[0], atol=2e-5, rtol=0)


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
def test_processes_halve_together_and_learn_as_one_does(tmp_path: Path):
    for processes in (1, 2):
        program = ["-m", "tests.helpers.short_of_memory", str(tmp_path)]
        finish(launch(program, processes))
    one, *two = (torch.load(tmp_path / name) for name in ("0-of-1.pt", "0-of-2.pt", "1-of-2.pt"))
    assert one["tokens"] == 300
    assert [each["tokens"] for each in two] == [75, 75]
    for each in two:
        torch.testing.assert_close(each["weights"], one["weights"], atol=1e-4, rtol=0)


@pytest.mark.parametrize("checkpointing", [False, True])
def test_microbatches_grow_with_the_free_memory(make_policy, monkeypatch, checkpointing):
    policy = make_policy()
    assert updater_of(policy).microbatch_tokens == CPU_TOKENS
    policy.logits_at_once = 0
    monkeypatch.setattr(Policy, "device", SimpleNamespace(type="cuda"))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 3 << 20)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 1 << 20)
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda device: 1.0)
    found = []
    for free in (1, 2, 3):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device, n=free: (n << 30, 8 << 30))
        found.append(fitting_tokens(policy, policy, False, checkpointing))
    assert found[2] - found[1] == pytest.approx(found[1] - found[0], abs=1)
    needed = activation_bytes(policy.model, False, checkpointing)
    assert found[1] - found[0] == pytest.approx(0.8 * 2**30 / needed, abs=1)
    assert fitting_tokens(policy, policy, True, checkpointing) == pytest.approx(2 * found[2], abs=1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (0, 0))
    assert fitting_tokens(policy, policy, False, checkpointing) == 512


@pytest.mark.parametrize("setting", [True, False])
def test_layers_are_computed_again_only_if_too_few_tokens_fit(make_policy, monkeypatch, setting):
    monkeypatch.setattr(Policy, "device", SimpleNamespace(type="cuda"))
    found = []
    for free in (1 << 60, 1 << 20):
        monkeypatch.setattr(memory, "free_bytes", lambda device, free=free: free)
        policy = make_policy()
        policy.gradient_checkpointing = setting
        updater = updater_of(policy)
        tokens = updater.microbatch_tokens
        assert tokens == updater.microbatch_tokens  # decided once
        used = policy.gradient_checkpointing
        assert tokens == fitting_tokens(policy, updater.trained, False, used)
        found.append(used)
    assert found == [False, setting]


def test_layers_that_do_not_fit_after_all_are_computed_again(make_policy, batch, monkeypatch):
    expected = learn(updater_of(make_policy()), batch)
    policy = make_policy()
    policy.gradient_checkpointing = True
    updater = updater_of(policy)
    with monkeypatch.context() as patch:
        patch.setattr(Policy, "device", SimpleNamespace(type="cuda"))
        patch.setattr(memory, "free_bytes", lambda device: 1 << 40)
        assert updater.microbatch_tokens > 8192 and not policy.gradient_checkpointing

    def limit(*_: Any) -> None:
        if torch.is_grad_enabled() and not policy.gradient_checkpointing:
            raise torch.OutOfMemoryError("layers")

    policy.model.register_forward_pre_hook(limit)
    tokens = updater.microbatch_tokens
    with pytest.warns(RuntimeWarning, match="computes the layers again") as caught:
        got = learn(updater, batch)
    assert len(caught) == 1 and policy.gradient_checkpointing
    assert updater.microbatch_tokens == tokens
    torch.testing.assert_close(got[1], expected[1], atol=1e-6, rtol=0)


# Loading.


def loaded(model: Any, **settings: Any) -> Policy:
    config = poad.Config.of(model=str(model), device="cpu", **settings)
    folder: Any = SimpleNamespace(path=model)
    return load_policy(Accelerator(cpu=True), config, lambda: None, folder, None)  # type: ignore


def test_loaded_models_are_checkpointed(make_policy, tmp_path):
    for kind in ("llama", "mamba"):
        make_policy(kind).save(tmp_path / kind)
    assert loaded(tmp_path / "llama").gradient_checkpointing
    assert not loaded(tmp_path / "llama", gradient_checkpointing=False).gradient_checkpointing
    mamba = loaded(tmp_path / "mamba")
    assert mamba.gradient_checkpointing == mamba.supports_checkpointing
    assert loaded(tmp_path / "llama").clone().gradient_checkpointing


@pytest.mark.parametrize(("precision", "dtype"), [("bf16", torch.bfloat16), ("no", torch.float32)])
def test_a_frozen_base_is_kept_in_the_precision_of_autocast(
    make_policy, tmp_path, precision, dtype
):
    make_policy().save(tmp_path / "base")
    adapted = loaded(tmp_path / "base", lora_rank=2, mixed_precision=precision)
    Policy.load(tmp_path / "base", lora=LoraSettings(2)).save(tmp_path / "adapter")
    for policy in (adapted, loaded(tmp_path / "adapter", mixed_precision=precision)):
        kinds = {(p.requires_grad, p.dtype) for p in policy.parameters()}
        assert kinds == {(False, dtype), (True, dtype)}
    whole = loaded(tmp_path / "base", mixed_precision=precision)
    assert {p.dtype for p in whole.parameters()} == {torch.float32}
