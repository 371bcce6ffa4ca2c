"""Filtered behaviour cloning: rejection sampling of the policy's best episodes.

Grow and improve as in "Reinforced Self-Training (ReST) for Language Modeling" (arXiv 2308.08998)
and AgentEvol (arXiv 2406.04151). In every iteration the policy plays, and the best `top_fraction`
of the episodes by return are cloned for a few epochs. It is the baseline for every claim about
credit assignment. `--judge` filters without a reward of the environment: by the score of a rule, a
function, a trained reward model or a language model, as a critic model does in "Training Agents
with Weakly Supervised Feedback from Large Language Models" (arXiv 2411.19547).

Kept: the filter by return. Changed: the clip of the ratio bounds how far one iteration moves the
policy. Training does not restart from the base model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import numpy as np
from annotated_types import Gt, Le

from agentgym.trainers.algorithm import Algorithm, Imitation
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.rewards.judged_episodes import mean_scores
from agentgym.trainers.rewards.shaping import scorer
from agentgym.trainers.rollout.env_pool import instructions_by_id
from agentgym.trainers.settings import LossConfig, defaults
from agentgym.trainers.settings.kinds import ImitationConfig

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run


@dataclass
class Config(ImitationConfig):
    """Settings of filtered behaviour cloning."""

    loss: LossConfig = defaults(LossConfig, normalize_advantages="none")
    top_fraction: Annotated[float, Gt(0.0), Le(1.0)] = 0.25
    """Share of the episodes of an iteration that are cloned."""
    min_return: float | None = None
    """Minimum return of a cloned episode, or score by the judge (None: no minimum)."""
    judge: str = ""
    """Ranks episodes by the mean score of their turns in place of their return. A source of
    `process_reward`: progress, valid, a reward term, module:function, judge:FOLDER,
    chat:MODEL@URL or rubric=FILE:chat:MODEL@URL (empty: returns)."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if self.judge:
            scorer(self.judge, option="judge")

    @property
    def score_sources(self) -> dict[str, str]:
        """Those of all recipes, and `judge`."""
        return {**super().score_sources, "judge": self.judge}


class Best(RecipeHooks):
    """Keeps the best episodes of an iteration and weighs all of their tokens equally.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    def __init__(self, trainer: Run, config: Config):
        super().__init__()
        self.fraction, self.low = config.top_fraction, config.min_return
        self.judge = config.judge
        if self.judge:
            self._scorer = scorer(self.judge, instructions_by_id(trainer.pool.env(0)))

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Returns the best episodes, or one to learn nothing from if all are below `min_return`."""
        scores = self._scores(fresh)
        # Ties between equal scores are broken at random, not by position.
        order = rng.permutation(len(fresh)).tolist()
        ranked = sorted(order, key=lambda i: -scores[i])
        kept = ranked[: math.ceil(self.fraction * len(fresh))]
        good = [i for i in kept if self.low is None or scores[i] >= self.low]
        shown = good or kept[:1]
        self.metrics = {"imitated": float(len(good)), "lowest_score": scores[shown[-1]]}
        turns = sum(len(fresh[i].turns) for i in shown)
        return Learn([fresh[i] for i in shown], np.full(turns, float(bool(good))))

    def _scores(self, fresh: list[Trajectory]) -> list[float]:
        """Returns the numbers that episodes are ranked by."""
        if not self.judge:
            return [trajectory.episode_return for trajectory in fresh]
        return mean_scores(Batch.of(fresh), self.judge, self._scorer)


def build(config: Config) -> Algorithm:
    """Returns the parts of filtered behaviour cloning."""
    return Algorithm(Imitation(), hooks=lambda trainer: Best(trainer, config))
