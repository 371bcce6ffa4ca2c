"""Policies that pretend to run out of memory on a CPU.

As a program, updates a policy in several processes, of which the last is short of memory, and saves
the weights: `short_of_memory.py FOLDER`.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor

from agentgym.trainers.critics.heads import TokenValueHead
from agentgym.trainers.data.batch import Batch, Credit
from agentgym.trainers.data.trajectory import Segment, Trajectory
from agentgym.trainers.imitation.behaviour_cloning import fit_demonstrations
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.recipes import poad
from agentgym.trainers.run.setup import build_updater
from agentgym.trainers.update.optimizer import AdamW
from agentgym.trainers.update.updater import Updater

from .worlds import trajectory


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


def updater_of(policy: Policy, **settings: Any) -> Updater:
    head = TokenValueHead(policy.hidden_size, (8,), generator=torch.Generator().manual_seed(0))
    options = {"epochs": 1, "minibatches": 2, "max_new_tokens": 6, **settings}
    return build_updater(Accelerator(cpu=True), poad.Config.of(**options), policy, head, None)


def learn(updater: Updater, batch: Batch, reuse: bool = False) -> tuple[Any, dict[str, Tensor]]:
    """Returns the forward pass and the parameters after an update."""
    forward = updater.evaluate_actions(batch, reference=False, reuse=reuse)
    assert forward.values is not None and forward.values.tokens is not None
    credit = np.linspace(-1, 1, batch.num_tokens, dtype=np.float32)
    updater.update(batch, Credit(credit, forward.values.tokens + 1), forward, 0)
    return forward, {name: p.detach().clone() for name, p in updater.module.named_parameters()}


def clone(updater: Updater, trajectories: list[Trajectory], **settings: Any) -> None:
    """Takes steps of behaviour cloning, each of all trajectories."""
    parameters = [p for p in updater.policy.parameters() if p.requires_grad]
    fit_demonstrations(
        updater.accelerator, updater.learner, AdamW(parameters, lr=1e-3), trajectories, lr=1e-3,
        epochs=2, batch_tokens=300, lm_coef=0.1, max_grad_norm=1.0,
        rngs=np.random.default_rng, on_epoch=lambda *_: None, **settings,
    )  # fmt: skip


def main(folder: Path) -> None:
    policy = tiny_policy("NumberLine-v0", seed=0, size="nano")
    rng, size = np.random.default_rng(0), len(policy.tokenizer)
    played = [trajectory([n % 4 + 1], [1.0], padding=n, seed=n) for n in (30, 3, 12, 21, 17, 26)]
    for each in played:
        each.segments = [
            Segment(rng.integers(2, size, len(s.tokens), np.int32)) for s in each.segments
        ]
    updater = updater_of(policy, microbatch_tokens=300)
    rank, world = updater.accelerator.process_index, updater.accelerator.num_processes
    if world > 1 and rank == world - 1:
        limit_memory(policy, 80, 60)
    warnings.simplefilter("ignore")
    clone(updater, 3 * played)  # the first pass of all fails
    learn(updater, Batch.of(played))
    result = {"tokens": updater.microbatch_tokens, "weights": policy.state_dict()}
    torch.save(result, folder / f"{rank}-of-{world}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
