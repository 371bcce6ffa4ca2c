"""Exponential moving averages of weights."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


@torch.no_grad()
def polyak(
    average: Mapping[str, Tensor], weights: Mapping[str, Tensor], tau: float
) -> dict[str, Tensor]:
    """Returns (1 - tau) average + tau weights, in float32 on the CPU.

    bfloat16 would round steps below 1/512 of a weight away, and with a small tau the average would
    never move. Tensors of integers are those of `weights`.

    Args:
        average: the average so far, by name. Empty: the weights are copied.
        weights: the weights, by the same names.
        tau: Polyak coefficient, in (0, 1].
    """
    moved: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if not weight.is_floating_point():
            moved[name] = weight.detach().to("cpu", copy=True)
            continue
        new = weight.detach().to("cpu", torch.float32, copy=True)
        moved[name] = new if not average else average[name].to("cpu", torch.float32).lerp(new, tau)
    return moved
