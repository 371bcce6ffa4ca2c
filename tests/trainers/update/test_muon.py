"""Muon for hidden matrices, beside AdamW for the rest, in one optimiser."""

from __future__ import annotations

import copy
import io
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from agentgym.trainers.api import make_trainer
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.update.optimizer import AdamW, hidden_matrices

GRADIENTS = (
    torch.tensor([[1.0, 2.0, 0.0], [0.0, -1.0, 3.0]]),
    torch.tensor([[0.0, 1.0, 1.0], [2.0, 0.0, -1.0]]),
)


def optimiser(matrix: nn.Parameter, rest: nn.Parameter, **options: Any) -> AdamW:
    """An optimiser of a hidden matrix and another parameter."""
    settings: dict[str, Any] = {"lr": 0.1, "weight_decay": 0.1} | options
    return AdamW([{"params": [rest, matrix], "hidden": [1]}], **settings)


def take(optimizer: AdamW, steps: range) -> None:
    """Takes steps with gradients that depend on their number."""
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        for parameter in optimizer.param_groups[0]["params"]:
            gradient = torch.randn(parameter.shape, generator=generator)
            parameter.grad = gradient.to(parameter.dtype).float()
        optimizer.step()
        optimizer.zero_grad()


def test_golden_steps_of_a_matrix_and_those_of_adamw_for_the_rest():
    matrix, rest, alone = (nn.Parameter(torch.ones(2, 3)) for _ in range(3))
    both, adam = optimiser(matrix, rest), torch.optim.AdamW([alone], lr=0.1, weight_decay=0.1)
    for gradient in GRADIENTS:
        matrix.grad, rest.grad, alone.grad = (gradient.clone() for _ in range(3))
        both.step()
        adam.step()
    expected = torch.tensor([[0.96391, 0.92471, 0.96403], [0.94358, 1.00285, 0.94002]])
    assert torch.allclose(matrix, expected, atol=1e-4)
    assert torch.equal(rest, alone)
    assert set(both.state[matrix]) == {"momentum_buffer", "step"}


def test_the_step_has_the_size_of_one_of_adamw_whatever_that_of_the_gradient():
    moved = []
    for scale in (1e-4, 1.0):
        matrix = nn.Parameter(torch.zeros(64, 32))
        optimizer = optimiser(matrix, nn.Parameter(torch.zeros(1)), weight_decay=0.0)
        matrix.grad = scale * torch.randn(64, 32, generator=torch.Generator().manual_seed(0))
        optimizer.step()
        moved.append(matrix.detach().clone())
    assert torch.allclose(*moved, atol=5e-3)  # computed in bfloat16
    assert torch.cosine_similarity(*(m.flatten() for m in moved), dim=0) > 0.999
    assert float(moved[1].square().mean().sqrt()) == pytest.approx(0.1 * 0.2, rel=0.3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_resumed_optimiser_continues_exactly(dtype: torch.dtype):
    def fresh() -> tuple[nn.Parameter, nn.Parameter]:
        generator = torch.Generator().manual_seed(7)
        return (
            nn.Parameter(torch.randn(8, 5, generator=generator).to(dtype)),
            nn.Parameter(torch.randn(5, generator=generator).to(dtype)),
        )

    one = fresh()
    whole = optimiser(*one, lr=1e-3)
    take(whole, range(3))
    saved = io.BytesIO()
    torch.save(copy.deepcopy((whole.state_dict(), [p.detach() for p in one])), saved)
    take(whole, range(3, 6))
    saved.seek(0)
    state, weights = torch.load(saved, weights_only=True)
    other = tuple(nn.Parameter(weight.clone()) for weight in weights)
    resumed = optimiser(*other, lr=1e-3)
    resumed.load_state_dict(state)
    take(resumed, range(3, 6))
    assert all(torch.equal(p, q) for p, q in zip(one, other, strict=True))
    if dtype == torch.bfloat16:
        master = whole.state[one[0]]["master"]
        assert torch.equal(one[0], master.to(dtype)) and not torch.equal(one[0].float(), master)


def test_a_matrix_without_a_gradient_keeps_its_place():
    matrix, rest = nn.Parameter(torch.ones(2, 3)), nn.Parameter(torch.ones(3))
    optimizer = optimiser(matrix, rest)
    rest.grad = torch.ones(3)
    optimizer.step()
    assert torch.equal(matrix, torch.ones(2, 3)) and not torch.equal(rest, torch.ones(3))


def test_hidden_matrices_are_those_of_the_blocks():
    policy = tiny_policy("NumberLine-v0", seed=0, size="nano", env_kwargs={"size": 6})
    named = list(policy.named_parameters())
    found = {named[i][0] for i in hidden_matrices(policy, [p for _, p in named])}
    assert found and all(".layers." in name and name.endswith("weight") for name in found)
    assert {n for n, p in named if p.ndim == 2} - found == {
        n for n, _ in named if "embed" in n or "lm_head" in n
    }


def test_a_run_learns_with_it_and_resumes_bit_for_bit(tmp_path: Path):
    few: dict[str, Any] = {
        "env_id": "NumberLine-v0", "env_kwargs": {"size": 6, "max_turns": 8}, "model": "nano",
        "context": "current", "instructions": False, "constrain": True, "eval_episodes": 0,
        "episodes_per_iteration": 16, "device": "cpu", "threads": 1, "quiet": True,
        "log_with": (), "transcripts": 0, "optimizer": "muon", "save_every": 1,
    }  # fmt: skip
    whole = make_trainer("turn", **few, iterations=2, run_dir=str(tmp_path / "whole"))
    whole.run()
    make_trainer("turn", **few, iterations=1, run_dir=str(tmp_path / "parts")).run()
    rest = make_trainer("turn", **few, iterations=2, run_dir=str(tmp_path / "parts"), resume=True)
    rest.run()
    pairs = zip(whole.policy.parameters(), rest.policy.parameters(), strict=True)
    assert all(torch.equal(p, q) for p, q in pairs)
    group = whole.updater.optimizer.param_groups[0]
    assert len(group["hidden"]) > 5
