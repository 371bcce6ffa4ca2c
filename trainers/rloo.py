"""RLOO: REINFORCE leave-one-out ("Back to Basics", arXiv 2402.14740).

No critic. Every episode of a group with the same start is compared with the mean return of the
*others*, which makes the baseline unbiased. With a clipped ratio for each token, as here, this is
LOOP (arXiv 2502.01600).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from agentgym.report import Report
from agentgym.trainers import grpo
from agentgym.trainers.credit import group
from agentgym.trainers.trainer import Trainer


@dataclass
class Config(grpo.Config):
    """Settings of RLOO."""

    scale: bool = False
    """Divide by the group's standard deviation."""


def main(config: Config) -> list[Report]:
    """Trains a policy with RLOO; returns its evaluations."""
    credit = group.GroupBaseline(leave_one_out=True, scale=config.scale, outcome=config.outcome)
    return Trainer("rloo", config, credit=credit).run()


if __name__ == "__main__":
    from agentgym.trainers.cli import main as command

    sys.exit(command("rloo", sys.argv[1:]))
