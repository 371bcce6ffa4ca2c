"""`in_float32`: a model of a lower precision that computes in float32, for a moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

LOW = (torch.bfloat16, torch.float16)
"""Precisions below float32."""

UNFIT = (AttributeError, IndexError, RuntimeError, TypeError, ValueError, AssertionError)
"""Exceptions of models that do not compute as a probe asks."""


@contextmanager
def in_float32(model: Any, token: int) -> Iterator[bool]:
    """Context manager in which a model of a lower precision computes in float32.

    The weights of a layer are converted while it computes, and those of no layer, such as the
    embeddings, while the model does.

    Args:
        model: a `transformers` causal LM.
        token: a token id of a probe.

    Yields:
        Whether it computes in another precision than before. A model whose layers read the weights
        of others cannot.
    """
    parts = [(part, low) for part, own in _parts(model) if (low := [*filter(_is_low, own)])]
    if not parts:
        yield False
        return
    converted = [_Converted(part, low) for part, low in parts]
    probe = torch.tensor([[token, token]], device=next(model.parameters()).device)
    try:
        try:
            with torch.no_grad():
                model(input_ids=probe, use_cache=False)
        except UNFIT:
            yield False
        else:
            yield True
    finally:
        for each in reversed(converted):
            each.close()


def _parts(model: nn.Module) -> Iterator[tuple[nn.Module, list[Tensor]]]:
    """Yields each layer and its weights, and the model and the weights that are in no layer."""
    outside, rest, seen = [model], [], set[nn.Module]()
    while outside:
        module = outside.pop()
        rest += [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        new = [child for child in module.children() if child not in seen]
        seen.update(new)
        if not isinstance(module, nn.ModuleList):
            outside += new
            continue
        for layer in new:
            yield layer, [*layer.parameters(), *layer.buffers()]
    yield model, list(dict.fromkeys(rest))


def _is_low(weights: Tensor) -> bool:
    """Returns whether weights are plain and of a precision below float32."""
    return weights.dtype in LOW and type(weights.data) is Tensor


class _Converted:
    """Weights that are in float32 while a module computes.

    Args:
        module: the module.
        weights: its weights.
    """

    def __init__(self, module: nn.Module, weights: Sequence[Tensor]):
        self._weights, self._kept = weights, list[Tensor]()
        self._hooks = (
            module.register_forward_pre_hook(self._convert),
            module.register_forward_hook(self._restore, always_call=True, prepend=True),
        )

    def _convert(self, *_: Any) -> None:
        self._restore()
        self._kept = [each.data for each in self._weights]
        for each in self._weights:
            each.data = each.data.float()

    def _restore(self, *_: Any) -> None:
        for each, data in zip(self._weights, self._kept, strict=False):
            each.data = data
        self._kept = []

    def close(self) -> None:
        """Restores the weights, also after an interrupt within the module."""
        for hook in self._hooks:
            hook.remove()
        self._restore()
