"""Value heads: a small network on the hidden states of a language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from agentgym.trainers.critics.two_hot import support

if TYPE_CHECKING:
    from agentgym.trainers.policy.collate import Collated


class ValueHead(nn.Module):
    """An MLP from a hidden state to a value, always computed in float32.

    Its input is the hidden state whose logits predict an action token. For the first token of an
    action, this is the state at the end of the prompt, so the value is that of the observation. A
    value depends on its own hidden state only, not on padding or on other rows of the batch.

    POAD (arXiv 2405.15821) has H -> 1024 -> 512 -> 1 with ReLU, no biases, on detached states.

    Args:
        hidden_size: hidden size H of the language model.
        layers: widths of the hidden layers. () gives a linear head.
        detach: stops gradients at the hidden states. If False, the critic loss also trains the
            language model.
        bias: whether layers have biases.
        bins: number of bins of a two-hot head, whose outputs are logits. 1: a scalar head.
        generator: random generator of the initial weights. If None, a new one with seed 0. The
            global generator is never used.
    """

    reads = "tokens"

    support: Tensor

    def __init__(
        self,
        hidden_size: int,
        layers: Sequence[int] = (1024, 512),
        *,
        detach: bool = True,
        bias: bool = True,
        bins: int = 1,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.detach = detach
        self.hidden_size = hidden_size
        self.bins = bins
        if bins > 1:
            self.register_buffer("support", support(bins), persistent=False)
        self.mlp = mlp([hidden_size, *layers, bins], bias=bias, generator=generator)
        with torch.no_grad():  # values start near 0, whatever the scale of the hidden states
            final = self.mlp[-1]
            assert isinstance(final, nn.Linear)
            final.weight.mul_(0.1 if bins == 1 else 0.0)

    def places(self, collated: Collated, turn: Tensor) -> tuple[Collated, Tensor]:
        """Returns rows with the positions of the values, and the indices of these in the batch.

        Args:
            collated: padded rows with the positions of all action tokens.
            turn: [k] index of each token's turn.
        """
        return collated, collated.index

    def forward(self, hidden: Tensor) -> Tensor:
        """Returns float32 values [...] of hidden states [..., H] in any dtype."""
        return self.values(self.outputs(hidden))

    def values(self, outputs: Tensor) -> Tensor:
        """Returns the values [...] of outputs: themselves, or the expectations of logits."""
        return outputs if self.bins == 1 else (outputs.softmax(-1) * self.support).sum(-1)

    def outputs(self, hidden: Tensor) -> Tensor:
        """Returns float32 values [...] or logits [..., bins] of hidden states [..., H].

        Raises:
            ValueError: if the last dimension is not H.
        """
        if hidden.shape[-1] != self.hidden_size:
            raise ValueError(
                f"Expected hidden states of size {self.hidden_size}, got shape "
                f"{tuple(hidden.shape)}."
            )
        if self.detach:
            hidden = hidden.detach()
        # Disables an autocast region around the policy.
        with torch.autocast(hidden.device.type, enabled=False):
            # Its scale differs between language models.
            outputs = self.mlp(nn.functional.layer_norm(hidden.float(), (self.hidden_size,)))
            return outputs.squeeze(-1) if self.bins == 1 else outputs


class TokenValueHead(ValueHead):
    """Token-level value head: values before every action token, V(o_t, w_<j)."""


class TurnValueHead(ValueHead):
    """State-value head: V(o_t), computed at the first token of each turn only."""

    reads = "turns"

    @staticmethod
    def positions(turn: Tensor) -> Tensor:
        """Returns the indices [m] of the first token of each run of equal turn numbers [k]."""
        starts = torch.ones_like(turn, dtype=torch.bool)
        starts[1:] = turn[1:] != turn[:-1]
        return starts.nonzero().squeeze(-1)

    def places(self, collated: Collated, turn: Tensor) -> tuple[Collated, Tensor]:
        """Returns the rows with the positions of first tokens only, and their turns [m]."""
        first = self.positions(turn)
        places = replace(collated, row=collated.row[first], column=collated.column[first])
        return places, turn[first]


class ActionValueHead(ValueHead):
    """Action-value head: Q(o_t, a_t), computed after the last token of each turn."""

    reads = "actions"

    def places(self, collated: Collated, turn: Tensor) -> tuple[Collated, Tensor]:
        """Returns the rows with the positions of last tokens only, and their turns [m]."""
        last = torch.ones_like(turn, dtype=torch.bool)
        last[:-1] = turn[1:] != turn[:-1]
        places = replace(collated, row=collated.row[last], column=collated.column[last] + 1)
        return places, turn[last]


def mlp(
    sizes: Sequence[int], *, bias: bool = True, generator: torch.Generator | None = None
) -> nn.Sequential:
    """Returns linear layers with ReLU in between, initialised with an explicit generator."""
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
