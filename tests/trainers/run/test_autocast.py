"""Under mixed precision, everything that a policy computes is computed as in the update."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, DistributedType, PartialState

from agentgym.errors import ConfigError
from agentgym.trainers.critics.transitions import Encoder, one_turn
from agentgym.trainers.critics.value_model import action_model
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.policy.candidates import sampling_logprobs
from agentgym.trainers.policy.collate import collate
from agentgym.trainers.policy.sampling import Request
from agentgym.trainers.recipes import grpo
from agentgym.trainers.run import setup
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.update.rows import Rows


def settings(folder: Path, **changed: object) -> grpo.Config:
    return grpo.Config.of(
        env_kwargs={"size": 5, "max_turns": 6}, model="nano", episodes_per_iteration=8,
        max_new_tokens=4, eval_episodes=4, device="cpu", threads=1, run_dir=str(folder), **changed,
    )  # fmt: skip


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(
    ("precision", "name"),
    [
        ({}, None),
        ({"mixed_precision": "bf16"}, "bfloat16"),
        ({"mixed_precision": "fp16"}, "float16"),
        ({"dtype": "bfloat16"}, "bfloat16"),
    ],
)
def test_a_run_warns_of_a_precision_that_the_cpu_emulates(
    tmp_path: Path, monkeypatch, capsys, other_precision: None, precision, name, fast
):
    """Matrix products in bfloat16 take 4 to 40 times as long on a CPU with AVX2 only."""
    monkeypatch.setattr(setup, "fast_on_cpu", lambda dtype: fast)
    config = settings(tmp_path, **precision)
    trainer = Trainer("grpo", config, grpo.build(config))
    for part in (trainer.pool, trainer.log, trainer.folder):
        part.close()
    warned = "warning: This CPU has no fast arithmetic in " in (printed := capsys.readouterr().out)
    assert warned == (name is not None and not fast)
    assert not warned or f"arithmetic in {name}:" in printed


def test_a_build_without_onednn_has_no_fast_half_precision(monkeypatch):
    assert {setup.fast_on_cpu(dtype) for dtype in ("bfloat16", "float16")} <= {True, False}
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    monkeypatch.setattr(torch, "ops", None)
    assert not setup.fast_on_cpu("bfloat16") and not setup.fast_on_cpu("float16")


@pytest.fixture
def trainer(tmp_path: Path, other_precision: None):
    config = settings(tmp_path, mixed_precision="bf16", quiet=True)
    trainer = Trainer("grpo", config, grpo.build(config))
    yield trainer
    trainer.pool.close()
    trainer.log.close()
    trainer.folder.close()


def test_actions_and_copies_compute_as_the_update_does(trainer: Trainer):
    policy = trainer.policy
    prompt = np.array(policy.encode("You stand at 2. The goal is at 4."), np.int32)
    requests = [Request(prompt, np.random.default_rng(i)) for i in range(6)]
    samples = trainer.act(requests)
    batch = Batch.of([one_turn(i, prompt, (), sample) for i, sample in enumerate(samples)])
    updated = trainer.updater.evaluate_actions(batch, reference=False).logprobs
    assert updated is not None
    with torch.autocast("cpu", enabled=False):
        plain = np.concatenate([sample.logprobs for sample in samples])
        # Generation reads one token at a time, with other roundings, but in bfloat16 too.
        assert np.abs(plain - updated).max() < 0.05
        collated = collate(batch, Rows.of(batch).rows, policy.pad_token)
        for copied in (policy, policy.clone(), policy.frozen_copy()):
            np.testing.assert_array_equal(copied(collated).logprobs.detach().numpy(), updated)


def test_probabilities_of_admissible_actions_are_those_that_they_are_sampled_with(trainer: Trainer):
    policy, texts = trainer.policy, ("left", "right", "up")
    prompt = np.array(policy.encode("You stand at 2. The goal is at 4."), np.int32)
    sampling = trainer.config.sampling()
    requests = [Request(prompt, np.random.default_rng(i), texts) for i in range(6)]
    for normalization in ("sum", None):
        changed = replace(sampling, normalization=normalization)
        found = sampling_logprobs(policy, [prompt], [texts], changed)[0]
        for sample in policy.act(requests, changed):
            gap = abs(sample.logprobs.sum() - found[texts.index(sample.text)])
            assert gap < 1e-6 if normalization else gap < 0.05
    dtypes = set()
    with torch.no_grad():
        head = policy.model.get_output_embeddings()
        handle = head.register_forward_hook(lambda *args: dtypes.add(args[-1].dtype))
        sampling_logprobs(policy, [prompt], [texts], sampling)
        handle.remove()
    assert dtypes == {torch.bfloat16}


@pytest.mark.slow
def test_agents_and_networks_of_recipes_compute_in_low_precision(trainer: Trainer):
    policy, seen = trainer.policy, []

    def note(_module, _args, output):
        seen.append(output.dtype)

    for module in policy.model.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_hook(note)
    trainer.evaluator.evaluate_if_due()
    trajectories = trainer.rollouts.collect(0)
    batch = Batch.of(trajectories)
    action_model(policy, seed=0).predict(batch)
    assert Encoder(policy).encode(batch).action.dtype == torch.float32
    policy.score_candidates_batch([np.array([5, 6], np.int32)], [["a", "b"]])
    assert len(seen) > 50
    assert set(seen) == {torch.bfloat16}


def test_runs_of_different_precision_follow_one_another_in_a_process(tmp_path: Path):
    def trainer_of(precision: str) -> Trainer:
        config = settings(tmp_path / precision, mixed_precision=precision)
        trainer = Trainer("grpo", config, grpo.build(config))
        for part in (trainer.pool, trainer.log, trainer.folder):
            part.close()
        return trainer

    with pytest.MonkeyPatch.context() as patch:  # that of other tests is kept
        patch.setattr(AcceleratorState, "_shared_state", {})
        patch.setattr(PartialState, "_shared_state", {})
        trainers = {name: trainer_of(name) for name in ("no", "bf16", "fp16")}
        for name, trainer in trainers.items():
            assert trainer.accelerator.mixed_precision == name
            tokens = trainer.policy.encode("at 3")
            with trainer.policy.autocast():
                product = torch.ones(2, 2) @ torch.ones(2, 2)
            found = {"no": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[name]
            assert product.dtype == found and tokens


def test_processes_that_work_together_keep_their_precision(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(AcceleratorState, "_shared_state", {})
    monkeypatch.setattr(PartialState, "_shared_state", {})
    Accelerator(cpu=True)
    monkeypatch.setitem(PartialState._shared_state, "distributed_type", DistributedType.MULTI_CPU)
    config = settings(tmp_path, mixed_precision="bf16")
    with pytest.raises(ConfigError, match="start this run in processes of its own"):
        Trainer("grpo", config, grpo.build(config))
