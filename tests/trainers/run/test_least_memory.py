"""The memory that a run needs at least: equal to that of the loaded model, and shares of a GPU."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from agentgym.errors import ConfigError
from agentgym.trainers.cli import shared_card
from agentgym.trainers.cli.flags import parse_flags
from agentgym.trainers.cli.shared_card import share_card
from agentgym.trainers.policy.lora import LoraSettings
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.tiny import SIZES
from agentgym.trainers.recipes import grpo
from agentgym.trainers.run import least_memory
from agentgym.trainers.run.least_memory import check_fits, need_of
from agentgym.trainers.system import gpu_memory
from agentgym.trainers.system.gpu_memory import ALLOCATOR, CONTEXT, Card, free_bytes
from agentgym.trainers.update.memory import optimizer_bytes

GIB = 1 << 30
ON_GPU: Any = SimpleNamespace(device=torch.device("cuda"), is_fsdp2=False)


@pytest.fixture
def base(make_policy: Any, tmp_path: Path) -> str:
    """A model that counts as loaded, not as new."""
    make_policy().save(tmp_path / "base")
    return str(tmp_path / "base")


def bytes_of(policy: Policy) -> int:
    return sum(p.numel() * p.element_size() for p in policy.parameters())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rank", [0, 4])
def test_weights_and_optimiser_are_those_of_the_loaded_model(base: str, dtype: Any, rank: int):
    lora = LoraSettings(rank) if rank else None
    policy = Policy.load(base, lora=lora, dtype=dtype)
    need = need_of(grpo.Config.of(model=base, dtype=dtype, lora_rank=rank, kl_coef=0.1))
    assert need.weights == bytes_of(policy) and need.optimizer == optimizer_bytes(policy)
    assert need.reference == (0 if rank else need.weights) and need.passes > 0
    assert need_of(grpo.Config.of(model=base, kl_coef=0.0)).reference == 0


def test_a_saved_adapter_is_counted_with_its_base(base: str, tmp_path: Path):
    adapted = Policy.load(base, lora=LoraSettings(4))
    adapted.save(tmp_path / "adapter")
    need = need_of(grpo.Config.of(model=str(tmp_path / "adapter"), dtype="float32"))
    assert (need.weights, need.optimizer) == (bytes_of(adapted), optimizer_bytes(adapted))


def test_a_new_model_is_counted_with_its_largest_vocabulary(make_policy: Any):
    need, size = need_of(grpo.Config.of(model="nano")), SIZES["nano"]
    layer = 4 * size.hidden**2 + 3 * size.hidden * size.intermediate + 2 * size.hidden
    count = size.vocabulary * size.hidden + size.layers * layer + size.hidden
    assert need.weights == 4 * count and need.optimizer == 12 * count


@pytest.mark.parametrize("wrong", ["no-such-folder/", "."])
def test_a_configuration_that_cannot_be_opened_is_named(wrong: str, tmp_path: Path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ConfigError, match="Cannot open the configuration of model"):
        need_of(grpo.Config.of(model=str(tmp_path / wrong)))


def test_a_run_that_does_not_fit_says_what_would(base: str, monkeypatch: pytest.MonkeyPatch):
    words = ["--model", base, "--dtype", "float32"]
    config = parse_flags(grpo.Config, "grpo", [*words, "--no-gradient-checkpointing"])
    need = need_of(config).total
    monkeypatch.setattr(least_memory, "free_bytes", lambda device: need - 1)
    with pytest.raises(ConfigError, match=r"GPU memory are needed \(weights .* are free") as no:
        check_fits(ON_GPU, config)
    advice = str(no.value).partition("It would fit with ")[2].partition(" (")[0]
    assert advice == "--gradient-checkpointing"
    smaller = parse_flags(grpo.Config, "grpo", [*words, advice])
    assert need_of(smaller).total < need
    check_fits(ON_GPU, smaller)
    monkeypatch.setattr(least_memory, "free_bytes", lambda device: 1000)
    for hopeless in (config, grpo.Config.of(model="nano")):
        with pytest.raises(ConfigError, match="smaller model, or a GPU with more free memory"):
            check_fits(ON_GPU, hopeless)
    check_fits(SimpleNamespace(device=torch.device("cpu"), is_fsdp2=False), config)  # type: ignore


def test_advice_adds_settings_until_a_run_fits(make_policy: Any, tmp_path: Path):
    base = str(tmp_path / "base")  # wide enough for an adapter to save memory
    make_policy(hidden_size=128, intermediate_size=512).save(base)
    config = grpo.Config.of(model=base, dtype="float32", gradient_checkpointing=False)
    steps = list(least_memory._smaller(config))
    sizes = [need_of(config).total, *(need.total for _, need in steps)]
    assert sizes == sorted(set(sizes), reverse=True)
    flags = "--gradient-checkpointing --lora-rank 16 --dtype bfloat16"
    assert steps[-1][0] == flags
    assert least_memory.remedy(config, sizes[-1]).startswith(f"It would fit with {flags} (")


def test_free_memory_is_that_of_the_card_and_of_the_share(monkeypatch: pytest.MonkeyPatch):
    def card(free: int, share: float) -> int:
        answers = {
            "mem_get_info": (free, 100), "memory_reserved": 20, "memory_allocated": 5,
            "get_per_process_memory_fraction": share,
        }  # fmt: skip
        for name, value in answers.items():
            monkeypatch.setattr(torch.cuda, name, lambda device, value=value: value)
        return free_bytes(torch.device("cuda"))

    assert card(50, 1.0) == 50 + 15  # unused blocks of PyTorch are free, too
    assert card(50, 0.5) == 50 - 5
    assert card(80, 1.0) == 100 - 5


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Card:
    """A GPU with 16 GiB, 12 of them free."""
    found = Card("Test GPU", 12 * GIB, 16 * GIB)
    monkeypatch.setattr(shared_card, "find_card", lambda: found)
    return found


def test_runs_share_the_memory_beside_their_contexts(card: Card, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(ALLOCATOR, "expandable_segments:True")
    config = grpo.Config.of(model="nano", device="auto")
    variables = share_card(4, {str(i): config for i in range(6)})
    share = (3 * GIB - CONTEXT) / (16 * GIB)
    assert variables == {
        ALLOCATOR: f"expandable_segments:True,per_process_memory_fraction:{share:.4f}"
    }
    assert share_card(4, {"a": config}) == {}  # alone
    on_cpu = grpo.Config.of(model="nano", device="cpu")
    assert share_card(4, {str(i): on_cpu for i in range(6)}) == {}
    monkeypatch.delenv(ALLOCATOR)
    halves = card.variables(2, os.environ)[ALLOCATOR]
    assert halves == f"per_process_memory_fraction:{5 / 16:.4f}"


def test_runs_that_do_not_fit_together_are_told_how_many_do(
    card: Card, base: str, monkeypatch: pytest.MonkeyPatch
):
    config = grpo.Config.of(model=base, dtype="float32", device="auto")
    need = need_of(config)
    monkeypatch.setattr(gpu_memory, "CONTEXT", 0)
    small = Card("Test GPU", 3 * need.total + 1, 4 * need.total)
    monkeypatch.setattr(shared_card, "find_card", lambda: small)
    runs = {f"grpo/seed-{seed}": config for seed in range(8)}
    with pytest.raises(ConfigError, match=r"grpo/seed-0 needs .* 8 runs .* Test GPU") as refused:
        share_card(8, runs)
    assert str(refused.value).endswith("Use --jobs 3.")
    assert share_card(3, runs)
    tight = Card("Test GPU", need.total - 1, 4 * need.total)
    monkeypatch.setattr(shared_card, "find_card", lambda: tight)
    with pytest.raises(ConfigError, match=r"It would fit with --"):
        share_card(1, runs)


def test_a_card_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch):
    config = grpo.Config.of(model="nano")

    def fails(command: Any, **_: Any) -> Any:
        raise subprocess.CalledProcessError(1, command, stderr="...\nAcceleratorError: busy\n")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(gpu_memory.subprocess, "run", fails)
    with pytest.raises(ConfigError, match=r"not answer \(AcceleratorError: busy\)\. Free it"):
        share_card(2, dict.fromkeys("ab", config))
