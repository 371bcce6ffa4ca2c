"""InversePRM: turn rewards learned from demonstrations, without any reward of the environment.

"Process Reward Models for LLM Agents: Practical Framework and Directions" (Choudhury, arXiv
2502.10325, section 4). A model Q(s, a) is trained so that its implied reward tells the scripted
expert (label 1) from the policy (label 0) by binary cross-entropy, as in IQ-Learn:

    r(s, a) = Q(s, a) - gamma Q(s', a'),    a' ~ pi(.|s'),    Q = 0 after the end.

The implied rewards are those of turn-level PPO, with a state-value critic.

Kept: the loss, an a' sampled anew from the policy after turns of the expert, gamma = 0.95, equal
weights of both labels. Changed: Q(s', a') has no gradient and is that of the iteration before, the
expert plays in every iteration, and the policy is updated by PPO (the paper's method: online DPO).
The turn limit ends an episode for Q, as theirs, but not for the critic, whose value there is part
of the advantages.
`lr_by_reliability` is off: implied rewards change in every iteration and are similar in all turns,
so the values of the critic are behind them, and the learning rate would stay near 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch

from agentgym.trainers.algorithm import Algorithm, PolicyGradient, value_head
from agentgym.trainers.credit import two_clock
from agentgym.trainers.credit.scan import Float64
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.trajectory import FloatArray, Trajectory
from agentgym.trainers.hooks.answers import answer
from agentgym.trainers.hooks.dataset import expert_rollout
from agentgym.trainers.hooks.turn_judge import TurnJudge
from agentgym.trainers.settings import (
    CriticConfig,
    Fraction,
    LossConfig,
    NonNegative,
    Positive,
    defaults,
)
from agentgym.trainers.settings.kinds import GAMES, ActorCriticConfig
from agentgym.trainers.update.losses import Sum

if TYPE_CHECKING:
    from torch import Tensor

    from agentgym.trainers.hooks.run import Run
    from agentgym.trainers.update.learner import ForwardPass


@dataclass
class Config(ActorCriticConfig):
    """Settings of InversePRM."""

    lacks: ClassVar[tuple[str, ...]] = (*GAMES, "reward_constraints")  # its rewards are learnt

    loss: LossConfig = defaults(LossConfig, ratio="turn")
    critic: CriticConfig = defaults(CriticConfig, lr_by_reliability=False)
    gamma: Fraction = 0.95
    """Discount between turns, of the implied reward and of the critic."""
    lambda_turn: Fraction = 0.95
    """GAE lambda between turns."""
    demonstrations: Positive = 16
    """Episodes of the scripted expert per iteration, in tasks that the policy played."""
    model_lr: NonNegative = 1e-3
    """Learning rate of the process reward model."""
    model_epochs: Positive = 2
    """Epochs of the process reward model per iteration."""


class InverseReward(TurnJudge):
    """Rewards turns with the implied rewards of a model of the expert.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    def __init__(self, trainer: Run, config: Config):
        super().__init__(
            trainer, lr=config.model_lr, epochs=config.model_epochs, loss=error_of_labels
        )
        self.config = config
        self.shown: list[Trajectory] = []

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Plays the expert in tasks of the rollout, and returns the rollout."""
        starts = list(dict.fromkeys((t.task, t.seed) for t in fresh))[: self.config.demonstrations]
        self.shown = expert_rollout(self.trainer, starts, iteration)
        self.env_steps = sum(len(trajectory.turns) for trajectory in self.shown)
        return Learn(fresh)

    def on_rewards(
        self, batch: Batch, forward: ForwardPass | None, iteration: int, rng: np.random.Generator
    ) -> Batch:
        """Fits the model to the batch and the demonstrations and returns the implied rewards."""
        shown, gamma = Batch.of(self.shown), self.config.gamma
        offsets = [following(batch, self.model.predict(batch)), self._resampled(shown, rng)]
        labels = np.repeat([0.0, 1.0], [batch.num_turns, shown.num_turns])
        weights = np.where(labels == 1, 0.5 / shown.num_turns, 0.5 / batch.num_turns) * len(labels)
        targets = np.stack([gamma * np.concatenate(offsets), labels, weights], -1)
        both = Batch.of([*batch.trajectories, *self.shown])
        loss = self.model.fit(both, targets, rng)[-1]
        values = self.model.predict(batch)
        rewards = values - gamma * following(batch, values)
        expert = self.model.predict(shown) - gamma * offsets[1]
        right = np.concatenate([rewards < 0, expert > 0])
        weighed = float(right @ weights) / len(right)
        self.metrics = {"process_loss": loss, "process_accuracy": weighed}
        return batch.with_rewards(rewards)

    def _resampled(self, shown: Batch, rng: np.random.Generator) -> Float64:
        """Returns Q(s', a') of the policy's own action after each turn of the expert [M]."""
        last = np.zeros(shown.num_turns, bool)
        last[shown.turn_offsets[1:] - 1] = True
        prompts = [
            (trajectory.segments[turn.segment].tokens[: turn.start], turn.admissible)
            for trajectory in shown.trajectories
            for turn in trajectory.turns[1:]
        ]
        found = np.zeros(shown.num_turns)
        if prompts:
            answers = answer(self.trainer, prompts, rng)
            found[~last] = self.model.predict(Batch.of(answers))
        return found


def following(batch: Batch, values: FloatArray) -> Float64:
    """Returns the value of the next turn of the episode [M], 0 for the last one."""
    found = np.append(values[1:], 0.0).astype(np.float64)
    found[batch.turn_offsets[1:] - 1] = 0.0
    return found


def error_of_labels(values: Tensor, targets: Tensor, index: Tensor, batch: Batch) -> Sum:
    """Returns the binary cross-entropy of Q - offset, with (offset, label, weight) as targets."""
    offset, label, weight = targets[index].unbind(-1)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(
        values - offset, label, weight, reduction="sum"
    )
    return Sum(loss, weight.sum().detach())


def build(config: Config) -> Algorithm:
    """Returns the parts of InversePRM."""
    return Algorithm(
        PolicyGradient(
            two_clock.turn(config.gamma, config.lambda_turn), critic=value_head("turns", config)
        ),
        seats="one",
        hooks=lambda trainer: InverseReward(trainer, config),
    )
