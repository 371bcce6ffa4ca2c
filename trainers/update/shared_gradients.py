"""Gradients of several processes, each of which has a share of the rows of a minibatch."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor, distributed, nn

from agentgym.trainers.update.microbatches import Accumulation, TokenBudget, fill_gradients
from agentgym.trainers.update.rows import Rows
from agentgym.trainers.update.sharding import is_sharded


def accumulation_of(
    accelerator: Accelerator, learner: nn.Module, budget: TokenBudget
) -> Accumulation:
    """Returns the accumulation of gradients for the processes and the learner of a run."""
    shared = accelerator.num_processes > 1 or is_sharded(learner)
    return (SharedAccumulation if shared else Accumulation)(accelerator, learner, budget)


class SharedAccumulation(Accumulation):
    """The gradient of a minibatch: a sum over the microbatches of all processes.

    If a process runs out of memory, all begin again with smaller microbatches. Under DDP, the
    wrapper is therefore not called, and gradients are exchanged at the end: in a pass, the others
    would wait forever. FSDP2 exchanges weights and gradients of every layer in every pass, which no
    process can leave, so there an error remains an error.

    The arguments are those of `Accumulation`.
    """

    def __init__(self, accelerator: Accelerator, learner: nn.Module, budget: TokenBudget):
        super().__init__(accelerator, learner, budget)
        world = accelerator.num_processes
        self.sharded = is_sharded(learner)
        self.repeatable = not self.sharded or world == 1
        self.scale = world if self.sharded else 1  # FSDP2 averages over processes

    def _pieces(
        self,
        rows: Rows,
        part: NDArray[np.int64],
        together: bool,
        idle: NDArray[np.bool_],
        limit: int,
    ) -> list[tuple[NDArray[np.int64], float]]:
        """Returns the rows of the microbatches of this process and their weights.

        Under FSDP2 all processes need the same number of passes, and each needs gradients to
        exchange. Passes that are added for this have the weight 0.
        """
        rank, world = self.accelerator.process_index, self.accelerator.num_processes
        counts, own = [1], []
        for process in range(world):
            shares = [
                share_of(rows, some, process, world, together)
                for some in (part[~idle[part]], part[idle[part]])
            ]
            pieces = [piece for share in shares for piece in rows.passes(share, limit, together)]
            own = pieces if process == rank else own
            counts.append(len(pieces) if self.sharded else 1)
        added = max(counts) - len(own)
        return [(piece, 1.0) for piece in own] + [(part[:1], 0.0)] * added

    def _finish(self, sums: Tensor, unused: bool) -> None:
        """Adds up gradients and sums over the processes.

        Args:
            sums: the sums of this process.
            unused: whether no process has a gradient.
        """
        world = self.accelerator.num_processes
        trained = [p for p in self.learner.parameters() if p.requires_grad]
        if unused or not self.sharded:
            fill_gradients(trained)
        if not self.sharded:
            _sum_over_processes(trained)
        if world > 1:
            distributed.all_reduce(sums)
        self.sums = sums.cpu().numpy()


def share_of(
    rows: Rows, part: NDArray[np.int64], rank: int, world: int, together: bool = False
) -> NDArray[np.int64]:
    """Returns the share of some rows that a process takes.

    Args:
        rows: all rows.
        part: row indices.
        rank: number of the process.
        world: number of processes.
        together: give the rows of a trajectory to one process.
    """
    if not together:
        return part[rank::world]
    owner = np.array([rows.rows[i][0] for i in part])
    return part[np.isin(owner, np.unique(owner)[rank::world])]


def _sum_over_processes(trained: Iterable[nn.Parameter]) -> None:
    """Replaces gradients by their sums over all processes."""
    works = [distributed.all_reduce(p.grad, async_op=True) for p in trained]
    for work in works:
        assert work is not None
        work.wait()
