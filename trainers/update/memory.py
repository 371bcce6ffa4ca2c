"""The number of tokens per forward and backward pass that fit into memory."""

from __future__ import annotations

from typing import Any

from torch import nn

from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.system.gpu_memory import free_bytes

LEAST_TOKENS = 512
"""The fewest tokens per microbatch that are worth a forward pass."""
ENOUGH_TOKENS = 8192
"""The tokens per microbatch that keep a GPU busy. If they fit without gradient checkpointing, no
layer is computed again: more tokens at once would save less time than that costs."""
SHARE = 0.8
"""Share of the free memory that a microbatch may take. The rest covers fragmentation."""
LOGIT = 16
"""Bytes per logit that is computed at once: float32, its probability and their gradients."""


def layer_bytes(config: Any, itemsize: int) -> int:
    """Returns the bytes per token that the backward pass of a decoder layer needs.

    They are about ten vectors of the hidden size H (inputs of norms and projections, queries, keys,
    values) and four of the intermediate size I (gate, its activation, up projection, product).

    Args:
        config: the text configuration of a model.
        itemsize: bytes per number.
    """
    intermediate = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    return itemsize * (10 * config.hidden_size + 4 * intermediate)


def adapter_bytes(model: nn.Module, itemsize: int, autocast: bool) -> int:
    """Returns the bytes per token that the backward pass of all LoRA adapters needs.

    They are the rank and, where an adapter has another data type than its input, a copy of it.

    Args:
        model: the model.
        itemsize: bytes per number of activations.
        autocast: whether products are in half precision whatever the weights are.
    """
    needed = 0
    for name, parameter in model.named_parameters():
        if ".lora_A." in name and parameter.requires_grad:
            (rank, inputs), own = parameter.shape, parameter.element_size()
            needed += (2 if autocast else own) * (rank + (own != itemsize) * inputs)
    return needed


def activation_bytes(model: Any, autocast: bool, checkpointing: bool) -> int:
    """Returns the bytes per token that a forward and backward pass needs at most.

    Args:
        model: a `transformers` causal LM.
        autocast: whether activations are in half precision whatever the weights are.
        checkpointing: whether each layer keeps its input only. One layer at a time is then
            computed again.
    """
    config = model.config.get_text_config(decoder=True)
    weights = model.get_input_embeddings().weight.element_size()
    itemsize, layers = 2 if autocast else weights, config.num_hidden_layers
    adapters = adapter_bytes(model, itemsize, autocast)
    layer = layer_bytes(config, itemsize) + -(-adapters // layers)
    kept = layers * config.hidden_size * itemsize + layer if checkpointing else layers * layer
    return kept + layer  # and the gradients of a layer


def optimizer_bytes(module: nn.Module) -> int:
    """Returns the bytes of gradients, the two moments of AdamW and master weights, in float32.

    Args:
        module: the module with all trained parameters.
    """
    trained = [p for p in module.parameters() if p.requires_grad]
    return sum(p.numel() * (12 if p.element_size() == 4 else 16) for p in trained)


def fitting_tokens(policy: Policy, learner: nn.Module, autocast: bool, checkpointing: bool) -> int:
    """Returns the tokens per microbatch that fit into the free memory of a GPU.

    Args:
        policy: the policy.
        learner: the module with all trained parameters.
        autocast: whether activations are in half precision whatever the weights are.
        checkpointing: whether the backward pass computes the layers again.
    """
    free = free_bytes(policy.device) - optimizer_bytes(learner) - LOGIT * policy.logits_at_once
    needed = activation_bytes(policy.model, autocast, checkpointing)
    return max(LEAST_TOKENS, int(SHARE * free / needed))
