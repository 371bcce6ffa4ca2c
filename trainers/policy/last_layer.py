"""The last layer of a decoder, computed only at the positions whose logits are read.

Generation reads one position per row, training those before action tokens. Of all other tokens, the
last layer needs keys and values only, to which later tokens attend: no attention and no MLP. This
saves up to one layer of the model in each pass over a prompt, so it counts for shallow models.

Shapes: b rows, n new tokens, H hidden, r positions that are read, m the most of them in a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from agentgym.trainers.policy.exact_weights import UNFIT
from agentgym.trainers.policy.loading import base_model
from agentgym.trainers.policy.probes import equal_logits, holds
from agentgym.trainers.policy.shared_attention import READS, Reads


@contextmanager
def last_layer_reads(model: Any, reads: Reads) -> Iterator[None]:
    """Context manager of a forward pass whose hidden states are read at some positions.

    Attention is restricted if it is that of `shared_attention`. The hidden states at all other
    positions are undefined. A backward pass may follow, unless it computes layers again.

    Args:
        model: a `transformers` causal LM, for which `can_restrict` is True.
        reads: the positions.
    """
    layer = _last_layer(model)
    attentions = [module for module in layer.modules() if hasattr(module, "layer_idx")]
    shape: list[int] = []

    def before(_module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        shape[:] = args[0].shape[:2]
        return (reads.pick(args[0])[None], *args[1:])

    def after(_module: nn.Module, _args: tuple[Any, ...], output: Tensor) -> Tensor:
        return reads.spread(output[0], *shape)

    handles = layer.mlp.register_forward_pre_hook(before), layer.mlp.register_forward_hook(after)
    for module in attentions:
        setattr(module, READS, reads)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for module in attentions:
            delattr(module, READS)


def can_restrict(model: Any, token: int) -> bool:
    """Returns whether `last_layer_reads` leaves a model's logits as they are, on a probe.

    Args:
        model: a `transformers` causal LM.
        token: a token id of the probe.
    """
    return holds(model, token, lambda: _can_restrict(model, token))


@torch.no_grad()
def _can_restrict(model: Any, token: int) -> bool:
    layer = _last_layer(model)
    if not isinstance(getattr(layer, "mlp", None), nn.Module):
        return False
    device = next(model.parameters()).device
    other = 0 if token else 1
    probe = torch.tensor([[token, other, token], [other, token, token]], device=device)
    reads = Reads.of(torch.tensor([0, 1, 1]), torch.tensor([1, 0, 2]), *probe.shape).to(device)
    found = []
    for restricted in (nullcontext(), last_layer_reads(model, reads)):
        with restricted:
            try:
                logits = model(input_ids=probe, use_cache=False).logits
            except UNFIT:  # another kind of layer
                return False
        found.append(reads.pick(logits))
    whole, cut = found
    return equal_logits(whole, cut)


def _last_layer(model: Any) -> Any:
    """Returns the last layer of a model, or None if its layers are not in a list."""
    decoder = base_model(model).get_decoder()
    layers = getattr(decoder, "layers", None)
    return layers[-1] if isinstance(layers, nn.ModuleList) and len(layers) else None
