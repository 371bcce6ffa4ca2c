"""Replays of a step of static shapes: as a CUDA graph, or by calling it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

Step = Callable[[], None]


class NotStaticError(Exception):
    """A step needs the host: it transfers data, or shapes depend on them."""


class StaticCheck(TorchDispatchMode):
    """Context manager in which operations that a graph cannot hold raise `NotStaticError`."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Runs an operation, if a graph can hold it."""
        kwargs = kwargs or {}
        with self:  # in inference mode, operations are not yet taken apart
            parts = func.decompose(*args, **kwargs)
        if parts is not NotImplemented:
            return parts
        name = func.name()
        if name.startswith(("aten::index.", "aten::index_put", "aten::_index_put")):
            # By a mask, it depends on the data. By numbers, it does not.
            if any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in args[1]):
                raise NotStaticError(f"{name} by a mask")
        elif _TAGS & set(func.tags):
            raise NotStaticError(name)
        result = func(*args, **kwargs)
        devices = {_device(each) for each in tree_leaves((args, kwargs, result))} - {None}
        if len(devices) > 1:
            raise NotStaticError(f"{name} between devices")
        return result


_TAGS = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


def _device(value: Any) -> torch.device | None:
    """Returns the device of a tensor. Numbers on the host are arguments of kernels."""
    host_number = isinstance(value, Tensor) and not value.dim() and value.device.type == "cpu"
    return value.device if isinstance(value, Tensor) and not host_number else None


def check_static(step: Step) -> None:
    """Runs a step once and checks that it does not need the host.

    Raises:
        NotStaticError: if it does.
    """
    with StaticCheck():
        step()


def checked(step: Step) -> Step:
    """Returns a step that can be captured as it is, where there are no graphs.

    Raises:
        NotStaticError: if it cannot be captured.
    """
    check_static(step)
    return step


class Capture:
    """Captures steps on one device, in memory and on a stream that they share.

    Graphs are replayed one after another, so one may overwrite the intermediate results of others.

    Args:
        device: the GPU.
    """

    def __init__(self, device: torch.device):
        self.device, self._stream = device, torch.cuda.Stream(device)
        self._graphs: WeakSet[torch.cuda.CUDAGraph] = WeakSet()

    def __call__(self, step: Step) -> Step:
        """Captures a step, after runs to warm up. Returns a function that replays it.

        Args:
            step: reads and writes tensors at fixed addresses.

        Raises:
            NotStaticError: if the step needs the host.
            RuntimeError: if an operation cannot be captured.
        """
        with torch.cuda.device(self.device):
            current = torch.cuda.current_stream()
            self._stream.wait_stream(current)
            try:
                with torch.cuda.stream(self._stream):
                    check_static(step)
                    step()  # kernels are chosen and loaded, libraries allocate their workspaces
                current.wait_stream(self._stream)
                graph = self._captured(step)
            finally:  # a capture that fails may leave its stream the current one
                torch.cuda.set_stream(current)
        self._graphs.add(graph)
        return graph.replay

    def _captured(self, step: Step) -> torch.cuda.CUDAGraph:
        # A pool ends with its last graph.
        pool = next((graph.pool() for graph in self._graphs), None)
        graph = torch.cuda.CUDAGraph()
        # Other threads, such as those of environments, may use the GPU meanwhile.
        mode = "thread_local"
        with torch.cuda.graph(graph, pool=pool, stream=self._stream, capture_error_mode=mode):
            step()
        return graph
