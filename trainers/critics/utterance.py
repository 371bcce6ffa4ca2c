"""Utterance-level critics: twin Q(o, a) and V(o) with target networks (ArCHer)."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from agentgym.trainers.critics.heads import mlp


class UtteranceCritic(nn.Module):
    """Twin action values and twin state values on embeddings of observations and actions.

        Q_k(o, a) = MLP([h_o; h_a]),    V_k(o) = MLP(h_o)
        target <- (1 - tau) target + tau online

    Source: "ArCHer: Training Language Model Agents via Hierarchical Multi-Turn RL", arXiv
    2402.19446, with RoBERTa as encoder, 1536 -> 768 -> 768 -> 1 for Q and 768 -> 768 -> 768 -> 1
    for V. The caller provides the embeddings. Those of a trainable encoder may carry gradients.

    Args:
        embedding_size: size E of h_o and of h_a.
        layers: widths of the hidden layers.
        generator: random generator of the initial weights. If None, a new one with seed 0. The
            global generator is never used.
    """

    def __init__(
        self,
        embedding_size: int,
        layers: Sequence[int] = (768, 768),
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        generator = generator or torch.Generator().manual_seed(0)

        def pair(inputs: int) -> nn.ModuleList:
            return nn.ModuleList(mlp([inputs, *layers, 1], generator=generator) for _ in range(2))

        self.online = nn.ModuleDict({"q": pair(2 * embedding_size), "v": pair(embedding_size)})
        self.target = copy.deepcopy(self.online).requires_grad_(False)

    def q(self, observation: Tensor, action: Tensor, *, target: bool = False) -> Tensor:
        """Returns the action values [2, b] of embeddings [b, E] and [b, E]."""
        joined = torch.cat([observation, action], -1)
        return _both(self.target if target else self.online, "q", joined)

    def v(self, observation: Tensor, *, target: bool = False) -> Tensor:
        """Returns the state values [2, b] of embeddings [b, E]."""
        return _both(self.target if target else self.online, "v", observation)

    @torch.no_grad()
    def update_target(self, tau: float = 0.1) -> None:
        """Updates the target networks with Polyak coefficient tau. With tau = 1, copies them.

        Raises:
            ValueError: if `tau` is not in [0, 1].
        """
        if not 0.0 <= tau <= 1.0:
            raise ValueError(f"tau must be in [0, 1], got {tau}.")
        pairs = zip(self.target.parameters(), self.online.parameters(), strict=True)
        for slow, fast in pairs:
            slow.lerp_(fast, tau)


def _both(networks: nn.ModuleDict, name: str, x: Tensor) -> Tensor:
    """Returns the float32 outputs [2, b] of the two networks of one kind."""
    pair = networks[name]
    assert isinstance(pair, nn.ModuleList)
    with torch.autocast(x.device.type, enabled=False):
        return torch.stack([network(x.float()).squeeze(-1) for network in pair])
