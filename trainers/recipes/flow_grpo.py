"""Flow-GRPO: one verified outcome, sent to every turn (AgentFlow, arXiv 2510.05592).

"In-the-Flow Agentic System Optimization for Effective Planning and Tool Use". GRPO whose only
signal is whether the episode succeeded: 1 or 0, compared within the group and broadcast to all
turns, A = (S - mean) / std. Intermediate rewards are ignored.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

from agentgym.evaluation.report import Report
from agentgym.trainers.credit import group
from agentgym.trainers.recipes import grpo
from agentgym.trainers.trainer import Trainer


@dataclass
class Config(grpo.Config):
    """Settings of Flow-GRPO."""

    outcome: Literal["return", "success"] = "success"
    """What is compared: the sum of rewards, or 1 for success and 0 without."""


def main(config: Config) -> list[Report]:
    """Trains a policy with Flow-GRPO; returns its evaluations."""
    credit = group.GroupBaseline(scale=config.scale, outcome=config.outcome)
    return Trainer("flow_grpo", config, credit=credit).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("flow_grpo", sys.argv[1:]))
