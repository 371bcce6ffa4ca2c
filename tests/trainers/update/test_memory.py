"""Updates within the memory of a device, on a CPU that pretends to run out of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from torch import Tensor

from agentgym.trainers.critics.heads import TokenValueHead
from agentgym.trainers.policy.policy import LoraSettings, Policy, Request, Sampling
from agentgym.trainers.recipes import poad
from agentgym.trainers.run.setup import build_updater, load_policy
from agentgym.trainers.trajectory import Batch, Credit
from agentgym.trainers.update.memory import CPU_TOKENS, activation_bytes, fitting_tokens
from agentgym.trainers.update.updater import Updater


class ShortOfMemory(torch.autograd.Function):
    """The identity, which raises in the backward pass above a number of tokens."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, limit: int) -> Tensor:
        ctx.full = states.shape[:2].numel() > limit
        return states.clone()

    @staticmethod
    def backward(ctx: Any, *gradient: Any) -> Any:
        if ctx.full:
            raise torch.OutOfMemoryError("backward")
        return gradient[0], None


def limit_memory(policy: Policy, forward: int, backward: int) -> None:
    """Lets a policy run out of memory above numbers of tokens per pass.

    The backward pass fails at the first layer, when the other layers have their gradients already.
    """

    def before(_: Any, args: Any, inputs: Any) -> None:
        if inputs["input_ids"].numel() > forward:
            raise torch.OutOfMemoryError("forward")

    def after(_: Any, args: Any, output: Tensor) -> Tensor:
        return ShortOfMemory.apply(output, backward)  # type: ignore[no-any-return]

    policy.model.register_forward_pre_hook(before, with_kwargs=True)
    policy.model.get_input_embeddings().register_forward_hook(after)


@pytest.fixture
def batch(make_policy: Any, as_batch: Any) -> Batch:
    policy, rng = make_policy(), np.random.default_rng(0)
    prompts = [rng.integers(2, 250, size=n).astype(np.int32) for n in (30, 3, 12, 21, 17, 26)]
    requests = [Request(p, np.random.default_rng(i)) for i, p in enumerate(prompts)]
    return as_batch(prompts, policy.act(requests, Sampling(max_new_tokens=6)))


def updater_of(policy: Policy, **settings: Any) -> Updater:
    head = TokenValueHead(policy.hidden_size, (8,), generator=torch.Generator().manual_seed(0))
    config = poad.Config.of(epochs=1, minibatches=2, max_new_tokens=6, **settings)
    return build_updater(Accelerator(cpu=True), config, policy, head, None)


def learn(updater: Updater, batch: Batch) -> tuple[Any, dict[str, Tensor]]:
    """Returns the forward pass and the parameters after an update."""
    forward = updater.evaluate_actions(batch, reference=False)
    assert forward.values is not None and forward.values.tokens is not None
    credit = np.linspace(-1, 1, batch.num_tokens, dtype=np.float32)
    rngs = iter([np.random.default_rng(0)])
    updater.update(batch, Credit(credit, forward.values.tokens + 1), forward, 0, rngs)
    return forward, {name: p.detach().clone() for name, p in updater.module.named_parameters()}


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
        pytest.warns(RuntimeWarning, match="microbatch_tokens = 25"),
        pytest.raises(torch.OutOfMemoryError) as caught,
    ):
        learn(updater_of(policy, microbatch_tokens=50), batch)
    assert "the longest context has 36 tokens" in str(caught.value.__notes__)


@pytest.mark.parametrize("checkpointing", [False, True])
def test_microbatches_grow_with_the_free_memory(make_policy, monkeypatch, checkpointing):
    policy = make_policy()
    assert updater_of(policy).microbatch_tokens == CPU_TOKENS
    policy.gradient_checkpointing, policy.logits_at_once = checkpointing, 0
    monkeypatch.setattr(Policy, "device", SimpleNamespace(type="cuda"))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 3 << 20)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 1 << 20)
    found = []
    for free in (1, 2, 3):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device, n=free: (n << 30, 0))
        found.append(fitting_tokens(policy, policy, autocast=False))
    assert found[2] - found[1] == pytest.approx(found[1] - found[0], abs=1)
    needed = activation_bytes(policy.model.config, 4, checkpointing)
    assert found[1] - found[0] == pytest.approx(0.8 * 2**30 / needed, abs=1)
    assert fitting_tokens(policy, policy, autocast=True) == pytest.approx(2 * found[2], abs=1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (0, 0))
    assert fitting_tokens(policy, policy, autocast=False) == 512


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
        assert kinds == {(False, dtype), (True, torch.float32)}
    whole = loaded(tmp_path / "base", mixed_precision=precision)
    assert {p.dtype for p in whole.parameters()} == {torch.float32}
