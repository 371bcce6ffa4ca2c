"""LOOP: leave-one-out returns, a clipped ratio for each token, no critic (arXiv 2502.01600).

"Reinforcement Learning for Long-Horizon Interactive LLM Agents": every episode of a group is
compared with the mean of the others, without a standard deviation, a critic or a reference, and
what was collected is used for two passes. `ratio` sets what is clipped as a whole - the paper finds
token better than turn, and turn better than trajectory.

A_i = R_i - mean of the others' R. Kept: K = 6, the clip to [1 / (1 + eps), 1 + eps] with eps = 0.1,
two passes. Changed: tokens with a tiny advantage are not dropped; their gradient is tiny.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from agentgym.evaluation.report import Report
from agentgym.trainers.credit import group
from agentgym.trainers.recipes import rloo
from agentgym.trainers.trainer import Trainer


@dataclass
class Config(rloo.Config):
    """Settings of LOOP."""

    group_size: int = 6
    """Episodes with the same start; at least 2."""
    episodes_per_iteration: int = 96
    """Episodes collected in a round."""
    clip: float = 1 - 1 / 1.1
    """The ratio is clipped to [1 - clip, 1 + clip_high]."""
    clip_high: float | None = 0.1
    """Upper clip; None: the same as `clip`."""


def main(config: Config) -> list[Report]:
    """Trains a policy with LOOP; returns its evaluations."""
    credit = group.GroupBaseline(leave_one_out=True, scale=config.scale, outcome=config.outcome)
    return Trainer("loop", config, credit=credit).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("loop", sys.argv[1:]))
