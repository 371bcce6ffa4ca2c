"""GiGPO: group-in-group policy optimisation (Feng et al., NeurIPS 2025, arXiv 2505.10978).

"Group-in-Group Policy Optimization for LLM Agent Training". No critic. An episode is compared with
the others of its group, as in GRPO, and each of its turns with all turns that the group took in the
same state (`info["state_key"]`): what the same situation led to elsewhere says how good this choice
was. The advantage is the sum of both, A_E + omega A_S.

Kept: both comparisons, the authors' discount of 0.95, groups of 8. Changed: an episode counts once
in its group's statistics, as in the paper, not once a turn as in its code (`statistics`); nothing
holds the policy to where it started (theirs: `kl_coef` 0.01).
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
class Config(grpo.GroupConfig):
    """Settings of GiGPO."""

    gamma: float = 0.95
    """Discount of the return that follows a turn."""
    omega: float = 1.0
    """Weight of the comparison of turns."""
    scale: bool = True
    """Divide by the standard deviation of what is compared."""
    statistics: Literal["trajectories", "steps"] = "trajectories"
    """What counts once in the comparison of episodes."""


def main(config: Config) -> list[Report]:
    """Trains a policy with GiGPO; returns its evaluations."""
    credit = group.GiGPO(config.gamma, config.omega, config.scale, config.statistics)
    return Trainer("gigpo", config, credit=credit).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("gigpo", sys.argv[1:]))
