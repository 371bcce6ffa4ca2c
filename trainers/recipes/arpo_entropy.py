"""ARPO: rollouts that branch at uncertain turns, with group-relative credit.

"Agentic Reinforced Policy Optimization" (arXiv 2507.19849). Some of a group's episodes are played
from the start. The others branch off them at turns whose entropy H_t has risen above H_0, that of
the first turn that the episode played itself: they take over the turns before and continue
differently. Shared beginnings receive the mean credit of their continuations, and the continuations
receive the difference.

Kept: the rule rand - alpha (H_t - H_0) <= beta with alpha = 0.2, beta = 0.5, turn by turn in the
order of play, at most one branch of an episode per turn, branches that branch again, episodes from
the start for the rest of the budget, as many branches as roots, GRPO over all leaves. Changed:
entropies are exact, over the whole action (the authors estimate them from the top ten tokens of its
first twenty), in units of the log of the number of legal tokens. A branch repeats the actions
before it in its environment, which equals a snapshot and works with any wrapper.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit import group
from agentgym.trainers.hooks.branching import Branching, BranchingConfig
from agentgym.trainers.settings import LossConfig, Positive, defaults


@dataclass
class Config(BranchingConfig):
    """Settings of branching rollouts."""

    loss: LossConfig = defaults(LossConfig, normalize_advantages="none")
    branches: Positive = 8
    """Branches per group, besides its `group_size` roots."""


def build(config: Config) -> Algorithm:
    """Returns the parts of ARPO."""
    return Algorithm(
        PolicyGradient(group.GroupBaseline(scale=config.scale, outcome=config.outcome)),
        seats="one",
        replays=True,
        hooks=lambda trainer: Branching(trainer, config, adaptive=False),
    )
