"""Two processes of `accelerate launch` take the same optimiser steps as one with the same data."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from accelerate import Accelerator

from agentgym.trainers.algorithm import Algorithm, PolicyGradient, value_head
from agentgym.trainers.credit import two_clock
from agentgym.trainers.recipes import poad
from agentgym.trainers.run.logger import read_metrics
from agentgym.trainers.trainer import Trainer

from ...helpers.launch import Child, finish

FLAGS = (
    "--env-id NumberLine-v0 --env-kwargs size=5 max_turns=6 --model nano --context current "
    "--no-instructions --constrain --iterations 2 --episodes-per-iteration 12 --minibatches 2 "
    "--eval-episodes 0 --device cpu --threads 1 --bc-demonstrations 6 --bc-epochs 1 --quiet"
).split()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(folder: Path, launcher: list[str]) -> dict[str, torch.Tensor]:
    program = ["agentgym.trainers", "poad", *FLAGS, "--run-dir", str(folder)]
    if launcher:
        command = [sys.executable, "-m", *launcher, *program]
        done = subprocess.run(command, capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, done.stderr[-3000:]
    else:
        finish([Child(["-m", *program])])
    newest = sorted((folder / "checkpoints").iterdir())[-1]
    from safetensors.torch import load_file

    return load_file(newest / "policy" / "model.safetensors")


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
def test_two_processes_learn_as_one_does(tmp_path: Path):
    launcher = (
        "accelerate.commands.launch --cpu --num_processes 2 --num_machines 1 --mixed_precision no "
        f"--dynamo_backend no --num_cpu_threads_per_process 1 --main_process_port {free_port()} -m"
    ).split()
    one, two = run(tmp_path / "one", []), run(tmp_path / "two", launcher)
    assert one.keys() == two.keys()
    for name, weights in one.items():
        # Sums in another order: Adam turns the last bits of a gradient into the last of a step.
        torch.testing.assert_close(two[name], weights, atol=2e-5, rtol=1e-4, msg=name)
    for alone, shared in zip(
        read_metrics(tmp_path / "one"), read_metrics(tmp_path / "two"), strict=True
    ):
        assert alone["rollout/return"] == shared["rollout/return"]
        np.testing.assert_allclose(
            alone["losses/policy_grad_norm"], shared["losses/policy_grad_norm"], rtol=1e-3
        )


@pytest.mark.slow
def test_a_gradient_scaler_changes_no_step(monkeypatch, tmp_path: Path):
    """What fp16 on a GPU does to gradients, on the CPU: scaled in `backward`, unscaled once."""

    def steps(folder: Path, scale: float | None) -> dict[str, torch.Tensor]:
        config = poad.Config.of(
            model="nano", context="current", constrain=True, bc_demonstrations=4, bc_epochs=2,
            iterations=1, episodes_per_iteration=4, eval_episodes=0, quiet=True, device="cpu",
            threads=1, run_dir=str(folder),
        )  # fmt: skip
        if scale is not None:
            make, backward = Accelerator.__init__, Accelerator.backward

            def scaled(self, **kwargs):
                make(self, **kwargs)
                self.scaler = torch.amp.GradScaler("cpu", init_scale=scale)

            def mixed_backward(self, loss):
                self.native_amp = True  # not before: the model itself stays in float32
                backward(self, loss)

            monkeypatch.setattr(Accelerator, "__init__", scaled)
            monkeypatch.setattr(Accelerator, "backward", mixed_backward)
            monkeypatch.setattr(Accelerator, "mixed_precision", "fp16")
            monkeypatch.setattr(Accelerator, "autocast", lambda self: nullcontext())
        trainer = Trainer(
            "test",
            config,
            Algorithm(
                PolicyGradient(two_clock.poad(0.99, 0.95), critic=value_head("tokens", config))
            ),
        )
        trainer.run()
        assert len(trainer.accelerator._optimizers) == 1  # imitation's is gone, and its memory
        return dict(trainer.updater.module.named_parameters())

    plain = steps(tmp_path / "plain", None)
    for name, weights in steps(tmp_path / "scaled", 2.0**12).items():
        torch.testing.assert_close(weights, plain[name])
