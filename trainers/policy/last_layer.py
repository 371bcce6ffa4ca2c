"""The last layer of a decoder, computed only at the positions whose logits are read.

Generation reads one position per row. Of all other tokens, the last layer needs keys and values
only, to which later tokens attend: no queries, no attention and no MLP. This saves up to one layer
of the model in each pass over a prompt, so it counts for shallow models.

Shapes: b rows, n new tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from agentgym.trainers.policy.loading import base_model
from agentgym.trainers.policy.shared_attention import READS

TOLERANCE = 0.01
"""Largest difference on the probe, as a share of the largest logit, for rounding."""


@contextmanager
def last_layer_reads(model: Any, places: Tensor) -> Iterator[None]:
    """Context manager of a forward pass without gradients whose logits are read at one position.

    Attention is restricted if it is that of `shared_attention`. The hidden states at all other
    positions are undefined.

    Args:
        model: a `transformers` causal LM, for which `can_restrict` is True.
        places: int64 [b] the column of each row that is read.
    """
    layer = _last_layer(model)
    attentions = [module for module in layer.modules() if hasattr(module, "layer_idx")]
    rows = torch.arange(len(places), device=places.device)

    def before(_module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (args[0][rows, places][:, None], *args[1:])  # added to all positions of the row

    handle = layer.mlp.register_forward_pre_hook(before)
    for module in attentions:
        setattr(module, READS, places)
    try:
        yield
    finally:
        handle.remove()
        for module in attentions:
            delattr(module, READS)


@torch.no_grad()
def can_restrict(model: Any, token: int) -> bool:
    """Returns whether `last_layer_reads` leaves a model's logits as they are, on a probe.

    Args:
        model: a `transformers` causal LM.
        token: a token id of the probe.
    """
    layer = _last_layer(model)
    if not isinstance(getattr(layer, "mlp", None), nn.Module):
        return False
    device = next(model.parameters()).device
    other = 0 if token else 1
    probe = torch.tensor([[token, other, token], [other, token, token]], device=device)
    places, rows = torch.tensor([1, 2], device=device), torch.arange(2, device=device)
    found = []
    for restricted in (nullcontext(), last_layer_reads(model, places)):
        with restricted:
            try:
                logits = model(input_ids=probe, use_cache=False).logits
            except (RuntimeError, TypeError, IndexError):  # another kind of layer
                return False
        found.append(logits[rows, places].float())
    whole, cut = found
    return bool((whole - cut).abs().max() <= TOLERANCE * whole.abs().max())


def _last_layer(model: Any) -> Any:
    """Returns the last layer of a model, or None if its layers are not in a list."""
    decoder = base_model(model).get_decoder()
    layers = getattr(decoder, "layers", None)
    return layers[-1] if isinstance(layers, nn.ModuleList) and len(layers) else None
