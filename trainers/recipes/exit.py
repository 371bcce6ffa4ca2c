"""Expert iteration: imitation of a search that plans from the policy's own states.

"Thinking Fast and Slow with Deep Learning and Tree Search" (Anthony et al., arXiv 1705.08439). In
every iteration the policy plays. From a sampled turn of each episode, a tree search plays on, and
the policy imitates its actions:

    loss = -log pi(a* | o),    a* = search(o)

Kept: a search as the teacher, states of the policy, imitation, and with `guided` a search whose
actions the policy proposes. Changed: the search also plays the turns that follow the sampled one.
It is imitated if it succeeds or returns more than the policy's own episode. The policy goes on from
its weights instead of from new ones, and there is no value network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from agentgym.agents import make_agent
from agentgym.trainers.algorithm import Algorithm
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit.turn_rewards import turn_credit
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.rollout.demonstrations import demonstrate
from agentgym.trainers.rollout.episode import EpisodeSpec, action_room, samples_of
from agentgym.trainers.settings import LossConfig, defaults
from agentgym.trainers.trajectory import Batch, Credit, Trajectory

if TYPE_CHECKING:
    from agentgym.trainers.trainer import Trainer
    from agentgym.trainers.update.learner import ForwardPass

SEARCHES = 3 << 20
"""Offset that separates the seeds of searches from those of other episodes."""


@dataclass
class Config(TrainConfig):
    """Settings of expert iteration."""

    loss: LossConfig = defaults(LossConfig, normalize_advantages="none", clip=1.0)
    teacher: str = "search:mcts,budget=64"
    """Agent whose actions are imitated, such as search:best_first,budget=128."""
    guided: bool = False
    """The policy proposes the actions of the search."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        self.fixed(
            "every imitated token has the same weight",
            normalize_advantages="none",
            covariance_clip=0.0,
        )
        self.fixed("the search goes on from every episode", filter_groups=False)

    @property
    def foreign_actions(self) -> bool:
        """True: the actions of the search are not the policy's own."""
        return True


class Teaching(RecipeHooks):
    """Replaces the rollout by episodes that a teacher plays on.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    games = False

    def __init__(self, trainer: Trainer, config: Config):
        super().__init__()
        self.trainer, self.config = trainer, config
        options = {}
        if config.guided:
            from agentgym.trainers.policy_agent.agent import PolicyAgent

            options["policy"] = PolicyAgent(
                trainer.policy,
                config.context_settings(),
                config.sampling(),
                constrain=config.rollout.constrain,
            )
        self.teacher = make_agent(config.teacher, **options)

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> list[Trajectory]:
        """Returns the episodes in which the teacher did well, or one to learn nothing from."""
        turns = [int(rng.integers(len(own.turns))) for own in fresh]
        played = self._play(fresh, turns, iteration)
        good = []
        for own, turn, taught in zip(fresh, turns, played, strict=True):
            taught.extras["taught_from"] = turn
            if taught.success or taught.episode_return > own.episode_return:
                good.append(taught)
        new = [len(taught.turns) - turn for taught, turn in zip(played, turns, strict=True)]
        searched = [taught.extras["costs"].get("search_steps", 0) for taught in played]
        self.env_steps = sum(new) + sum(searched)
        self.metrics = {
            "teacher_return": float(np.mean([taught.episode_return for taught in played])),
            "teacher_success": float(np.mean([taught.success for taught in played])),
            "imitated": len(good) / len(played),
        }
        return good or fresh[:1]

    def _play(self, fresh: list[Trajectory], turns: list[int], iteration: int) -> list[Trajectory]:
        """Returns the episodes, played on by the teacher from a turn."""
        trainer, config = self.trainer, self.config
        keys = [(config.run.seed, SEARCHES + iteration, i) for i in range(len(fresh))]
        episodes = [
            EpisodeSpec(own.task, own.seed, key, samples_of(own, turn))
            for own, key, turn in zip(fresh, keys, turns, strict=True)
        ]
        return demonstrate(
            trainer.policy,
            trainer.pool,
            episodes,
            trainer.context,
            action_room(trainer.policy, config.sampling(), config.rollout.constrain),
            constrain=config.rollout.constrain,
            teacher=self.teacher,
        )

    def credit(
        self, batch: Batch, forward: ForwardPass | None, iteration: int, rng: np.random.Generator
    ) -> Credit:
        """Returns the weight 1 for the tokens of the teacher, and 0 for those of the policy."""
        weights = [
            np.arange(len(each.turns)) >= each.extras.get("taught_from", len(each.turns))
            for each in batch.trajectories
        ]
        return turn_credit(np.concatenate(weights).astype(np.float64), batch)


def build(config: Config) -> Algorithm:
    """Returns the parts of expert iteration."""
    return Algorithm(hooks=lambda trainer: Teaching(trainer, config))
