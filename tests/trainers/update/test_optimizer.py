"""Small steps reach weights in low precision, and a resumed optimiser continues exactly."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import nn

from agentgym.trainers import train
from agentgym.trainers.policy.lora import LoraSettings
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.run.logger import read_metrics
from agentgym.trainers.update.optimizer import AdamW

LOW = [torch.bfloat16, torch.float16]


def weights(dtype: torch.dtype, seed: int = 0, shape: tuple[int, ...] = (40, 25)) -> nn.Parameter:
    generator = torch.Generator().manual_seed(seed)
    return nn.Parameter((0.02 * torch.randn(shape, generator=generator)).to(dtype))


def gradient(step: int, shape: torch.Size, scale: float = 1.0) -> torch.Tensor:
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(step))


def take(optimizer: Any, parameter: nn.Parameter, steps: range, scale: float = 1.0) -> None:
    for step in steps:
        parameter.grad = gradient(step, parameter.shape, scale).to(parameter.dtype).float()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("dtype", LOW)
def test_equal_gradients_move_the_masters_by_the_sum_of_the_steps(dtype: torch.dtype):
    p = weights(dtype)
    before = p.detach().float()
    optimizer = AdamW([p], lr=1e-6, eps=1e-8, weight_decay=0.0)
    for _ in range(20):
        p.grad = torch.ones_like(p, dtype=torch.float32)
        optimizer.step()
    master = optimizer.state[p]["master"]
    torch.testing.assert_close(before - master, torch.full_like(before, 20e-6), rtol=5e-3, atol=0)
    assert p.dtype == dtype and torch.equal(p, master.to(dtype))


def test_the_weights_of_a_low_precision_model_follow_after_enough_steps():
    p = weights(torch.bfloat16)
    before = p.detach().float()
    optimizer = AdamW([p], lr=1e-5, weight_decay=0.0)
    for _ in range(100):
        p.grad = torch.ones_like(p, dtype=torch.float32)
        optimizer.step()
    assert (before - p.detach().float()).mean().item() == pytest.approx(1e-3, rel=0.02)


@pytest.mark.parametrize("dtype", LOW)
def test_gradients_of_microbatches_are_summed_in_float32(dtype: torch.dtype):
    p = weights(dtype)
    AdamW([p])
    parts = [gradient(step, p.shape).to(dtype) for step in range(40)]
    for part in parts:
        (p * part).sum().backward()
    assert p.grad is not None
    assert p.grad.dtype == torch.float32
    exact = torch.stack(parts).double().sum(0)
    torch.testing.assert_close(p.grad.double(), exact, rtol=1e-4, atol=1e-5)


@settings(deadline=None, max_examples=20)
@given(st.sampled_from(LOW), st.floats(1e-7, 1e-2), st.floats(0, 0.1), st.integers(1, 6))
def test_masters_are_those_of_adamw_in_float32(
    dtype: torch.dtype, lr: float, decay: float, steps: int
):
    low, full = weights(dtype), weights(dtype)
    full = nn.Parameter(full.detach().float())
    options: Any = {"lr": lr, "weight_decay": decay, "eps": 1e-8}
    mine, theirs = AdamW([low], **options), torch.optim.AdamW([full], **options, fused=True)
    for step in range(steps):
        low.grad = gradient(step, low.shape).to(dtype).float()
        full.grad = low.grad.clone()
        mine.step()
        theirs.step()
    assert torch.equal(mine.state[low]["master"], full)
    assert torch.equal(low, full.to(dtype))


def test_float32_parameters_are_updated_as_by_torch():
    mine, theirs, plain = (weights(torch.float32) for _ in range(3))
    take(AdamW([mine], lr=1e-3), mine, range(5))
    take(torch.optim.AdamW([theirs], lr=1e-3, fused=True), theirs, range(5))
    take(torch.optim.AdamW([plain], lr=1e-3), plain, range(5))
    assert torch.equal(mine, theirs)
    torch.testing.assert_close(mine, plain, atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, *LOW])
def test_a_step_changes_the_version_of_the_weights(dtype: torch.dtype):
    """Engines and caches of prompts, and passes that are kept, tell old weights by it."""
    model = nn.Linear(3, 3, dtype=dtype)
    optimizer = AdamW(model.parameters(), lr=1e-3)
    versions = [[p._version for p in model.parameters()]]
    for _ in range(3):
        model.zero_grad()
        loss = model(model(torch.ones(2, 3, dtype=dtype))).sum()
        loss.backward(retain_graph=True)
        optimizer.step()
        versions.append([p._version for p in model.parameters()])
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
    assert all(len({*each}) == 4 for each in zip(*versions, strict=True))


def test_gradients_may_have_another_layout_than_the_weights():
    start, gradients = torch.randn(5, 7), torch.randn(3, 5, 7)
    mine, theirs = nn.Parameter(start.t().contiguous().t()), nn.Parameter(start.clone())
    assert mine.stride() != theirs.stride()
    for kind, parameter in ((AdamW, mine), (torch.optim.AdamW, theirs)):
        optimizer = kind([parameter], lr=0.1)
        for each in gradients:
            parameter.grad = each.clone()
            optimizer.step()
    torch.testing.assert_close(mine, theirs)


def test_a_step_without_a_gradient_changes_nothing():
    some, none = weights(torch.bfloat16), weights(torch.bfloat16, 1)
    before = none.detach().clone()
    optimizer = AdamW([some, none], lr=1e-3)
    take(optimizer, some, range(2))
    assert torch.equal(none, before) and none not in optimizer.state


@pytest.mark.parametrize("prepared", [False, True])
def test_a_resumed_optimiser_continues_bit_equal(prepared: bool):
    def begin(p: nn.Parameter, state: Any = None) -> Any:
        critic = weights(torch.float32, 7, (3,))
        optimizer: Any = AdamW([{"params": [p]}, {"params": [critic]}], lr=1e-6)
        if state is not None:
            optimizer.load_state_dict(state)
        return Accelerator(cpu=True).prepare(optimizer) if prepared else optimizer

    p = weights(torch.bfloat16)
    optimizer = begin(p)
    take(optimizer, p, range(4))
    file = io.BytesIO()
    torch.save({"optimizer": optimizer.state_dict(), "p": p.detach()}, file)
    take(optimizer, p, range(4, 30))

    file.seek(0)
    saved = torch.load(file, weights_only=True)
    resumed = nn.Parameter(saved["p"])
    again = begin(resumed, saved["optimizer"])
    take(again, resumed, range(4, 30))
    assert torch.equal(resumed, p)
    for name, value in optimizer.state[p].items():
        assert value.dtype == torch.float32 and torch.equal(value, again.state[resumed][name])


def test_the_gradient_clip_sees_the_parameters_that_the_model_has():
    p = weights(torch.bfloat16)
    optimizer = AdamW([p], lr=1e-6)
    take(optimizer, p, range(1))
    p.grad = torch.full_like(p, 3.0, dtype=torch.float32)
    norm = nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)
    assert float(norm) == pytest.approx(3.0 * p.numel() ** 0.5, rel=0.01)
    assert float(p.grad.float().norm()) == pytest.approx(1.0, rel=0.01)


FEW = {
    "env_id": "NumberLine-v0", "env_kwargs": {"size": 6, "max_turns": 8}, "context": "current",
    "instructions": False, "constrain": True, "episodes_per_iteration": 8, "eval_episodes": 0,
    "device": "cpu", "threads": 1, "quiet": True, "group_size": 4,
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("policy")
    tiny_policy("NumberLine-v0", size="nano", episodes=4, folder=path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("lora_rank", [0, 2])
def test_training_in_bfloat16_resumes_bit_equal(folder: Path, tmp_path: Path, lora_rank: int):
    few = FEW | {"model": str(folder), "dtype": "bfloat16", "lora_rank": lora_rank, "lr": 1e-5}
    train("turn", **few, iterations=2, run_dir=str(tmp_path / "whole"))
    train("turn", **few, iterations=1, run_dir=str(tmp_path / "parts"))
    train("turn", **few, iterations=2, run_dir=str(tmp_path / "parts"), resume=True)
    weights = "adapter_model.safetensors" if lora_rank else "model.safetensors"
    for file in (f"policy/{weights}", "optimizer.pt"):
        name = f"checkpoints/000002/{file}"
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()
    saved = torch.load(tmp_path / "whole/checkpoints/000002/optimizer.pt", weights_only=True)
    state = saved["optimizer"]["state"][0]
    assert {value.dtype for value in state.values()} == {torch.float32}
    assert (state["master"] - state["master"].bfloat16().float()).abs().max() > 0


@pytest.mark.parametrize(
    ("dtype", "adapter"),
    [
        (torch.float32, torch.float32),
        (torch.bfloat16, torch.bfloat16),
        (torch.float16, torch.float32),  # in which gradients underflow
    ],
)
def test_an_adapter_has_the_precision_of_its_base(
    folder: Path, tmp_path: Path, dtype: torch.dtype, adapter: torch.dtype
):
    name: Any = str(dtype).removeprefix("torch.")
    policy = Policy.load(folder, lora=LoraSettings(2), dtype=name)
    policy.save(tmp_path / "new")
    again = Policy.load(tmp_path / "new", dtype=name)
    Policy.load(folder, lora=LoraSettings(2)).save(tmp_path / "float32")
    other = Policy.load(tmp_path / "float32", dtype=name)
    for each in (policy, again, other):
        each.freeze_reference()
        for parameter, weights in each.named_parameters():
            wanted = adapter if "lora_" in parameter else dtype
            assert weights.dtype == wanted, parameter
        each.load_reference(tmp_path / "float32")
        assert {p.dtype for p in each.parameters()} == {dtype, adapter}
    assert all(
        torch.equal(a, b) for a, b in zip(policy.parameters(), again.parameters(), strict=True)
    )


@pytest.mark.slow
def test_learning_rates_warm_up_over_iterations(folder: Path, tmp_path: Path):
    settings = FEW | {"model": str(folder), "iterations": 3, "lr": 1e-3, "lr_warmup": 2}
    settings["lr_by_reliability"] = False
    train("turn", **settings, run_dir=str(tmp_path))
    rates = [row["charts/lr"] for row in read_metrics(tmp_path) if "charts/lr" in row]
    assert rates == pytest.approx([5e-4, 1e-3, 1e-3])


def test_new_adapters_follow_the_seed(folder: Path, tmp_path: Path):
    few = FEW | {"model": str(folder), "lora_rank": 2, "iterations": 0}
    made = []
    for i, seed in enumerate((1, 1, 2)):
        train("turn", **few, seed=seed, run_dir=str(tmp_path / str(i)))
        weights = load_file(tmp_path / str(i) / "policy/adapter_model.safetensors")
        made.append({name: each for name, each in weights.items() if "lora_A" in name})
    assert all(torch.equal(made[0][name], made[1][name]) for name in made[0])
    assert not any(torch.equal(made[0][name], made[2][name]) for name in made[0])
