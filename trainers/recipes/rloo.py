"""RLOO: REINFORCE leave-one-out (Ahmadian et al., arXiv 2402.14740).

"Back to Basics: Revisiting REINFORCE Style Optimization for Learning from Human Feedback in LLMs".
No critic. Every episode of a group with the same start is compared with the mean return of the
*others*, A_i = R_i - sum_{j != i} R_j / (n - 1), which makes the baseline unbiased.

Kept: the credit. Changed: a clipped ratio for each token, which makes it LOOP (arXiv 2502.01600),
and no divergence taken off the reward (`--kl-in reward --kl-coef ...`).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from agentgym.evaluation.report import Report
from agentgym.trainers.credit import group
from agentgym.trainers.recipes import grpo
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
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("rloo", sys.argv[1:]))
