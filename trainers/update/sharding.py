"""FSDP2: the trained learner is sharded over the processes, and a whole copy of it acts.

Sharded weights are whole only inside a forward pass in which all processes take part. Rollouts,
evaluations and the networks of recipes call the model whenever they need it, a different number of
times in every process. They therefore use a copy with whole weights, which `Updater.publish` renews
after every update. Gradients, the optimiser's state and the trained weights are sharded.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType
from torch.distributed.tensor import DTensor, distribute_tensor

from agentgym.errors import ConfigError
from agentgym.trainers.update.learner import Learner


def check_engine(accelerator: Accelerator, normalization: str | None) -> None:
    """Checks that training works with the engine of an accelerator.

    Args:
        accelerator: the accelerator.
        normalization: the setting of the rollouts.

    Raises:
        ConfigError: for DeepSpeed, Megatron-LM, FSDP version 1, and FSDP2 with `normalization`.
    """
    kind = accelerator.distributed_type
    if kind in (DistributedType.DEEPSPEED, DistributedType.MEGATRON_LM):
        raise ConfigError(
            f"{kind.value} is not supported: use DDP (`accelerate launch --multi_gpu`) or FSDP2 "
            "(`accelerate launch --use_fsdp --fsdp_version 2`)."
        )
    if kind == DistributedType.FSDP and not accelerator.is_fsdp2:
        raise ConfigError(
            "FSDP version 1 is not supported: add --fsdp_version 2 to accelerate launch."
        )
    if accelerator.is_fsdp2 and normalization is not None:
        raise ConfigError(
            f"normalization = {normalization!r} reads the model once for each set of actions, and "
            "under FSDP2 all processes must read it equally often: leave it at None, or use DDP."
        )


def trained_copy(accelerator: Accelerator, learner: Learner) -> Learner:
    """Returns the learner to be trained: under FSDP2 a copy to be sharded, otherwise itself."""
    if not accelerator.is_fsdp2:
        return learner
    return Learner(learner.policy.clone(), copy.deepcopy(learner.critic))


@torch.no_grad()
def copy_weights(source: Learner, target: Learner) -> None:
    """Copies the trained weights of a sharded learner. All processes must take part."""
    for sharded, whole in zip(source.parameters(), target.parameters(), strict=True):
        if sharded.requires_grad:
            whole.copy_(as_whole(sharded))


def as_whole(state: Any) -> Any:
    """Returns a state with whole tensors in place of sharded ones. All processes must take part."""
    if isinstance(state, DTensor):
        return state.full_tensor()
    if isinstance(state, dict):
        return {key: as_whole(value) for key, value in state.items()}
    return [as_whole(value) for value in state] if isinstance(state, list) else state


def load_optimizer(optimizer: Any, state: dict[str, Any]) -> None:
    """Restores the state of an optimiser from whole tensors."""
    optimizer.load_state_dict(state)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if isinstance(parameter, DTensor):
                values = optimizer.state.get(parameter, {})
                for name, value in values.items():
                    if torch.is_tensor(value) and value.shape == parameter.shape:
                        values[name] = distribute_tensor(
                            value, parameter.device_mesh, parameter.placements
                        )
