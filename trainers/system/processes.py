"""Several processes with one result: work shared out, and values and weights of the main process.

Every process runs the same program on the same data. Generation, evaluation and gradients are
shared out. Everything else, such as the models of recipes, is computed in every process, and the
main process's numbers replace those of the others: sums in floating point need not be the same on
two machines, and the processes of a run must never disagree. With a single process, all functions
return their arguments or what they compute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from accelerate.utils import broadcast, broadcast_object_list, gather_object

from agentgym.trainers.system.signals import Interrupted

if TYPE_CHECKING:
    from accelerate import Accelerator, PartialState
    from torch import nn

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_across_processes(
    accelerator: Accelerator | PartialState,
    items: Sequence[Item],
    work: Callable[[Sequence[Item]], list[Result]],
) -> list[Result]:
    """Returns the results of all items, in their order. Each process works on every n-th item.

    Args:
        accelerator: the accelerator, or the state of the processes.
        items: the items, the same ones in all processes.
        work: returns the results of some items.

    Raises:
        Interrupted: in all processes, if a signal interrupted the work of one of them.
    """
    rank, world = accelerator.process_index, accelerator.num_processes
    if world == 1:
        return work(items)
    mine: list[Result] = []
    signal = None
    try:
        mine = work(items[rank::world])
    except Interrupted as interrupted:
        signal = interrupted.args[0]
    parts: list[Any] = gather_object([(signal, mine)])
    for interrupting, _ in parts:
        if interrupting is not None:
            raise Interrupted(interrupting)
    results: list[Any] = [None] * len(items)
    for number, (_, part) in enumerate(parts):
        results[number::world] = part
    return results


def broadcast_value(accelerator: Accelerator, value: Result) -> Result:
    """Returns the value of the main process, in all processes."""
    if accelerator.num_processes == 1:
        return value
    values: list[Any] = broadcast_object_list([value])
    return values[0]


@torch.no_grad()
def broadcast_parameters(accelerator: Accelerator, modules: Iterable[nn.Module]) -> None:
    """Replaces the parameters of modules by those of the main process."""
    if accelerator.num_processes == 1:
        return
    for module in modules:
        for parameter in module.parameters():
            # In place through `copy_`, which caches of hidden states notice.
            parameter.copy_(broadcast(parameter.detach().clone()))
