"""Accelerators of runs that follow one another in a process."""

from __future__ import annotations

import torch
from accelerate.state import AcceleratorState, DistributedType, PartialState, SharedDict

from agentgym.errors import ConfigError


def forget_other_accelerators(device: str, mixed_precision: str) -> None:
    """Lets the next accelerator have another device and precision than those before it.

    accelerate keeps both for all accelerators of a process. Earlier accelerators keep theirs.

    Args:
        device: the setting `device`.
        mixed_precision: the setting `mixed_precision`.

    Raises:
        ConfigError: if they differ from those of an earlier accelerator, and several processes work
            together, whose groups are made once.
    """
    if not AcceleratorState._shared_state:
        return
    state = AcceleratorState()
    if state.mixed_precision == mixed_precision and _device_is(state, device):
        return
    if state.distributed_type != DistributedType.NO:
        raise ConfigError(
            f"device = {device!r} and mixed_precision = {mixed_precision!r}, but an earlier run in "
            f"these processes has {state.device.type!r} and {state.mixed_precision!r}, which "
            "accelerate keeps as long as they live: start this run in processes of its own."
        )
    # Not `_reset_state`, which clears the dictionaries that earlier accelerators read.
    AcceleratorState._shared_state = SharedDict()
    PartialState._shared_state = SharedDict()


def _device_is(state: AcceleratorState, device: str) -> bool:
    """Whether the device of a state is the one of the setting."""
    if device == "cpu" or not torch.cuda.is_available():
        return state.device.type == "cpu"
    return state.device.type != "cpu"
