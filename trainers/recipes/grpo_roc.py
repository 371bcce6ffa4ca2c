"""GRPO-RoC: more episodes than are learned from, with the cleanest successes (rStar2-Agent).

"rStar2-Agent: Agentic Reasoning Technical Report" (arXiv 2508.20722, section 3.2). Outcome rewards
also reinforce the failed tool calls of an episode that succeeds in the end. *Resample on correct*
keeps half of a group: of the successes those with the smallest share of invalid actions, of the
failures a random sample, so that failures of all kinds remain. Both keep their shares of the group,
with at least `least` of each. GRPO learns from these episodes.

Kept: the resampling, no KL penalty, the higher upper clip. Changed: an invalid action of the
environment counts, in place of an error of the Python tool and a fault of the answer's format. The
successes with the smallest share are taken, as in the authors' code. In the paper, they are sampled
in inverse proportion to it. 8 of 16 episodes are kept (the paper: 16 of 32).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit import group
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.replay import members_by_group
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.settings import (
    Count,
    Fraction,
    GroupRolloutConfig,
    LossConfig,
    RolloutConfig,
    defaults,
)
from agentgym.trainers.settings.kinds import GroupConfig


@dataclass
class Config(GroupConfig):
    """Settings of GRPO-RoC."""

    rollout: RolloutConfig = defaults(GroupRolloutConfig, group_size=16, episodes_per_iteration=128)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none", clip_high=0.28)
    keep_share: Fraction = 0.5
    """Share of the episodes of a group that are learned from, at least two."""
    least: Count = 2
    """Successes, and failures, that stay at least, if there are any: at most half of the rest."""


class ResampleOnCorrect(RecipeHooks):
    """Drops episodes of each group.

    Args:
        keep: share of the episodes of a group that stay, at least two.
        least: number of successes, and of failures, that stay at least, if there are any. At most
            half of the episodes that stay.
    """

    def __init__(self, keep: float, least: int):
        super().__init__()
        self.keep, self.least = keep, least

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Returns the episodes that stay, in the order of the rollout."""
        invalid = [invalid_share(trajectory) for trajectory in fresh]
        stay = set[int]()
        for members in members_by_group(fresh):
            shuffled = rng.permutation(members).tolist()
            successes = [i for i in shuffled if fresh[i].success]
            failures = [i for i in shuffled if not fresh[i].success]
            successes.sort(key=lambda i: invalid[i])
            good, bad = self._counts(len(successes), len(failures))
            stay.update(successes[:good], failures[:bad])
        places = sorted(stay)
        self.metrics = {
            "invalid_played": float(np.mean(invalid)),
            "invalid_kept": float(np.mean([invalid[i] for i in places])),
        }
        return Learn([fresh[i] for i in places])

    def _counts(self, successes: int, failures: int) -> tuple[int, int]:
        """Returns how many of the successes and of the failures in a group stay."""
        played = successes + failures
        total = min(played, max(2, round(self.keep * played)))
        least = min(self.least, total // 2)
        low = max(min(least, successes), total - failures)
        high = min(successes, total - min(least, failures))
        good = max(low, min(high, round(total * successes / played)))
        return good, total - good


def invalid_share(trajectory: Trajectory) -> float:
    """Returns the share of an episode's actions that were invalid."""
    return float(np.mean([not turn.valid for turn in trajectory.turns]))


def build(config: Config) -> Algorithm:
    """Returns the parts of GRPO-RoC."""
    return Algorithm(
        PolicyGradient(group.GroupBaseline(scale=config.scale, outcome=config.outcome)),
        outcomes="group",
        hooks=lambda _: ResampleOnCorrect(config.keep_share, config.least),
    )
