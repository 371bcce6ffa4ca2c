"""Chunked credit: several turns share one advantage, between turn and trajectory level.

After "Reinforcement Learning with Action Chunking" (arXiv 2507.07969), with turns in the place of
actions. The lambda-return bootstraps only at the end of a chunk of `chunk_size` turns, and the
turns of a chunk share one advantage. Size 1 equals `turn`. A size longer than every episode gives
Monte-Carlo returns.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit.chunk import ChunkGAE
from agentgym.trainers.critics.heads import TurnValueHead, value_head
from agentgym.trainers.settings import Fraction, LossConfig, Positive, defaults
from agentgym.trainers.trainer import Algorithm


@dataclass
class Config(TrainConfig):
    """Settings of chunked credit."""

    loss: LossConfig = defaults(LossConfig, ratio="turn")
    gamma: Fraction = 0.99
    """Discount between turns."""
    lambda_turn: Fraction = 0.95
    """GAE lambda between turns."""
    chunk_size: Positive = 4
    """Turns per chunk."""


def build(config: Config) -> Algorithm:
    """Returns the parts of chunked credit."""
    return Algorithm(
        credit=ChunkGAE(config.chunk_size, config.gamma, config.lambda_turn),
        critic=value_head(TurnValueHead, config),
    )
