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


def activation_bytes(config: Any, itemsize: int, checkpointing: bool) -> int:
    """Returns the bytes per token that a forward and backward pass needs at most.

    Args:
        config: the text configuration of a model.
        itemsize: bytes per number.
        checkpointing: whether each layer keeps its input only. One layer at a time is then
            computed again.
    """
    layer, layers = layer_bytes(config, itemsize), config.num_hidden_layers
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
    config = policy.model.config.get_text_config(decoder=True)
    itemsize = 2 if autocast else policy.model.get_input_embeddings().weight.element_size()
    needed = activation_bytes(config, itemsize, checkpointing)
    return max(LEAST_TOKENS, int(SHARE * free / needed))
