"""Token-level Q-values for offline RL, which steer decoding afterwards (ILQL)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from agentgym.trainers.critics.heads import mlp


class TokenQ(nn.Module):
    """Twin Q(s, .) over the vocabulary and V(s), on hidden states that predict action tokens.

    The forward pass returns logits + beta (min Q' - V), with Q' the target networks. The softmax of
    it is the policy pi ~ pi_BC exp(beta (Q' - V)) of "Offline RL for Natural Language Generation
    with Implicit Language Q Learning" (ILQL, arXiv 2206.11871).

    Args:
        hidden_size: hidden size H of the language model.
        vocabulary: number of logits.
        layers: widths of the hidden layers.
        beta: weight of the advantage in the steered logits.
        generator: random generator of the initial weights. If None, a new one with seed 0. The
            global generator is never used.
    """

    def __init__(
        self,
        hidden_size: int,
        vocabulary: int,
        layers: Sequence[int] = (256,),
        *,
        beta: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        generator = generator or torch.Generator().manual_seed(0)
        self.sizes: dict[str, Any] = {
            "hidden_size": hidden_size,
            "vocabulary": vocabulary,
            "layers": list(layers),
            "beta": beta,
        }
        self.beta = beta
        sizes = [hidden_size, *layers]
        self.online = nn.ModuleList(
            mlp([*sizes, vocabulary], generator=generator) for _ in range(2)
        )
        self.value = mlp([*sizes, 1], generator=generator)
        with torch.no_grad():  # everything starts near 0, whatever the scale of the hidden states
            for network in [*self.online, self.value]:
                network[-1].weight.mul_(0.1)  # type: ignore[index]
        self.target = copy.deepcopy(self.online).requires_grad_(False)

    def q(self, hidden: Tensor, *, target: bool = False) -> Tensor:
        """Returns the Q-values [2, ..., V] of all tokens after hidden states [..., H]."""
        networks = self.target if target else self.online
        return torch.stack([network(_normed(hidden)) for network in networks])

    def v(self, hidden: Tensor) -> Tensor:
        """Returns the values [...] of hidden states [..., H]."""
        return self.value(_normed(hidden)).squeeze(-1)

    def forward(self, hidden: Tensor, logits: Tensor) -> Tensor:
        """Returns the steered logits [..., V], given hidden states [..., H] and logits [..., V]."""
        gain = self.q(hidden, target=True).min(0).values - self.v(hidden)[..., None]
        return logits + self.beta * gain.to(logits.dtype)

    @torch.no_grad()
    def update_target(self, tau: float) -> None:
        """Updates the target networks with Polyak coefficient tau. With tau = 1, copies them."""
        for slow, fast in zip(self.target.parameters(), self.online.parameters(), strict=True):
            slow.lerp_(fast, tau)

    def save(self, path: Path) -> None:
        """Saves sizes and weights to a file."""
        torch.save({"sizes": self.sizes, "weights": self.state_dict()}, path)

    @classmethod
    def load(cls, path: Path) -> TokenQ:
        """Loads a file written by `save`. Its parameters require no gradients."""
        saved = torch.load(path, map_location="cpu", weights_only=True)
        steering = cls(**saved["sizes"])
        steering.load_state_dict(saved["weights"])
        return steering.requires_grad_(False)


def _normed(hidden: Tensor) -> Tensor:
    return nn.functional.layer_norm(hidden.float(), hidden.shape[-1:])
