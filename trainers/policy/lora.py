"""`LoraSettings`: the settings of an adapter. They need no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral

from agentgym.errors import ConfigError


@dataclass(frozen=True)
class LoraSettings:
    """Settings of a LoRA adapter (Hu et al., arXiv 2106.09685) from `peft`, without dropout.

    Attributes:
        rank: rank of the update.
        alpha: the update is scaled by alpha / rank.
        targets: names of the adapted modules. If None, all linear layers of the decoder that can
            have an adapter (see `lora_targets.py`).

    Raises:
        ConfigError: if the adapter would change nothing.
    """

    rank: int = 16
    alpha: float = 32.0
    targets: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Checks the settings."""
        if not isinstance(self.rank, Integral) or self.rank < 1:
            raise ConfigError(
                f"The rank of a LoRA adapter must be a whole number of at least 1, got {self.rank}."
            )
        if not 0 < self.alpha < math.inf:
            raise ConfigError(
                f"The alpha of a LoRA adapter must be a number above 0, got {self.alpha}."
            )
        if isinstance(self.targets, str) or (self.targets is not None and not self.targets):
            raise ConfigError(
                "The targets of a LoRA adapter are names of modules, such as ('q_proj',), or None "
                f"for all linear layers of the decoder, got {self.targets!r}."
            )
