"""ORM: leave-one-out credit on returns predicted by an outcome reward model.

An outcome reward model predicts the return of an episode from its tokens, as in "WebRL: Training
LLM Web Agents via Self-Evolving Online Curriculum Reinforcement Learning" (arXiv 2411.02337), where
it replaces a checker that new tasks lack. Credit is leave-one-out on the predictions. The model is
trained on the environment's returns of every `label_every`-th group only, which shows how learning
degrades when outcomes are expensive to check. In a game, a label is that of all seats. The recipe
is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit import group
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.hooks.turn_judge import TurnJudge
from agentgym.trainers.settings import (
    CriticConfig,
    GroupRolloutConfig,
    LossConfig,
    NonNegative,
    Positive,
    RolloutConfig,
    all_but,
    defaults,
)
from agentgym.trainers.settings.kinds import SHAPING, RewardedConfig

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run
    from agentgym.trainers.update.learner import ForwardPass


@dataclass
class Config(RewardedConfig):
    """Settings of learning from an outcome reward model."""

    lacks: ClassVar[tuple[str, ...]] = (
        SHAPING,
        "filter_groups",
        "group_weight",
        *all_but(CriticConfig, "critic_warmup"),
    )

    critic: CriticConfig = defaults(CriticConfig)
    rollout: RolloutConfig = defaults(GroupRolloutConfig)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none")
    scale: bool = False
    """Divide by the group's standard deviation."""
    model_lr: NonNegative = 1e-3
    """Learning rate of the outcome model."""
    model_epochs: Positive = 4
    """Epochs of the outcome model over the labelled groups per iteration."""
    label_every: Positive = 2
    """The model is trained on the returns of every n-th group (1: all groups)."""


class OutcomeReward(TurnJudge):
    """Replaces returns by the predictions of a model.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    whole = True

    def __init__(self, trainer: Run, config: Config):
        super().__init__(trainer, lr=config.model_lr, epochs=config.model_epochs)
        self.label_every = config.label_every

    def on_rewards(
        self, batch: Batch, forward: ForwardPass | None, iteration: int, rng: np.random.Generator
    ) -> Batch:
        """Fits the model to the labelled groups and returns the batch with predicted returns."""
        labelled = np.flatnonzero(group.starts_of(batch) % self.label_every == 0)
        shown = Batch.of([batch.trajectories[i] for i in labelled.tolist()])
        truth = np.add.reduceat(batch.rewards, batch.turn_offsets[:-1])
        error = self.model.fit(shown, truth[labelled][shown.turn_trajectory], rng)[-1]
        last = batch.turn_offsets[1:] - 1
        predicted = self.model.predict(batch)[last]
        self.metrics = {
            "outcome_loss": error,
            "outcome_error": float(np.abs(predicted - truth).mean()),
        }
        rewards = np.zeros(batch.num_turns)
        rewards[last] = predicted
        return batch.with_rewards(rewards)


def build(config: Config) -> Algorithm:
    """Returns the parts of learning from an outcome reward model."""
    return Algorithm(
        PolicyGradient(group.GroupBaseline(leave_one_out=True, scale=config.scale)),
        outcomes="group",
        seats="shared",
        hooks=lambda trainer: OutcomeReward(trainer, config),
    )
