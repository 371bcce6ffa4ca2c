"""A fixed data set for offline recipes: episodes of files or the expert, and of the policy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from agentgym.errors import ConfigError
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.replay import ReplayBuffer
from agentgym.trainers.data.streams import stream
from agentgym.trainers.data.trajectory import Trajectory, judged_ones
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.imitation.demonstrations import demonstrate, read_data, with_general
from agentgym.trainers.rollout.action_room import action_room
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.rollout.task_sampling import draw_tasks
from agentgym.trainers.settings import Count, LossConfig, OptimisationConfig, defaults
from agentgym.trainers.settings.kinds import OFFLINE, ImitationConfig

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run


@dataclass
class DatasetConfig:
    """The data set of an offline recipe."""

    dataset_episodes: Count = 256
    """Episodes of the starting policy in the data set."""
    dataset_demonstrations: Count = 64
    """Episodes of the scripted expert in the data set. With `data`, its episodes replace them."""


@dataclass
class OfflineConfig(ImitationConfig):
    """Settings of an offline recipe that clones its data, by default with equal weights."""

    described: ClassVar[str] = "recipes that learn from a fixed data set, such as bc and ilql"
    lacks: ClassVar[tuple[str, ...]] = OFFLINE

    dataset: DatasetConfig = defaults(DatasetConfig)
    optimisation: OptimisationConfig = defaults(OptimisationConfig, epochs=1)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none", ratio="none")

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        sizes = self.dataset
        if not (sizes.dataset_episodes + sizes.dataset_demonstrations or self.cloning.data):
            raise ConfigError("The data set is empty: set dataset_episodes above 0, or name data.")


class DataSet(RecipeHooks):
    """Returns a sample of a fixed data set in every iteration. The policy plays no episodes.

    Args:
        trainer: the trainer of the policy.
        dataset: the size of the data set.
        rewarded: whether the recipe learns from rewards.
    """

    def __init__(self, trainer: Run, dataset: DatasetConfig, *, rewarded: bool = True):
        super().__init__()
        self.trainer, self.rewarded = trainer, rewarded
        self.sizes = dataset.dataset_demonstrations, dataset.dataset_episodes
        self.count = trainer.config.rollout.episodes_per_iteration
        self.kept = ReplayBuffer(None)
        # Before the first evaluation, so that wrong files are found early.
        new = trainer.config.cloning.data and trainer.folder.latest() is None
        self._from_files = self._read() if new else None

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Returns a random sample of the data set."""
        self.env_steps = 0
        if not len(self.kept):
            self.kept.add(self._make(rng), 0)
        everything = self.kept.since(0)
        count = min(self.count, len(everything))
        return Learn([everything[i] for i in rng.choice(len(everything), count, replace=False)])

    def _make(self, rng: np.random.Generator) -> list[Trajectory]:
        trainer, (shown, played) = self.trainer, self.sizes
        config, policy, context = trainer.config, trainer.policy, trainer.context
        constrain = config.rollout.constrain
        from_files: list[Trajectory] = []
        if config.cloning.data:
            from_files = self._read() if self._from_files is None else self._from_files
            self._from_files, shown = None, 0
        starts = draw_tasks(trainer.tasks, shown + played, rng, config.environment.train_tasks)
        episodes = [
            EpisodeSpec(task, seed, stream(config.run.seed, "data set", i))
            for i, (task, seed) in enumerate(starts)
        ]
        room = action_room(policy, config.sampling(), constrain)
        found = demonstrate(policy, trainer.pool, episodes[:shown], context, room, constrain)
        self.env_steps = sum(len(trajectory.turns) for trajectory in found)
        found = judged_ones(found)
        found += judged_ones(trainer.play(episodes[shown:]))
        return with_general(policy, [*from_files, *found], context, config)

    def _read(self) -> list[Trajectory]:
        """Returns the episodes of the files of the settings."""
        trainer = self.trainer
        return read_data(
            trainer.policy,
            trainer.pool.env(0),
            trainer.context,
            trainer.config,
            constrain=trainer.config.rollout.constrain,
            rewarded=self.rewarded,
        )

    def state_dict(self) -> dict[str, Any]:
        """Returns the data set."""
        return {"kept": self.kept.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        self.kept.load_state_dict(state["kept"])


def expert_rollout(
    trainer: Run, starts: Iterable[tuple[str, int]], iteration: int
) -> list[Trajectory]:
    """Returns episodes of the scripted expert under the turn limits of an iteration.

    Args:
        trainer: the trainer of the policy that learns from them.
        starts: the task and the seed of each episode.
        iteration: the number of finished iterations.

    Raises:
        ConfigError: if the environment has no expert.
    """
    constrain = trainer.config.rollout.constrain
    return demonstrate(
        trainer.policy,
        trainer.pool,
        [
            EpisodeSpec(task, seed, (i,), max_turns=trainer.turn_limit(task, iteration))
            for i, (task, seed) in enumerate(starts)
        ],
        trainer.context,
        action_room(trainer.policy, trainer.config.sampling(), constrain),
        constrain=constrain,
    )
