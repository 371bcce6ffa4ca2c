"""Gradients of a minibatch, accumulated over microbatches and processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor, distributed, nn

from agentgym.trainers.update.learner import Rows
from agentgym.trainers.update.memory import TokenBudget
from agentgym.trainers.update.sharding import is_sharded

Step = Callable[[NDArray[np.int64]], tuple[Tensor, Tensor]]
"""From the row indices of a microbatch to its loss and to numbers that are summed up."""


def accumulate(
    accelerator: Accelerator,
    learner: nn.Module,
    budget: TokenBudget,
    rows: Rows,
    part: NDArray[np.int64],
    step: Step,
    *,
    together: bool = False,
    idle: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
    """Accumulates the gradient of a minibatch, of which each process computes a share.

    If a process runs out of memory, all begin again with smaller microbatches. Under DDP, the
    wrapper is therefore not called, and gradients are exchanged at the end: in a pass, the others
    would wait forever. FSDP2 exchanges weights and gradients of every layer in every pass, which no
    process can leave, so there an error remains an error.

    Args:
        accelerator: the accelerator.
        learner: the learner, as prepared by accelerate.
        budget: tokens per forward and backward pass.
        rows: all rows.
        part: the row indices of the minibatch.
        step: computes the loss of a microbatch, a term of a sum over the minibatch, with the
            unwrapped learner.
        together: keep the rows of a trajectory in one microbatch.
        idle: bool, one per row: True if the gradient does not depend on the row, which then gets no
            backward pass. If all rows of the minibatch are idle, the gradient is 0. Not supported
            with FSDP2 or a gradient scaler. None: no row is idle.

    Returns:
        The sums of the numbers of `step` over all microbatches and processes.

    Raises:
        torch.OutOfMemoryError: as `TokenBudget.attempt`.
    """
    rank, world = accelerator.process_index, accelerator.num_processes
    sharded = is_sharded(learner)
    idle = np.zeros(len(rows.rows), bool) if idle is None else idle
    kinds = part[~idle[part]], part[idle[part]]

    def microbatches(process: int, limit: int) -> list[NDArray[np.int64]]:
        shares = [rows.share(some, process, world, together) for some in kinds]
        return [each for share in shares for each in rows.microbatches(share, limit, together)]

    def attempt(limit: int) -> Tensor:
        pieces = [microbatches(process, limit) for process in range(world)]
        # Under FSDP2 all processes need the same number of passes. An idle one needs gradients to
        # exchange. The additional passes have the weight 0.
        own, needed = len(pieces[rank]), max(map(len, pieces)) if sharded else 1
        total: Tensor | None = None
        for i, piece in enumerate(pieces[rank] + [part[:1]] * (needed - own)):
            learns = not idle[piece].any()
            with accelerator.autocast(), torch.set_grad_enabled(learns):
                loss, numbers = step(piece)
            if learns:
                # FSDP2 averages over processes.
                accelerator.backward(loss * (float(i < own) * (world if sharded else 1)))
            numbers = numbers * float(i < own)
            total = numbers if total is None else total + numbers
        assert total is not None
        return total

    drop = learner.zero_grad
    sums = budget.attempt(rows, attempt, drop, repeatable=not sharded or world == 1)
    trained = [parameter for parameter in learner.parameters() if parameter.requires_grad]
    if idle[part].all() or (world > 1 and not sharded):
        _fill_gradients(trained)
    if world > 1:
        if not sharded:
            _sum_over_processes(trained)
        distributed.all_reduce(sums)
    return sums.cpu().numpy()


def _fill_gradients(trained: Iterable[nn.Parameter]) -> None:
    """Sets missing gradients to 0: of parameters that are unused in this process."""
    for parameter in trained:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter, dtype=parameter.grad_dtype)


def _sum_over_processes(trained: Iterable[nn.Parameter]) -> None:
    """Replaces gradients by their sums over all processes."""
    works = [distributed.all_reduce(p.grad, async_op=True) for p in trained]
    for work in works:
        assert work is not None
        work.wait()
