"""Offline ArCHer: implicit Q-learning over utterances with an advantage-weighted actor.

The offline variant of ArCHer (arXiv 2402.19446) with IQL, "Offline Reinforcement Learning with
Implicit Q-Learning" (arXiv 2110.06169, eq. 5-7). V(o) is an expectile of Q(o, a) over the actions
of a fixed data set, so its best actions are backed up without evaluating actions outside it. The
actor is trained by behaviour cloning of the data with the weights exp(beta A), A = min Q - min V.

Kept: expectile 0.9, gamma = 0.99. Changed: twin networks as online. The encoder is a frozen copy of
the policy before RL (the authors train theirs). beta is 5, since returns are of the order of 1, and
weights are at most 20.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from annotated_types import Gt, Lt

from agentgym.trainers.algorithm import Algorithm, Imitation
from agentgym.trainers.credit.turn_rewards import weights_of
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.dataset import DataSet, OfflineConfig
from agentgym.trainers.hooks.utterance_critic import UtteranceConfig, UtteranceHooks
from agentgym.trainers.settings import (
    CriticConfig,
    EndConfig,
    Fraction,
    NonNegative,
    all_but,
    defaults,
)
from agentgym.trainers.settings.kinds import RATIO
from agentgym.trainers.update.offline_losses import utterance_advantages

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run


@dataclass
class Config(OfflineConfig):
    """Settings of offline ArCHer."""

    lacks: ClassVar[tuple[str, ...]] = (
        *RATIO,
        *all_but(CriticConfig, "critic_lr", "critic_warmup"),
    )

    critic: CriticConfig = defaults(CriticConfig)
    ends: EndConfig = defaults(EndConfig)
    utterance: UtteranceConfig = defaults(UtteranceConfig)
    gamma: Fraction = 0.99
    """Discount between turns."""
    expectile: Annotated[float, Gt(0.0), Lt(1.0)] = 0.9
    """Expectile of Q that V follows. Towards 1 it approaches the best action of the data."""
    beta: NonNegative = 5.0
    """Inverse temperature of the weights exp(beta A)."""


class OfflineUtteranceHooks(UtteranceHooks):
    """Fits the utterance-level critic to a fixed data set.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    def __init__(self, trainer: Run, config: Config):
        super().__init__(trainer, config.utterance, config.gamma, expectile=config.expectile)
        self.data, self.beta = DataSet(trainer, config.dataset), config.beta

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Fits the critic to the data and returns a sample with weights min(exp(beta A), 20)."""
        chosen = self.data.on_rollout_end(fresh, iteration, rng)
        self.env_steps = self.data.env_steps
        if not len(self.buffer):
            self.remember(Batch.of(self.data.kept.since(0)))
        self._fit([], rng)
        q, v = self._values(Batch.of(chosen.trajectories))
        self.metrics["utterance_value"] = float(v.mean())
        advantages = utterance_advantages(q, v).numpy()
        return Learn(chosen.trajectories, weights_of(advantages, self.beta))

    def state_dict(self) -> dict[str, Any]:
        """Returns critic, optimiser, buffer and data set."""
        return super().state_dict() | {"data": self.data.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        super().load_state_dict(state)
        self.data.load_state_dict(state["data"])


def build(config: Config) -> Algorithm:
    """Returns the parts of offline ArCHer."""
    return Algorithm(
        Imitation(), data="fixed", hooks=lambda trainer: OfflineUtteranceHooks(trainer, config)
    )
