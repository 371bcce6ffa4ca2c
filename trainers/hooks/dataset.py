"""What offline recipes share: a data set of the expert's and the starting policy's episodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from agentgym.errors import ConfigError
from agentgym.trainers.config import Normalize, TrainConfig
from agentgym.trainers.hooks.base import Experience, ReplayBuffer
from agentgym.trainers.rollout.collector import Episode, action_room, collect, draw_tasks
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.trajectory import Trajectory
from agentgym.trainers.update.behaviour_cloning import demonstrate


@dataclass
class Config(TrainConfig):
    """Settings of learning from a fixed data set."""

    dataset_episodes: int = 256
    """Episodes of the starting policy in the data set."""
    dataset_demonstrations: int = 64
    """Episodes of the scripted expert in the data set."""
    normalize_advantages: Normalize = "none"
    """Bring advantages to mean 0 and deviation 1: over the round, each task, agent or group."""
    epochs: int = 1
    """Passes over what was collected."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        for name in ("dataset_episodes", "dataset_demonstrations"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must be at least 0, got {getattr(self, name)}.")
        if not self.dataset_episodes + self.dataset_demonstrations:
            raise ConfigError("The data set is empty: set dataset_episodes above 0.")
        self.fixed("nothing is played", filter_groups=False)
        self.fixed("advantages are weights of imitation", normalize_advantages="none")
        self.fixed("the data are not the policy's own", kl_in="loss")

    @property
    def recompute_logprobs(self) -> bool:
        """Always: what is learnt from need not be the policy's own."""
        return True


class DataSet(Experience):
    """Hands on a part of a fixed data set every round; the policy plays no more."""

    plays = False

    def __init__(self, trainer: Trainer, config: Config):
        super().__init__()
        self.trainer = trainer
        self.sizes = config.dataset_demonstrations, config.dataset_episodes
        self.count = config.episodes_per_iteration
        self.kept = ReplayBuffer(max(1, sum(self.sizes)))

    def gather(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> list[Trajectory]:
        """Returns episodes of the data set, drawn at random."""
        self.env_steps = 0
        if not len(self.kept):
            self.kept.add(self._make(rng), 0)
            self.env_steps = sum(len(t.turns) for t in self.kept.since(0))
        everything = self.kept.since(0)
        count = min(self.count, len(everything))
        return [everything[i] for i in rng.choice(len(everything), count, replace=False)]

    def _make(self, rng: np.random.Generator) -> list[Trajectory]:
        trainer, (shown, played) = self.trainer, self.sizes
        config = trainer.config
        starts = draw_tasks(trainer.tasks, shown + played, rng, config.train_tasks)
        episodes = [
            Episode(task, seed, (config.seed, 1 << 30, i)) for i, (task, seed) in enumerate(starts)
        ]
        policy, sampling, constrain = trainer.policy, config.sampling(), config.constrain
        room = action_room(policy, sampling, constrain)
        found = demonstrate(
            policy, trainer.pool, episodes[:shown], trainer.context, room, constrain
        )
        return found + collect(
            policy,
            trainer.pool,
            episodes[shown:],
            trainer.context,
            sampling,
            constrain=constrain,
        )

    def state_dict(self) -> dict[str, Any]:
        """Returns the data set."""
        return {"kept": self.kept.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a checkpoint."""
        self.kept.load_state_dict(state["kept"])
