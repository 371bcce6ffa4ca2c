"""Gradient checkpointing: layers keep their inputs only, and the backward pass computes them again.

Source: Chen et al., Training Deep Nets with Sublinear Memory Cost (arXiv 1604.06174).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer


def layers_to_checkpoint(model: nn.Module) -> list[Any]:
    """Returns the outermost layers of a `transformers` model that support gradient checkpointing.

    Layers may contain others that support it, as the hybrid layers of Zamba2 do. If those were
    checkpointed too, the backward pass would compute them under another mode than the forward pass.
    """
    if isinstance(model, GradientCheckpointingLayer):
        return [model]
    found: dict[int, Any] = {}  # a layer may occur several times
    for child in model.children():
        found |= {id(layer): layer for layer in layers_to_checkpoint(child)}
    return list(found.values())


@contextmanager
def checkpointed(
    model: nn.Module, within: Callable[[], AbstractContextManager[Any]] = nullcontext
) -> Iterator[None]:
    """Context manager of a forward pass whose layers keep their inputs only.

    The backward pass computes each layer again. `transformers` checkpoints layers in training mode.
    Here they enter this mode for the decision only, and compute in the mode that they had before:
    dropout, noise of routers and batch statistics stay off, and generation never sees it.

    Args:
        model: a `transformers` model.
        within: makes the context manager in which layers are computed again.
    """
    layers = layers_to_checkpoint(model) if torch.is_grad_enabled() else []
    before = [(layer.training, layer.gradient_checkpointing) for layer in layers]
    for layer, (training, _) in zip(layers, before, strict=True):
        layer.training = layer.gradient_checkpointing = True
        layer._gradient_checkpointing_func = partial(
            checkpoint,
            partial(_run, layer, training, within),
            use_reentrant=False,
            preserve_rng_state=False,
        )
    try:
        yield
    finally:
        for layer, (training, enabled) in zip(layers, before, strict=True):
            layer.training, layer.gradient_checkpointing = training, enabled


def _run(
    layer: Any,
    training: bool,
    within: Callable[[], AbstractContextManager[Any]],
    forward: Callable[..., Any],
    *args: Any,
) -> Any:
    """Computes a layer in a mode that is the same in the forward and in the backward pass."""
    mode, layer.training = layer.training, training
    try:
        with within():
            return forward(*args)
    finally:
        layer.training = mode
