"""Critics of whole utterances: twin Q(o, a) and V(o) with a slowly moving copy (ArCHer)."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from agentgym.trainers.critics.heads import mlp


class UtteranceCritic(nn.Module):
    """Two action values and two state values on embeddings of observations and actions.

    Q_k(o, a) = MLP([h_o; h_a]), V_k(o) = MLP(h_o). The target network follows by

        target <- (1 - tau) target + tau online

    "ArCHer: Training Language Model Agents via Hierarchical Multi-Turn RL", arXiv 2402.19446, with
    RoBERTa as encoder, 1536 -> 768 -> 768 -> 1 and 768 -> 768 -> 768 -> 1. Where embeddings come
    from is up to the caller; those of a trained encoder carry gradients.

    Args:
        embedding_size: size of h_o and of h_a.
        layers: widths of the hidden layers.
        generator: source of the initial weights; the global generator is never used.
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
        """[2, b] action values of embeddings [b, E] and [b, E]."""
        joined = torch.cat([observation, action], -1)
        return _both(self.target if target else self.online, "q", joined)

    def v(self, observation: Tensor, *, target: bool = False) -> Tensor:
        """[2, b] state values of embeddings [b, E]."""
        return _both(self.target if target else self.online, "v", observation)

    @torch.no_grad()
    def update_target(self, tau: float = 0.1) -> None:
        """Moves the target network towards the online one; tau = 1 copies it."""
        if not 0.0 <= tau <= 1.0:
            raise ValueError(f"tau is in [0, 1]; got {tau}.")
        pairs = zip(self.target.parameters(), self.online.parameters(), strict=True)
        for slow, fast in pairs:
            slow.lerp_(fast, tau)


def _both(networks: nn.ModuleDict, name: str, x: Tensor) -> Tensor:
    """[2, b] what the two networks of one kind say, in float32."""
    pair = networks[name]
    assert isinstance(pair, nn.ModuleList)
    with torch.autocast(x.device.type, enabled=False):
        return torch.stack([network(x.float()).squeeze(-1) for network in pair])
