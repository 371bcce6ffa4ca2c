"""Chunks: several turns as one decision, between turn-level and trajectory-level credit.

After "Reinforcement Learning with Action Chunking" (arXiv 2507.07969), with turns for actions: the
lambda-return bootstraps only where a chunk of `chunk_size` turns ends, and the turns of a chunk
share one advantage. Size 1 is `turn`; a size no episode reaches is Monte Carlo.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from agentgym.errors import ConfigError
from agentgym.evaluation.report import Report
from agentgym.trainers.credit.chunk import ChunkGAE
from agentgym.trainers.critics.heads import TurnValueHead, value_head
from agentgym.trainers.recipes import turn
from agentgym.trainers.trainer import Trainer


@dataclass
class Config(turn.Config):
    """Settings of chunked credit."""

    chunk_size: int = 4
    """Turns of a chunk."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if self.chunk_size < 1:
            raise ConfigError(f"chunk_size must be at least 1, got {self.chunk_size}.")


def main(config: Config) -> list[Report]:
    """Trains a policy with chunked credit; returns its evaluations."""
    return Trainer(
        "chunk",
        config,
        credit=ChunkGAE(config.chunk_size, config.gamma, config.lambda_turn),
        critic=value_head(TurnValueHead, config),
    ).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("chunk", sys.argv[1:]))
