"""Flow-GRPO: the verified outcome of an episode, broadcast to all of its turns.

`grpo` with this default: outcome success.

"In-the-Flow Agentic System Optimization for Effective Planning and Tool Use" (AgentFlow, arXiv
2510.05592). GRPO on success alone: S is 1 or 0, and all turns of an episode share the advantage
A = (S - mean) / std over the group. Intermediate rewards are ignored.

Kept: the credit, the clipped ratio per token. Changed: the upper clip is 0.2 (theirs: `--clip-high
0.3`), there is no KL penalty (theirs: `--kl-coef 0.001`), and all actions of an episode are
trained. Theirs are those of the planner, one of four modules: `--role-lr` 0 for the other roles of
the team planner-executor-verifier-generator, which shares a `memory` (`envs/team`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit import group
from agentgym.trainers.settings import LossConfig, defaults
from agentgym.trainers.settings.kinds import GroupConfig


@dataclass
class Config(GroupConfig):
    """Settings of Flow-GRPO."""

    loss: LossConfig = defaults(LossConfig, normalize_advantages="none")
    outcome: Literal["return", "success"] = "success"
    """Compared outcome: the return, or 1 for success and 0 otherwise."""


def build(config: Config) -> Algorithm:
    """Returns the parts of Flow-GRPO."""
    return Algorithm(
        PolicyGradient(group.GroupBaseline(scale=config.scale, outcome=config.outcome)),
        outcomes="group",
    )
