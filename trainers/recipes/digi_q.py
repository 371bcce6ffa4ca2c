"""Digi-Q: Q by temporal differences on frozen features, the best of N answers imitated.

arXiv 2502.15760, "Digi-Q: Learning Q-Value Functions for Training Device-Control Agents". The
critic is that of `archer` - TD learning of Q and V on frozen features - but the actor is not
updated by policy gradient: for observations from the buffer it draws N answers, the critic picks
the best, and that one is imitated if it beats the state's value.

Kept: frozen features, target networks with tau = 0.1, best-of-N extraction. Changed: the policy's
own features, without the authors' fine-tuning of the encoder for actions that matter.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import torch
from agentgym.trainers.critics.transitions import answer

from agentgym.errors import ConfigError
from agentgym.evaluation.report import Report
from agentgym.trainers.config import Normalize
from agentgym.trainers.credit.turn_rewards import TurnReward
from agentgym.trainers.recipes import archer
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.trajectory import Batch, Trajectory
from agentgym.trainers.update.learner import Reading
from agentgym.trainers.update.offline_losses import utterance_advantages


@dataclass
class Config(archer.Config):
    """Settings of Digi-Q."""

    normalize_advantages: Normalize = "none"
    """Bring advantages to mean 0 and deviation 1: over the round, each task, agent or group."""
    best_of: int = 8
    """Answers drawn for every observation."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if self.best_of < 1:
            raise ConfigError(f"best_of must be at least 1, got {self.best_of}.")
        why = "the best answers are imitated, all alike"
        self.fixed(why, normalize_advantages="none", kl_in="loss", overlong_margin=0)
        self.fixed(why, token_baseline=False)


class BestAnswers(archer.Hierarchy):
    """The utterance-level critic, and the answers it likes best."""

    def __init__(self, trainer: Trainer, config: Config):
        super().__init__(trainer, config)
        self.best_of = config.best_of

    def gather(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> list[Trajectory]:
        """Fills the buffer, fits the critic, returns the best answers to old observations."""
        config, best_of = self.config, self.best_of
        batch = Batch.of(fresh)
        self.buffer.add(batch, self.encoder.encode(batch))
        number = min(config.replayed, len(self.buffer))
        old = np.repeat(rng.choice(len(self.buffer), number, replace=False), best_of)
        prompts = [self.buffer.prompt(int(i)) for i in old]
        answers = answer(self.trainer.policy, prompts, config.sampling(), config.constrain, rng)
        self._fit(answers, rng)
        features = self.encoder.encode(Batch.of(answers))
        with torch.no_grad():
            q = self.critic.q(features.observation, features.action).min(0).values
        best = q.view(number, best_of).argmax(-1) + torch.arange(number) * best_of
        return [answers[i] for i in best.tolist()]

    def relabel(
        self, batch: Batch, reading: Reading | None, iteration: int, rng: np.random.Generator
    ) -> Batch:
        """Gives the answers that beat their state's value the weight 1, the others 0."""
        features = self.encoder.encode(batch)
        with torch.no_grad():
            q = self.critic.q(features.observation, features.action)
            v = self.critic.v(features.observation)
        better = (utterance_advantages(q, v) > 0).numpy()
        self.metrics["imitated"] = float(better.sum())
        return batch.with_rewards(better.astype(np.float64))


def main(config: Config) -> list[Report]:
    """Trains a policy with Digi-Q; returns its evaluations."""
    return Trainer(
        "digi_q",
        config,
        credit=TurnReward(),
        experience=lambda trainer: BestAnswers(trainer, config),
    ).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("digi_q", sys.argv[1:]))
