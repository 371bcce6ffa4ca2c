"""Digi-Q: best-of-N distillation with a TD-learned Q on frozen features.

"Digi-Q: Learning Q-Value Functions for Training Device-Control Agents" (arXiv 2502.15760). The
critic is that of `archer`: TD learning of Q and V on frozen features. The actor is not updated by
policy gradient. For observations from the buffer it samples N actions. The critic selects the best
one, and the policy is fitted to it if its Q exceeds the value of the state.

Kept: frozen features, target networks with tau = 0.1, best-of-N extraction. Changed: the buffer is
filled by the policy's own rollouts (the paper works offline on a static data set). The features are
the policy's own, without the authors' fine-tuning stage of the encoder.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit.turn_rewards import turn_credit
from agentgym.trainers.critics.transitions import answer
from agentgym.trainers.hooks.utterance_critic import UtteranceConfig, UtteranceHooks
from agentgym.trainers.settings import CriticConfig, Fraction, LossConfig, Positive, defaults
from agentgym.trainers.trainer import Algorithm, Trainer
from agentgym.trainers.trajectory import Batch, Credit, Trajectory
from agentgym.trainers.update.learner import ForwardPass
from agentgym.trainers.update.offline_losses import utterance_advantages


@dataclass
class Config(TrainConfig):
    """Settings of Digi-Q."""

    utterance: UtteranceConfig = defaults(UtteranceConfig)
    critic: CriticConfig = defaults(CriticConfig, critic_warmup=2)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none")
    gamma: Fraction = 0.95
    """Discount between turns."""
    best_of: Positive = 8
    """Actions sampled per observation."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        self.fixed("every selected action has the same weight", normalize_advantages="none")


class BestActions(UtteranceHooks):
    """Fits the policy to the sampled actions that the utterance-level critic prefers.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    def __init__(self, trainer: Trainer, config: Config):
        super().__init__(trainer, config.utterance, config.gamma)
        self.best_of = config.best_of

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> list[Trajectory]:
        """Adds turns to the buffer, fits the critic, returns the best actions."""
        best_of = self.best_of
        batch = Batch.of(fresh)
        self.buffer.add(batch, self.encoder.encode(batch))
        number = min(self.settings.replayed, len(self.buffer))
        old = np.repeat(rng.choice(len(self.buffer), number, replace=False), best_of)
        prompts = [self.buffer.prompt(int(i)) for i in old]
        answers = answer(self.trainer.act, prompts, self.trainer.config.rollout.constrain, rng)
        self._fit(answers, rng)
        features = self.encoder.encode(Batch.of(answers))
        with torch.no_grad():
            q = self.critic.q(features.observation, features.action).min(0).values
        best = q.view(number, best_of).argmax(-1) + torch.arange(number) * best_of
        return [answers[i] for i in best.tolist()]

    def credit(
        self, batch: Batch, forward: ForwardPass | None, iteration: int, rng: np.random.Generator
    ) -> Credit:
        """Returns the weight 1 for actions that exceed their state's value, else 0."""
        q, v = self._values(batch)
        better = (utterance_advantages(q, v) > 0).numpy()
        self.metrics["imitated"] = float(better.sum())
        return turn_credit(better, batch)


def build(config: Config) -> Algorithm:
    """Returns the parts of Digi-Q."""
    return Algorithm(hooks=lambda trainer: BestActions(trainer, config))
