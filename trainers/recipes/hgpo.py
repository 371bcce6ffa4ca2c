"""HGPO: groups of steps by how much history they share (arXiv 2602.22817).

"Hierarchy-of-Groups Policy Optimization for Long-Horizon Agentic Tasks". Like GiGPO, turns taken in
the same state are compared; here at several levels, where level k asks that the last k states
agree, and longer shared histories weigh more.

Kept: levels up to history + 1, weights proportional to (k + 1)^alpha. Changed: a level whose
advantage happens to be 0 still counts (the authors' code drops it).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from agentgym.errors import ConfigError
from agentgym.evaluation.report import Report
from agentgym.trainers.credit import group
from agentgym.trainers.recipes import grpo
from agentgym.trainers.trainer import Trainer


@dataclass
class Config(grpo.GroupConfig):
    """Settings of HGPO."""

    scale: bool = True
    """Divide by the standard deviation of what is compared."""
    gamma: float = 0.95
    """Discount of the return that follows a turn."""
    history: int = 2
    """Earlier states that count."""
    alpha: float = 1.0
    """How much more a longer shared history weighs."""
    episode_level: bool = True
    """Also compare episodes with their group, as a level without any history."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if self.history < 0:
            raise ConfigError(f"history must be at least 0, got {self.history}.")


def main(config: Config) -> list[Report]:
    """Trains a policy with HGPO; returns its evaluations."""
    credit = group.HGPO(
        config.history, config.alpha, config.gamma, config.scale, config.episode_level
    )
    return Trainer("hgpo", config, credit=credit).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("hgpo", sys.argv[1:]))
