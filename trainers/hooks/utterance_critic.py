"""The utterance-level critic of ArCHer: twin Q(o, a) and V(o), off-policy from a buffer of turns.

"ArCHer: Training Language Model Agents via Hierarchical Multi-Turn RL" (arXiv 2402.19446):

    Q_k(o, a) <- r + gamma (1 - terminated) V'_k(o'),    V_k(o) <- Q'_k(o, a'), a' ~ pi(.|o)

with target networks '. Both read the features of a frozen copy of the policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from agentgym.trainers.credit.turn_rewards import turn_credit
from agentgym.trainers.critics.transitions import Encoder, TransitionBuffer, answer
from agentgym.trainers.critics.utterance import UtteranceCritic
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.settings import Fraction, Positive
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.trajectory import Batch, Credit, Trajectory
from agentgym.trainers.update.learner import ForwardPass
from agentgym.trainers.update.offline_losses import (
    expectile_loss,
    utterance_advantages,
    utterance_targets,
)


@dataclass
class ReplayConfig:
    """The buffer of turns."""

    buffer_size: Positive = 20_000
    """Capacity of the buffer in turns."""
    replayed: Positive = 256
    """Replayed observations for which fresh actions are sampled each iteration."""


@dataclass
class UtteranceConfig:
    """The utterance-level critic."""

    critic_steps: Positive = 200
    """Critic steps per iteration."""
    critic_batch: Positive = 256
    """Turns per critic step."""
    utterance_layers: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of Q and V."""
    tau: Fraction = 0.1
    """Polyak coefficient of the target networks, updated every 10 critic steps."""


class UtteranceHooks(RecipeHooks):
    """Fits the utterance-level critic to a buffer of turns and assigns its advantages.

    Args:
        trainer: the trainer of the policy.
        settings: the critic.
        gamma: discount between turns.
        replay: the buffer. None: a subclass fills it with a fixed data set.
        expectile: None: V follows Q of freshly sampled actions. A number: V is this expectile of Q
            of the actions in the buffer (IQL).
        token_baseline: subtract a token critic's values from the advantages.
    """

    one_policy = True

    def __init__(
        self,
        trainer: Trainer,
        settings: UtteranceConfig,
        gamma: float,
        *,
        replay: ReplayConfig | None = None,
        expectile: float | None = None,
        token_baseline: bool = False,
    ):
        super().__init__()
        self.trainer, self.settings, self.gamma, self.replay = trainer, settings, gamma, replay
        self.expectile, self.token_baseline = expectile, token_baseline
        config = trainer.config
        self.buffer = TransitionBuffer(1 if replay is None else replay.buffer_size)
        size = trainer.policy.hidden_size
        generator = torch.Generator().manual_seed(config.run.seed)
        self.critic = UtteranceCritic(size, settings.utterance_layers, generator=generator)
        self.optimizer = torch.optim.AdamW(
            self.critic.online.parameters(), lr=config.critic.critic_lr, weight_decay=0.0
        )
        self.encoder = Encoder(trainer.policy, trainer.updater.microbatch_tokens)

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> list[Trajectory]:
        """Adds turns to the buffer, samples fresh actions for old observations, fits the critic."""
        batch = Batch.of(fresh)
        self.buffer.add(batch, self.encoder.encode(batch))
        answers: list[Trajectory] = []
        if self.replay is not None:
            number = min(self.replay.replayed, len(self.buffer))
            old = rng.choice(len(self.buffer), number, replace=False)
            prompts = [self.buffer.prompt(int(i)) for i in old]
            constrain = self.trainer.config.rollout.constrain
            answers = answer(self.trainer.act, prompts, constrain, rng)
        self._fit(answers, rng)
        return fresh + answers

    def _fit(self, answers: list[Trajectory], rng: np.random.Generator) -> None:
        settings, critic = self.settings, self.critic
        new = self.encoder.encode(Batch.of(answers)) if answers else None
        sums = np.zeros(2)
        for step in range(settings.critic_steps):
            some = self.buffer.take(rng.integers(len(self.buffer), size=settings.critic_batch))
            following = critic.v(some.following, target=True)
            targets = utterance_targets(some.reward, some.terminated, following, self.gamma)
            q_loss = 0.5 * (critic.q(some.observation, some.action) - targets).square().mean()
            if new is None:
                q = critic.q(some.observation, some.action, target=True)
                assert self.expectile is not None
                v_loss = expectile_loss(q - critic.v(some.observation), self.expectile).mean()
            else:
                at = rng.integers(len(answers), size=settings.critic_batch)
                q = critic.q(new.observation[at], new.action[at], target=True)
                v_loss = 0.5 * (critic.v(new.observation[at]) - q.detach()).square().mean()
            self.optimizer.zero_grad(set_to_none=True)
            (q_loss + v_loss).backward()
            torch.nn.utils.clip_grad_norm_(critic.online.parameters(), 1.0)
            self.optimizer.step()
            if step % 10 == 9:
                critic.update_target(settings.tau)
            sums += float(q_loss.detach()), float(v_loss.detach())
        names = ("utterance_q_loss", "utterance_v_loss")
        self.metrics = dict(zip(names, (sums / settings.critic_steps).tolist(), strict=True))
        self.metrics["buffer"] = float(len(self.buffer))

    def _values(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Returns twin Q and V of every turn, [2, M] each."""
        features = self.encoder.encode(batch)
        with torch.no_grad():
            q = self.critic.q(features.observation, features.action)
            return q, self.critic.v(features.observation)

    def credit(
        self, batch: Batch, forward: ForwardPass | None, iteration: int, rng: np.random.Generator
    ) -> Credit:
        """Returns the utterance-level advantage of every turn."""
        q, v = self._values(batch)
        self.metrics["utterance_value"] = float(v.mean())
        values = None if forward is None else forward.values
        advantages = utterance_advantages(q, v).numpy()
        return turn_credit(advantages, batch, values, baseline=self.token_baseline)

    def modules(self) -> tuple[nn.Module, ...]:
        """Returns the critic."""
        return (self.critic,)

    def state_dict(self) -> dict[str, Any]:
        """Returns critic, optimiser and buffer."""
        return {
            "critic": self.critic.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "buffer": self.buffer.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        self.critic.load_state_dict(state["critic"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.buffer.load_state_dict(state["buffer"])

    def frozen_state(self) -> dict[str, Any]:
        """Returns the weights of the encoder."""
        return self.encoder.policy.own_weights()

    def load_frozen_state(self, state: dict[str, Any]) -> None:
        """Restores the encoder."""
        self.encoder.policy.load_own_weights(state)
