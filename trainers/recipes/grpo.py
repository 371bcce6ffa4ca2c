"""GRPO: episodes with the same start are each other's baseline ("DeepSeekMath", arXiv 2402.03300).

"DeepSeekMath: Pushing the Limits of Mathematical Reasoning in Open Language Models", section 4.1.
No critic. `group_size` episodes begin in the same state; every token of an episode gets its return
against the group's, A = (R - mean) / std.

With `--no-scale --aggregation constant` this is Dr. GRPO ("Understanding R1-Zero-Like Training: A
Critical Perspective", arXiv 2503.20783). Kept: the credit. Changed: every token weighs the same
(the paper: `--aggregation trajectory`), and nothing holds the policy to where it started (the
paper: `--kl-coef 0.04`); both as in DAPO (arXiv 2503.14476).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

from agentgym.errors import ConfigError
from agentgym.evaluation.report import Report
from agentgym.trainers.config import Normalize, TrainConfig
from agentgym.trainers.credit import group
from agentgym.trainers.trainer import Trainer


@dataclass
class GroupConfig(TrainConfig):
    """Settings of learning from groups."""

    group_size: int = 8
    """Episodes with the same start; at least 2."""
    normalize_advantages: Normalize = "none"
    """Bring advantages to mean 0 and deviation 1: over the round, each task, agent or group."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if self.group_size < 2:
            raise ConfigError(
                f"group_size must be at least 2, got {self.group_size}: an episode without "
                "companions has nothing to be compared with."
            )


@dataclass
class Config(GroupConfig):
    """Settings of GRPO."""

    scale: bool = True
    """Divide by the group's standard deviation."""
    outcome: Literal["return", "success"] = "return"
    """What is compared: the sum of rewards, or 1 for success and 0 without."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if self.outcome == "success":
            self.fixed("only success is compared, not rewards", kl_in="loss", overlong_margin=0)


def main(config: Config) -> list[Report]:
    """Trains a policy with GRPO; returns its evaluations."""
    credit = group.GroupBaseline(scale=config.scale, outcome=config.outcome)
    return Trainer("grpo", config, credit=credit).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("grpo", sys.argv[1:]))
