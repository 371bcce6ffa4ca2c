"""FSDP2: the trained learner is sharded over the processes, and a whole copy of it acts.

Sharded weights are whole only inside a forward pass in which all processes take part. Rollouts,
evaluations and the networks of recipes call the model whenever they need it, a different number of
times in every process. They therefore use a copy with whole weights. It is freed during an update,
when gradients and activations need the memory, and gathered again afterwards. Gradients, the
optimiser's state and the trained weights are always sharded.

Trained weights are sharded in float32. If the acting ones are in bfloat16 or float16, a layer is
cast to that when it is gathered. Its gradients are added up in float32 over processes and
microbatches, and its shards are the master weights of the optimiser (see `AdamW`).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from agentgym.errors import ConfigError
from agentgym.trainers.policy.adapters import REFERENCE
from agentgym.trainers.update.learner import Learner
from agentgym.trainers.update.optimizer import LOW_PRECISION, MASTER


def check_engine(accelerator: Accelerator) -> None:
    """Raises ConfigError for DeepSpeed, Megatron-LM and FSDP version 1."""
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


def trained_copy(
    accelerator: Accelerator, learner: Learner, normalization: str | None = None
) -> Learner:
    """Returns the learner to be trained: under FSDP2 a copy to be sharded, otherwise itself.

    Args:
        accelerator: the accelerator.
        learner: the learner that acts.
        normalization: the setting of the rollouts.

    Raises:
        ConfigError: under FSDP2 with `normalization`, if the model cannot score all actions of a
            turn in the forward pass of its row.
    """
    if not accelerator.is_fsdp2:
        return learner
    if normalization is not None and not learner.policy.blocks:
        raise ConfigError(
            f"With normalization = {normalization!r}, {type(learner.policy.model).__name__} needs "
            "a forward pass per set of actions, and under FSDP2 all processes must take part in "
            "each: leave normalization at None, or use DDP (`accelerate launch --multi_gpu`)."
        )
    plugin = accelerator.state.fsdp_plugin
    assert plugin is not None
    # On the CPU, from which each layer returns to the device as it is sharded.
    policy = learner.policy.clone(share_base=False).to("cpu")
    low = [p for p in policy.parameters() if p.requires_grad and p.dtype in LOW_PRECISION]
    # Without, layers compute as in the acting copy, under its autocast.
    plugin.mixed_precision_policy = None
    if low:
        plugin.mixed_precision_policy = MixedPrecisionPolicy(low[0].dtype, torch.float32)
    for parameter in low:
        parameter.data = parameter.data.float()
    critic = copy.deepcopy(learner.critic)
    if critic is not None:  # apart from the layers, because it computes in float32
        fully_shard(critic)
    return Learner(policy, critic)


def share_frozen(learners: Sequence[Learner]) -> None:
    """Lets sharded learners of one base model hold the shards of its frozen weights once."""
    every = learners[0].named_parameters(remove_duplicate=False)  # tied ones by all their names
    frozen = {name: p for name, p in every if not p.requires_grad}
    for learner in learners[1:]:
        for name, parameter in frozen.items():  # the next forward pass adopts them
            module, _, own = name.rpartition(".")
            setattr(learner.get_submodule(module), own, parameter)


def is_sharded(module: nn.Module) -> bool:
    """Returns whether the parameters of a module are sharded (FSDP2)."""
    return any(isinstance(parameter, DTensor) for parameter in module.parameters())


def free_weights(learner: Learner) -> None:
    """Frees the memory of a learner's weights, until `copy_weights` gathers them again."""
    for parameter in _weights(learner):
        parameter.data = parameter.data.new_empty(0)


def _weights(learner: Learner) -> list[nn.Parameter]:
    """Returns the weights of a learner without the adapter of its reference policy."""
    return [p for name, p in learner.named_parameters() if f".{REFERENCE}." not in name]


@torch.no_grad()
def copy_weights(source: Learner, target: Learner) -> None:
    """Copies the weights of a sharded learner. All processes must take part."""
    for sharded, whole in zip(_weights(source), _weights(target), strict=True):
        if whole.shape != sharded.shape:
            whole.data = whole.data.new_empty(sharded.shape)
        # In place through `copy_`, which caches of hidden states notice.
        whole.copy_(as_whole(sharded))


@torch.no_grad()
def copy_policy(source: Learner, target: Learner) -> None:
    """Copies the trained weights of a policy to one of the same model, sharded in the same way."""
    for new, old in zip(source.policy.parameters(), target.policy.parameters(), strict=True):
        if new.requires_grad:
            old.copy_(new)


def as_whole(state: Any) -> Any:
    """Returns a state with whole tensors in place of sharded ones. All processes must take part."""
    if isinstance(state, DTensor):
        return state.full_tensor()
    if isinstance(state, dict):
        return {key: as_whole(value) for key, value in state.items()}
    return [as_whole(value) for value in state] if isinstance(state, list) else state


def optimizer_state(optimizer: Any, trained: Learner, acting: Learner) -> dict[str, Any]:
    """Returns the state of an optimiser with whole tensors. All processes must take part.

    Args:
        optimizer: the optimiser.
        trained: the learner that it updates.
        acting: the learner that acts. Sharded weights of which it holds copies in lower precision
            become part of the state, as master weights.
    """
    state = as_whole(optimizer.state_dict())
    pairs = zip(_weights(trained), _weights(acting), strict=True)
    masters = {id(p) for p, whole in pairs if p.dtype != whole.dtype}
    numbers = [i for group in state["param_groups"] for i in group["params"]]
    for number, parameter in zip(numbers, _parameters(optimizer), strict=True):
        if id(parameter) in masters and number in state["state"]:
            state["state"][number][MASTER] = as_whole(parameter.detach())
    return state


@torch.no_grad()
def load_optimizer(optimizer: Any, state: dict[str, Any]) -> None:
    """Restores what `optimizer_state` returned, and sharded weights from their master weights."""
    optimizer.load_state_dict(state)
    for parameter in _parameters(optimizer):
        if isinstance(parameter, DTensor):
            values = optimizer.state.get(parameter, {})
            for name, value in values.items():
                if torch.is_tensor(value) and value.shape == parameter.shape:
                    values[name] = distribute_tensor(
                        value, parameter.device_mesh, parameter.placements
                    )
            if MASTER in values:
                parameter.copy_(values.pop(MASTER))


def _parameters(optimizer: Any) -> list[Any]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
