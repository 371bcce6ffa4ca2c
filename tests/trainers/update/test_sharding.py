"""FSDP2: what training refuses, with the reason, and gradients of sharded weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType

from agentgym.errors import ConfigError
from agentgym.trainers import trainer
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.recipes import ilql
from agentgym.trainers.run.roles import build_updaters
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.update.learner import Learner
from agentgym.trainers.update.sharding import check_engine, trained_copy
from agentgym.trainers.update.updater import clip_gradients

from ...helpers.launch import finish, launch
from ...helpers.sharded_gradients import gradients, updater_of


def engine(kind: DistributedType, version: int = 0) -> Any:
    """An accelerator that was started with an engine."""
    return SimpleNamespace(
        distributed_type=kind,
        is_fsdp2=version == 2,
        state=SimpleNamespace(fsdp_plugin=SimpleNamespace(mixed_precision_policy="bf16")),
    )


@pytest.mark.parametrize(
    ("kind", "version", "message"),
    [
        (DistributedType.DEEPSPEED, 0, "DEEPSPEED is not supported: use DDP"),
        (DistributedType.MEGATRON_LM, 0, "MEGATRON_LM is not supported"),
        (DistributedType.FSDP, 1, "add --fsdp_version 2"),
    ],
)
def test_an_engine_is_refused(kind: DistributedType, version: int, message: str):
    with pytest.raises(ConfigError, match=message):
        check_engine(engine(kind, version))


@pytest.mark.parametrize(
    ("kind", "version"),
    [(DistributedType.NO, 0), (DistributedType.MULTI_GPU, 0), (DistributedType.FSDP, 2)],
)
def test_an_engine_is_accepted(kind: DistributedType, version: int):
    check_engine(engine(kind, version))


def test_whole_actions_are_sharded_if_one_forward_pass_scores_them(
    make_policy: Callable[..., Policy],
):
    policy = make_policy()
    fsdp, learner = engine(DistributedType.FSDP, 2), Learner(policy, None)
    assert trained_copy(engine(DistributedType.NO), learner, "sum") is learner
    assert trained_copy(fsdp, learner, "sum") is not learner
    assert fsdp.state.fsdp_plugin.mixed_precision_policy is None
    policy.blocks = False
    assert trained_copy(fsdp, learner, None) is not learner
    with pytest.raises(ConfigError, match=r"'sum', LlamaForCausalLM needs .* use DDP"):
        trained_copy(fsdp, learner, "sum")


def test_a_policy_that_hooks_train_cannot_be_sharded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    make = trainer.make_accelerator

    def sharding(*args: Any) -> Any:
        accelerator = make(*args)
        monkeypatch.setattr(type(accelerator), "is_fsdp2", True)
        return accelerator

    monkeypatch.setattr(trainer, "make_accelerator", sharding)
    config = ilql.Config.of(model="nano", device="cpu", quiet=True, run_dir=str(tmp_path / "run"))
    with pytest.raises(ConfigError, match="ilql trains the whole policy in each process"):
        Trainer("ilql", config, ilql.build(config))
    assert not (tmp_path / "run").exists()


def test_sharded_policies_cannot_exchange_their_roles():
    config: Any = SimpleNamespace(game=SimpleNamespace(exchange=2))
    with pytest.raises(ConfigError, match="exchange = 2: set it to 0, or use DDP"):
        build_updaters(engine(DistributedType.FSDP, 2), config, {}, None, None, lambda _: ())


def test_gradients_of_two_sharded_roles_are_clipped(monkeypatch: pytest.MonkeyPatch):
    """Their models have as many parameters. All of them are trained, without a critic."""
    accelerator, limit = Accelerator(cpu=True), 0.5
    models = [torch.nn.Linear(2, 3) for _ in range(2)]
    monkeypatch.setattr(accelerator, "_models", models)
    monkeypatch.setattr(type(accelerator), "distributed_type", DistributedType.FSDP)
    monkeypatch.setattr(type(accelerator), "is_fsdp2", True)
    for model in models:
        model(torch.ones(1, 2)).sum().backward()
        [norm] = clip_gradients(accelerator, torch.optim.SGD(model.parameters()), limit)
        assert norm == pytest.approx(3.0)
        squares = sum(float(p.grad.square().sum()) for p in model.parameters())  # type: ignore
        assert squares**0.5 == pytest.approx(limit)


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of `sharded_gradients` in two processes."""
    folder = tmp_path_factory.mktemp("halves")
    finish(launch(["-m", "tests.helpers.sharded_gradients", str(folder)], 2))
    return folder


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
def test_gradients_of_sharded_halves_are_added_up_in_float32(halves: Path):
    """In bfloat16, a sum of equal terms is off by several percent after a few dozen."""
    whole = gradients(updater_of(Accelerator(cpu=True)))
    for rank in range(2):
        sharded = torch.load(halves / f"gradients{rank}.pt")
        assert sharded.keys() == whole.keys()
        for name, gradient in sharded.items():
            assert gradient.dtype == torch.float32
            scale = float(whole[name].norm())
            torch.testing.assert_close(gradient, whole[name], atol=1e-5 * scale, rtol=0, msg=name)


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
def test_a_sharded_pass_that_runs_out_of_memory_names_the_remedy(halves: Path):
    """The other process waits for gradients of the failed pass until this one ends."""
    waiting, failed = ((halves / f"error{rank}.txt").read_text() for rank in range(2))
    assert failed.startswith("OutOfMemoryError: backward")
    assert "set microbatch_tokens to 20, and continue with --resume" in failed
    assert not waiting.startswith("OutOfMemoryError")
