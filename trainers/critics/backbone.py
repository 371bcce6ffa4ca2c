"""A critic with a language model of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaModel, PreTrainedModel

from agentgym.trainers.critics.heads import TokenValueHead, ValueHead


class BackboneCritic(nn.Module):
    """Reads the tokens itself and shares nothing with the policy.

    Policy and critic then need not agree on what hidden states should keep, and the critic may be
    much smaller. Any causal base model of `transformers` (without a vocabulary projection) will do;
    token ids have to be the policy's.

    Args:
        backbone: called with `input_ids`, `attention_mask`, `position_ids`, returns
            `last_hidden_state`.
        head: reads its hidden states; made here if None, without `detach`.
    """

    def __init__(self, backbone: PreTrainedModel, head: ValueHead | None = None) -> None:
        super().__init__()
        self.backbone = backbone
        hidden_size = backbone.config.get_text_config().hidden_size
        self.head = head or TokenValueHead(hidden_size, (), detach=False)
        if self.head.detach:
            raise ValueError("A head with detach=True would leave the critic's backbone untrained.")

    @classmethod
    def small(
        cls,
        vocab_size: int,
        *,
        hidden_size: int = 128,
        layers: int = 2,
        heads: int = 4,
        max_length: int = 4096,
        generator: torch.Generator | None = None,
    ) -> BackboneCritic:
        """A small decoder with random weights, drawn from `generator` alone.

        Args:
            vocab_size: of the policy's tokenizer.
            hidden_size: width.
            layers: depth.
            heads: attention heads.
            max_length: longest segment.
            generator: source of the weights, on the CPU.
        """
        generator = generator or torch.Generator().manual_seed(0)
        config = LlamaConfig(
            vocab_size=vocab_size,
            hidden_size=hidden_size,
            intermediate_size=4 * hidden_size,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=heads,
            max_position_embeddings=max_length,
            use_cache=False,
        )
        with _drawing_from(generator):
            backbone = LlamaModel(config)
        head = TokenValueHead(hidden_size, (hidden_size,), detach=False, generator=generator)
        return cls(backbone, head)

    def forward(
        self, tokens: Tensor, attention_mask: Tensor, row: Tensor, column: Tensor
    ) -> Tensor:
        """Values at chosen positions.

        Args:
            tokens: [B, S] token ids, padded on either side.
            attention_mask: [B, S] 1 for tokens, 0 for padding.
            row: [k] which segment.
            column: [k] position of the hidden state to read: before action token j, the one that
                predicts it; for a bootstrap, the segment's last.

        Returns:
            [k] float32.
        """
        positions = (attention_mask.cumsum(-1) - 1).clamp_min(0)
        states = self.backbone(
            input_ids=tokens, attention_mask=attention_mask, position_ids=positions, use_cache=False
        ).last_hidden_state
        return self.head(states[row, column])


@contextmanager
def _drawing_from(generator: torch.Generator) -> Iterator[None]:
    """Whatever draws from torch's global generator draws from this one; the global one stays put.

    transformers initialises weights from the global generator and offers no other way.
    """
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(generator.get_state())
        yield
        generator.set_state(torch.get_rng_state())
