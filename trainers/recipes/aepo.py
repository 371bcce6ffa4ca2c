"""AEPO: branching rollouts on an entropy budget, the successor of ARPO.

"Agentic Entropy-Balanced Policy Optimization" (Dong et al., arXiv 2510.14545). Groups whose
entropy rises after the first turn get more branches, and each branch of an episode makes the next
one there less likely, so a single uncertain episode does not use up the budget.

The update favours uncertain tokens: the upper clip keeps their gradient (`clip_gradient`), and
their advantages are multiplied by 1 + entropy_weight * (H - mean H) / std H.

Kept: all four balances, and the order of play (see `arpo_entropy`). Changed: a group gets 2
branches sigmoid(4 (mean H_t - H_0)) branches besides its roots, instead of a share of a fixed
number of episodes. Every branch of an episode at the turns just before halves the probability of
the next one. `entropy_weight` and the factor 4 are ours.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.trainers.algorithm import Algorithm
from agentgym.trainers.credit import group
from agentgym.trainers.hooks.branching import Branching, BranchingConfig
from agentgym.trainers.settings import LossConfig, NonNegative, defaults


@dataclass
class Config(BranchingConfig):
    """Settings of AEPO."""

    loss: LossConfig = defaults(
        LossConfig, normalize_advantages="none", clip_high=0.28, clip_gradient=True
    )
    entropy_weight: NonNegative = 0.2
    """Increase of a token's advantage per standard deviation of its entropy."""


def build(config: Config) -> Algorithm:
    """Returns the parts of AEPO."""
    return Algorithm(
        credit=group.GroupBaseline(scale=config.scale, outcome=config.outcome),
        hooks=lambda trainer: Branching(
            trainer, config, adaptive=True, entropy_weight=config.entropy_weight
        ),
    )
