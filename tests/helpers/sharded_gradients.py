"""Adds up gradients of bfloat16 weights under FSDP2, then lets the last process run out of memory.

`sharded_gradients.py FOLDER` saves the gradients and the error of each process.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator, PartialState
from torch import Tensor

from agentgym.trainers import trainer
from agentgym.trainers.critics.heads import TokenValueHead
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.recipes import poad
from agentgym.trainers.run.setup import build_updater
from agentgym.trainers.update.rows import Rows
from agentgym.trainers.update.sharding import as_whole
from agentgym.trainers.update.shared_gradients import accumulation_of
from agentgym.trainers.update.updater import Updater

from .short_of_memory import limit_memory
from .train_all import shard
from .worlds import trajectory

CONFIG = poad.Config.of(microbatch_tokens=40, device="cpu")


def updater_of(accelerator: Accelerator) -> Updater:
    policy = tiny_policy("NumberLine-v0", seed=0, size="nano").to(torch.bfloat16)
    head = TokenValueHead(policy.hidden_size, (8,), detach=False)
    return build_updater(accelerator, CONFIG, policy, head, None)


def gradients(updater: Updater) -> dict[str, Tensor]:
    """Returns the gradients of 48 equal rows, each in a microbatch of its own."""
    batch = Batch.of([trajectory([3], [1.0], padding=24) for _ in range(48)])
    rows = replace(Rows.of(batch), same=np.arange(48))  # a pass would read them all at once

    accumulation = accumulation_of(updater.accelerator, updater.learner, updater.budget)
    for microbatch in accumulation.microbatches(rows, np.arange(len(rows.rows))):
        with microbatch:
            places = [rows.rows[i] for i in microbatch.rows]
            with microbatch.forward():
                output = updater.trained(*updater._collate(batch, places))
                assert output.values is not None and output.bootstrap is not None
                loss = output.logprobs.float().sum() + output.values.sum() + output.bootstrap.sum()
            microbatch.backward(loss, torch.zeros(1, dtype=torch.float64))
    return {name: as_whole(p.grad) for name, p in updater.trained.named_parameters()}


def main(folder: Path) -> None:
    rank = PartialState(cpu=True).process_index
    shard()
    updater = updater_of(trainer.make_accelerator(CONFIG))
    torch.save(gradients(updater), folder / f"gradients{rank}.pt")
    if rank:
        limit_memory(updater.trained.policy, forward=10_000, backward=1)
    try:
        gradients(updater)
    except RuntimeError as error:
        notes = [f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])]
        (folder / f"error{rank}.txt").write_text("\n".join(notes))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
