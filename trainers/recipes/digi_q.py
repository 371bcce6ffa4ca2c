"""Digi-Q: offline best-of-N distillation with a TD-learned Q on fine-tuned features.

"Digi-Q: Learning Q-Value Functions for Training Device-Control Agents" (arXiv 2502.15760). It
learns from a fixed data set, in three stages. A copy of the policy is fine-tuned to predict whether
an action changes the state, so that its features show the effects of actions. On these features,
frozen from then on, twin Q(o, a) and V(o) of the data are learned by temporal differences:

    Q_k(o, a) <- r + gamma (1 - terminated) V'_k(o'),    V_k(o) <- Q'_k(o, a)

For observations of the data, the critic then selects the best of N actions: the one in the data and
N - 1 samples. The policy is fitted to it if its advantage over the state exceeds a threshold.

Kept: the offline data, binary cross-entropy of state changes as the representation stage, frozen
features, backups of the action in the data, target networks with tau = 0.1, best-of-N extraction
with the threshold. Changed: a state has changed if its `state_key` has (theirs: the distance
between screenshots). Samples are of the current policy, and critic and policy are trained in turns
after `critic_warmup` iterations of the critic alone. Advantages are min Q - min V (their code: max
Q - max V), and the policy is fitted with a clipped ratio.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import binary_cross_entropy_with_logits

from agentgym.trainers.algorithm import Algorithm, Imitation
from agentgym.trainers.critics.transitions import prompt_of, turns_of
from agentgym.trainers.critics.value_model import action_model
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.answers import answer
from agentgym.trainers.hooks.dataset import DataSet, OfflineConfig
from agentgym.trainers.hooks.utterance_critic import UtteranceConfig, UtteranceHooks
from agentgym.trainers.settings import (
    Count,
    CriticConfig,
    EndConfig,
    Fraction,
    LossConfig,
    NonNegative,
    Positive,
    all_but,
    defaults,
)
from agentgym.trainers.update.losses import Sum
from agentgym.trainers.update.offline_losses import utterance_advantages

if TYPE_CHECKING:
    from torch import Tensor

    from agentgym.trainers.hooks.run import Run


@dataclass
class Config(OfflineConfig):
    """Settings of Digi-Q."""

    lacks: ClassVar[tuple[str, ...]] = (
        "general_data",  # it has no rewards
        *all_but(CriticConfig, "critic_lr", "critic_warmup"),
    )

    utterance: UtteranceConfig = defaults(UtteranceConfig)
    critic: CriticConfig = defaults(CriticConfig, critic_warmup=2)
    ends: EndConfig = defaults(EndConfig)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none")
    gamma: Fraction = 0.9
    """Discount between turns."""
    replayed: Positive = 256
    """Observations of the data per iteration for which actions are sampled."""
    best_of: Positive = 8
    """Actions per observation, the one in the data among them."""
    threshold: NonNegative = 0.05
    """Advantage above which the best action is imitated."""
    representation_epochs: Count = 2
    """Epochs in which the features are fine-tuned to predict changes of the state."""
    representation_lr: NonNegative = 1e-3
    """Learning rate of the features."""


class BestActions(UtteranceHooks):
    """Fits the policy to the actions that the utterance-level critic prefers.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    def __init__(self, trainer: Run, config: Config):
        super().__init__(trainer, config.utterance, config.gamma, expectile=0.5)
        self.config, self.data = config, DataSet(trainer, config.dataset)

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Fits the critic to the data and returns the best actions for some of its observations.

        Those whose advantage exceeds the threshold have the weight 1, the others 0.
        """
        chosen = self.data.on_rollout_end(fresh, iteration, rng)
        self.env_steps = self.data.env_steps
        if not len(self.buffer):
            self._represent(Batch.of(self.data.kept.since(0)), rng)
        self._fit([], rng)
        turns = [turn for trajectory in chosen.trajectories for turn in turns_of(trajectory)]
        number = min(self.config.replayed, len(turns))
        shown = [turns[i] for i in rng.choice(len(turns), number, replace=False)]
        extra = self.config.best_of - 1
        prompts = [prompt_of(trajectory) for trajectory in shown for _ in range(extra)]
        answers = answer(self.trainer, prompts, rng)
        several = [[t, *answers[i * extra : (i + 1) * extra]] for i, t in enumerate(shown)]
        everything = Batch.of([each for some in several for each in some])
        features = self.encoder.encode(everything)
        with torch.no_grad():
            q = self.critic.q(features.observation, features.action).min(0).values
        best = q.view(number, self.config.best_of).argmax(-1).tolist()
        found = [some[i] for some, i in zip(several, best, strict=True)]
        q, v = self._values(Batch.of(found))
        better = (utterance_advantages(q, v) > self.config.threshold).numpy()
        self.metrics["imitated"] = float(better.sum())
        return Learn(found, better)

    def _represent(self, batch: Batch, rng: np.random.Generator) -> None:
        """Fine-tunes the encoder to predict changes of the state, and fills the buffer."""
        config = self.config
        if config.representation_epochs:
            model = action_model(
                self.trainer.policy,
                seed=config.run.seed,
                lr=config.representation_lr,
                epochs=config.representation_epochs,
                loss=binary_loss,
            )
            self.metrics["representation_loss"] = model.fit(batch, state_changes(batch), rng)[-1]
            self.encoder.policy.load_own_weights(model.trunk.own_weights())
        self.remember(batch)

    def state_dict(self) -> dict[str, Any]:
        """Returns critic, optimiser, buffer, data set and the fine-tuned features."""
        features = self.encoder.policy.own_weights()
        return super().state_dict() | {"data": self.data.state_dict(), "features": features}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        super().load_state_dict(state)
        self.data.load_state_dict(state["data"])
        self.encoder.policy.load_own_weights(state["features"])

    def frozen_state(self) -> dict[str, Any]:
        """Returns nothing: the features change in the first iteration."""
        return {}

    def load_frozen_state(self, state: dict[str, Any]) -> None:
        """Restores nothing."""


def state_changes(batch: Batch) -> NDArray[np.bool_]:
    """Returns whether the action of each turn changed the state [M].

    The state after the last turn of an episode is compared by the observation.
    """
    turns = batch.turns
    changed = np.array(
        [a.state_key != b.state_key for a, b in zip(turns, [*turns[1:], turns[0]], strict=True)]
    )
    for trajectory, last in zip(batch.trajectories, batch.turn_offsets[1:] - 1, strict=True):
        changed[last] = trajectory.final_observation != turns[last].observation
    return changed


def binary_loss(values: Tensor, targets: Tensor, index: Tensor, batch: Batch) -> Sum:
    """Returns the binary cross-entropy of logits [k], given one target in [0, 1] per turn [M]."""
    total = binary_cross_entropy_with_logits(values, targets[index], reduction="sum")
    return Sum(total, values.new_tensor(float(len(values))))


def build(config: Config) -> Algorithm:
    """Returns the parts of Digi-Q."""
    return Algorithm(Imitation(), data="fixed", hooks=lambda trainer: BestActions(trainer, config))
