"""Gradient checkpointing: layers keep their inputs only, and the backward pass computes them again.

Source: Chen et al., Training Deep Nets with Sublinear Memory Cost (arXiv 1604.06174).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer


def layers_to_checkpoint(model: nn.Module) -> list[Any]:
    """Returns the layers of a `transformers` model that support gradient checkpointing."""
    return [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]


@contextmanager
def checkpointed(model: nn.Module) -> Iterator[None]:
    """Context manager of a forward pass whose layers keep their inputs only.

    The backward pass computes each layer again. `transformers` checkpoints layers in training mode.
    Here only the layers themselves are in this mode, not their parts: dropout, noise of routers
    and batch statistics stay off, and generation never sees it.

    Args:
        model: a `transformers` model.
    """
    layers = layers_to_checkpoint(model) if torch.is_grad_enabled() else []
    before = [(layer.training, layer.gradient_checkpointing) for layer in layers]
    for layer in layers:
        layer.training = layer.gradient_checkpointing = True
        layer._can_checkpoint_with_cache = True  # of `run_shared`, which permits a second pass
        layer._gradient_checkpointing_func = partial(
            checkpoint, use_reentrant=False, preserve_rng_state=False
        )
    try:
        yield
    finally:
        for layer, (training, enabled) in zip(layers, before, strict=True):
            layer.training, layer.gradient_checkpointing = training, enabled
