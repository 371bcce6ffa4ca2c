"""Value heads: a small network on the hidden states of a language model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from agentgym.trainers.config import TrainConfig
    from agentgym.trainers.policy.policy import Policy


class ValueHead(nn.Module):
    """An MLP from a hidden state to a value, always computed in float32.

    It reads the hidden state whose logits predict an action token: at the first token of an action
    that is the last of the prompt, so the value is the observation's. A value depends on its own
    hidden state only, never on padding or on what else is in the batch.

    POAD (arXiv 2405.15821) has H -> 1024 -> 512 -> 1 with ReLU, no biases, on detached states.

    Args:
        hidden_size: H of the language model.
        layers: widths of the hidden layers; () for a linear head.
        detach: whether gradients stop at the hidden states; False: the critic also trains the
            language model.
        bias: whether layers have biases.
        norm: whether hidden states are normalised to unit variance first (without parameters);
            language models leave them at very different scales.
        generator: source of the initial weights; the global generator is never used.
    """

    def __init__(
        self,
        hidden_size: int,
        layers: Sequence[int] = (1024, 512),
        *,
        detach: bool = True,
        bias: bool = True,
        norm: bool = True,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.detach = detach
        self.norm = norm
        self.hidden_size = hidden_size
        self.mlp = mlp([hidden_size, *layers, 1], bias=bias, generator=generator)
        with torch.no_grad():  # values start near 0, whatever the scale of the hidden states
            final = self.mlp[-1]
            assert isinstance(final, nn.Linear)
            final.weight.mul_(0.1)

    def forward(self, hidden: Tensor) -> Tensor:
        """Values [...] in float32 of hidden states [..., H] in any dtype."""
        if hidden.shape[-1] != self.hidden_size:
            raise ValueError(
                f"Expected hidden states of size {self.hidden_size}; got {tuple(hidden.shape)}."
            )
        if self.detach:
            hidden = hidden.detach()
        # An autocast region around the policy must not reach in here.
        with torch.autocast(hidden.device.type, enabled=False):
            hidden = hidden.float()
            if self.norm:
                hidden = nn.functional.layer_norm(hidden, (self.hidden_size,))
            return self.mlp(hidden).squeeze(-1)


class TokenValueHead(ValueHead):
    """Values before every action token, V(o_t, w_<j)."""

    reads = "tokens"


class TurnValueHead(ValueHead):
    """Values of observations, V(o_t): read at the first token of each turn only."""

    reads = "turns"

    @staticmethod
    def positions(turn: Tensor) -> Tensor:
        """[m] which tokens to read: the first of each run of equal turn numbers [k]."""
        starts = torch.ones_like(turn, dtype=torch.bool)
        starts[1:] = turn[1:] != turn[:-1]
        return starts.nonzero().squeeze(-1)


def value_head(kind: type[ValueHead], config: TrainConfig) -> Callable[[Policy], ValueHead]:
    """Returns what makes the head that a run's settings describe, for `Trainer(critic=...)`."""
    return lambda policy: kind(
        policy.hidden_size,
        config.critic.critic_layers,
        detach=config.critic.critic_detach,
        generator=torch.Generator().manual_seed(config.run.seed),
    )


def mlp(
    sizes: Sequence[int], *, bias: bool = True, generator: torch.Generator | None = None
) -> nn.Sequential:
    """Linear layers with ReLU between them, initialised from an explicit generator."""
    if generator is None:
        generator = torch.Generator().manual_seed(0)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        linear = nn.Linear(inputs, outputs, bias=bias, device="meta").to_empty(device="cpu")
        nn.init.normal_(linear.weight, std=(2.0 / inputs) ** 0.5, generator=generator)
        if bias:
            nn.init.zeros_(linear.bias)
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])
