"""AEPO: branching rollouts on a budget of entropy, the successor of ARPO (arXiv 2510.14545).

"Agentic Entropy-Balanced Policy Optimization" (Dong et al.). Groups whose uncertainty rises after
the first turn get more branches than others, and each branch at an episode makes the next one there
less likely, so that one confusing episode does not take the whole budget.

Kept: both balances. Changed: the share of a group is 2 branches sigmoid(4 (H_max - H_0)); the
authors' clipping that keeps the gradient of uncertain tokens is left out - `clip_high` and
`entropy_floor` serve that end here.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from agentgym.evaluation.report import Report
from agentgym.trainers.recipes import arpo_entropy


@dataclass
class Config(arpo_entropy.Config):
    """Settings of AEPO."""

    adaptive: bool = True
    """Share branches out by how much the entropy rises in a group, and spread them over its roots
    (AEPO)."""
    clip_high: float | None = 0.28
    """Upper clip; None: the same as `clip`."""


def main(config: Config) -> list[Report]:
    """Trains a policy with AEPO; returns its evaluations."""
    return arpo_entropy.train("aepo", config)


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("aepo", sys.argv[1:]))
