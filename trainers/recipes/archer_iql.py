"""Offline ArCHer: implicit Q-learning over utterances, an advantage-weighted actor.

The offline variant of ArCHer (arXiv 2402.19446), with IQL, "Offline Reinforcement Learning with
Implicit Q-Learning" (arXiv 2110.06169, eq. 5-7): V(o) is an expectile
of Q(o, a) over the actions of a fixed data set, so the best of them are backed up without asking
what was never tried; the actor imitates what has an advantage, weighted by exp(beta A).

Kept: expectile 0.9, gamma = 0.99. Changed: twin networks as online, and the frozen encoder of
`archer`; beta is 5, as returns here are of the order of 1.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from agentgym.errors import ConfigError
from agentgym.evaluation.report import Report
from agentgym.trainers.credit.turn_rewards import AdvantageWeight
from agentgym.trainers.hooks import dataset as offline
from agentgym.trainers.recipes import archer
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.trajectory import Batch, Trajectory


@dataclass
class Config(offline.Config):
    """Settings of offline ArCHer."""

    gamma: float = 0.99
    """Discount from one turn to the next."""
    expectile: float = 0.9
    """Which expectile of Q is V; towards 1 it becomes the best action of the data."""
    beta: float = 5.0
    """How much better actions count more."""
    critic_steps: int = 200
    """Steps of the critic in a round."""
    critic_batch: int = 256
    """Turns in a step of the critic."""
    utterance_layers: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of Q and V."""
    tau: float = 0.1
    """How far the target networks move towards the others, every tenth step of the critic."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if not 0 < self.expectile < 1:
            raise ConfigError(f"expectile is between 0 and 1, got {self.expectile}.")
        self.online()

    def online(self) -> archer.Config:
        """Returns the settings of the critic, and checks them."""
        shared = {f.name for f in fields(archer.Config)} & {f.name for f in fields(self)}
        return archer.Config(**{name: getattr(self, name) for name in shared})


class OfflineHierarchy(archer.Hierarchy):
    """The utterance-level critic on a fixed data set."""

    plays = False

    def __init__(self, trainer: Trainer, config: Config):
        super().__init__(trainer, config.online(), config.expectile)
        self.data = offline.DataSet(trainer, config)

    def gather(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> list[Trajectory]:
        """Returns episodes of the data set; fits the critic to all of it."""
        chosen = self.data.gather(fresh, iteration, rng)
        self.env_steps = self.data.env_steps
        if not len(self.buffer):
            batch = Batch.of(self.data.kept.since(0))
            self.buffer.size = batch.num_turns
            self.buffer.add(batch, self.encoder.encode(batch))
        self._fit([], rng)
        return chosen

    def state_dict(self) -> dict[str, Any]:
        """Returns critic, optimiser, buffer, encoder and data set."""
        return super().state_dict() | {"data": self.data.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a checkpoint."""
        super().load_state_dict(state)
        self.data.load_state_dict(state["data"])


def main(config: Config) -> list[Report]:
    """Trains a policy on a fixed data set; returns its evaluations."""
    return Trainer(
        "archer_iql",
        config,
        credit=AdvantageWeight(config.beta),
        experience=lambda trainer: OfflineHierarchy(trainer, config),
    ).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("archer_iql", sys.argv[1:]))
