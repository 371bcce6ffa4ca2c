"""AEPO: branching rollouts on an entropy budget, the successor of ARPO.

`arpo_entropy` with these defaults: branches 4, clip_high 0.28, surrogate aepo, and a budget of
branches that follows the entropy.

"Agentic Entropy-Balanced Policy Optimization" (Dong et al., arXiv 2510.14545). Groups whose
entropy rises after the first turn get more branches, and after n turns in a row at which a group
branched, an episode of it branches with a lower probability, where

    (1 - 0.05 n) (u + alpha (H_t - H_0)) >= 1 - beta,    u uniform in [0, 1],

so a single uncertain stretch does not use up the budget. With n = 0 it is the rule of
`arpo_entropy`. From n = 10 on, beta = 0.5 allows a branch where the entropy has risen only.

The update favours uncertain tokens: the upper clip keeps their gradient (`surrogate`), and
their advantages are multiplied by 1 + entropy_weight * (H - mean H) / std H.

Kept: all four balances with the numbers of the authors' code (0.05, 0.2, and a factor of 0.5 in the
sigmoid), and the order of play (see `arpo_entropy`). Changed: the number of roots is fixed, and a
group gets 2 branches sigmoid(0.5 (mean H_t - H_0)) branches besides (theirs: about a share of
sigmoid(0.5 (H_0 - mean H)) of a fixed number of episodes are roots, by an episode played before).
Their scripts turn this number off. Advantages are weighed by entropies of the behaviour policy over
the batch (theirs: of the current policy over a microbatch). The factor is at least 0: it would
turn the sign where the entropy lies more than 1 / entropy_weight deviations below the mean.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit import group
from agentgym.trainers.hooks.branching import Branching, BranchingConfig
from agentgym.trainers.settings import LossConfig, NonNegative, defaults


@dataclass
class Config(BranchingConfig):
    """Settings of AEPO."""

    loss: LossConfig = defaults(
        LossConfig, normalize_advantages="none", clip_high=0.28, surrogate="aepo"
    )
    entropy_weight: NonNegative = 0.2
    """Increase of a token's advantage per standard deviation of its entropy."""


def build(config: Config) -> Algorithm:
    """Returns the parts of AEPO."""
    return Algorithm(
        PolicyGradient(group.GroupBaseline(scale=config.scale, outcome=config.outcome)),
        seats="one",
        replays=True,
        hooks=lambda trainer: Branching(
            trainer, config, adaptive=True, entropy_weight=config.entropy_weight
        ),
    )
