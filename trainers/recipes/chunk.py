"""Chunked credit: several turns share one advantage, between turn and trajectory level.

After "Reinforcement Learning with Action Chunking" (arXiv 2507.07969), with turns in the place of
actions. The lambda-return bootstraps only at the end of a chunk of `chunk_size` turns, and the
turns of a chunk share one advantage. Size 1 equals `turn`. A size longer than every episode gives
Monte-Carlo returns.

`--chunk-end valid` takes chunks by meaning, from one accepted action to the next, as in IPA ("Let
It Flow: Agentic Crafting on Rock and Roll, Building the ROME Model within an Open Agentic Learning
Ecosystem", arXiv 2512.24873): a call of a tool and its rejected attempts are one decision. Kept of
it: the unit of credit and, with `--ratio chunk --importance-cap 2 --importance chunk_mask`, the
ratio and the mask of whole chunks. Left out: its resampling from states within episodes (`vine` and
`arpo_entropy` branch there). Added: advantages that vary more than returns lower the learning rate
(`lr_by_reliability`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from agentgym.trainers.algorithm import Algorithm, PolicyGradient, value_head
from agentgym.trainers.credit.chunk import ChunkGAE
from agentgym.trainers.settings import Fraction, LossConfig, Positive, defaults
from agentgym.trainers.settings.kinds import ActorCriticConfig


@dataclass
class Config(ActorCriticConfig):
    """Settings of chunked credit."""

    has_chunks: ClassVar[bool] = True

    loss: LossConfig = defaults(LossConfig, ratio="turn")
    gamma: Fraction = 0.99
    """Discount between turns."""
    lambda_turn: Fraction = 0.95
    """GAE lambda between turns."""
    chunk_size: Positive = 4
    """Turns per chunk."""
    chunk_end: Literal["size", "valid"] = "size"
    """End of a chunk: after `chunk_size` turns ("size"), or after each valid action ("valid")."""


def build(config: Config) -> Algorithm:
    """Returns the parts of chunked credit."""
    return Algorithm(
        PolicyGradient(
            ChunkGAE(config.chunk_size, config.gamma, config.lambda_turn, config.chunk_end),
            critic=value_head("turns", config),
        )
    )
