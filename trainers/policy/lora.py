"""`LoraSettings`: the settings of an adapter. They need no torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LoraSettings:
    """Settings of a LoRA adapter (Hu et al., arXiv 2106.09685) from `peft`, without dropout.

    Attributes:
        rank: rank of the update.
        alpha: the update is scaled by alpha / rank.
        targets: names of the adapted modules. If None, all linear layers of the decoder that can
            have an adapter (see `lora_targets.py`).
    """

    rank: int = 16
    alpha: float = 32.0
    targets: tuple[str, ...] | None = None
