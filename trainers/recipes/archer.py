"""ArCHer: an utterance-level critic off-policy, a token-level actor on its advantages.

"ArCHer: Training Language Model Agents via Hierarchical Multi-Turn RL" (Zhou et al., ICML 2024,
arXiv 2402.19446). High level, off-policy, from a buffer of turns: twin Q(o, a) and twin V(o),

    Q_k(o, a) <- r + gamma (1 - terminated) V'_k(o'),    V_k(o) <- Q'_k(o, a'), a' ~ pi(.|o) fresh,

with target networks ' that follow slowly. Low level: policy gradient on A = min Q - min V, for the
actions of the round and for fresh answers to observations from the buffer, with the paper's
optional baseline b(o, a_<j) of every token.

Kept: the losses, no minimum in the targets, gamma, tau, warm-up. Changed: the encoder is the policy
as it was before learning from reward, frozen, so that a turn is encoded once; a is read after o,
not by itself; fresh actions are drawn once a round; the critic's mistakes are bounded by clipping
ratios in the passes after the first; episodes that were cut off keep their future.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from agentgym.trainers.critics.transitions import Encoder, TransitionBuffer, answer

from agentgym.errors import ConfigError
from agentgym.evaluation.report import Report
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit.turn_rewards import TurnReward
from agentgym.trainers.critics.heads import TokenValueHead, value_head
from agentgym.trainers.critics.utterance import UtteranceCritic
from agentgym.trainers.hooks.base import Experience
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.trajectory import Batch, Trajectory
from agentgym.trainers.update.learner import Reading
from agentgym.trainers.update.offline_losses import (
    expectile_loss,
    utterance_advantages,
    utterance_targets,
)


@dataclass
class Config(TrainConfig):
    """Settings of ArCHer."""

    gamma: float = 0.95
    """Discount from one turn to the next."""
    buffer_size: int = 20_000
    """Turns kept for the critic."""
    replayed: int = 256
    """Observations of the buffer that are answered anew in a round; they train V and the actor."""
    critic_steps: int = 200
    """Steps of the critic in a round."""
    critic_batch: int = 256
    """Turns in a step of the critic."""
    utterance_layers: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of Q and V."""
    tau: float = 0.1
    """How far the target networks move towards the others, every tenth step of the critic."""
    critic_warmup: int = 2
    """Rounds at the start in which only the critic learns."""
    token_baseline: bool = False
    """Subtract a learned baseline from the advantage of every token."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        for name in ("buffer_size", "replayed", "critic_steps", "critic_batch"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}.")


class Hierarchy(Experience):
    """The utterance-level critic and its buffer.

    Args:
        trainer: whose policy is criticised.
        config: the settings.
        expectile: None: V follows Q of fresh actions; a number: V is this expectile of Q of the
            actions in the buffer (IQL), and nothing is answered anew.
    """

    def __init__(self, trainer: Trainer, config: Config, expectile: float | None = None):
        super().__init__()
        self.trainer, self.config, self.expectile = trainer, config, expectile
        self.buffer = TransitionBuffer(config.buffer_size)
        size = trainer.policy.hidden_size
        generator = torch.Generator().manual_seed(config.seed)
        self.critic = UtteranceCritic(size, config.utterance_layers, generator=generator)
        self.optimizer = torch.optim.AdamW(
            self.critic.online.parameters(), lr=config.critic_lr, weight_decay=0.0
        )
        self.encoder = Encoder(trainer.policy, config.microbatch_tokens)

    def gather(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> list[Trajectory]:
        """Fills the buffer, fits the critic, and adds fresh answers to old observations."""
        batch = Batch.of(fresh)
        self.buffer.add(batch, self.encoder.encode(batch))
        answers: list[Trajectory] = []
        if self.expectile is None:
            number = min(self.config.replayed, len(self.buffer))
            old = rng.choice(len(self.buffer), number, replace=False)
            config = self.config
            answers = answer(
                self.trainer.policy,
                [self.buffer.prompt(int(i)) for i in old],
                config.sampling(),
                config.constrain,
                rng,
            )
        self._fit(answers, rng)
        return fresh + answers

    def _fit(self, answers: list[Trajectory], rng: np.random.Generator) -> None:
        config, critic = self.config, self.critic
        new = self.encoder.encode(Batch.of(answers)) if answers else None
        sums = np.zeros(2)
        for step in range(config.critic_steps):
            some = self.buffer.take(rng.integers(len(self.buffer), size=config.critic_batch))
            following = critic.v(some.following, target=True)
            targets = utterance_targets(some.reward, some.terminated, following, config.gamma)
            q_loss = 0.5 * (critic.q(some.observation, some.action) - targets).square().mean()
            if new is None:
                q = critic.q(some.observation, some.action, target=True)
                assert self.expectile is not None
                v_loss = expectile_loss(q - critic.v(some.observation), self.expectile).mean()
            else:
                at = rng.integers(len(answers), size=config.critic_batch)
                q = critic.q(new.observation[at], new.action[at], target=True)
                v_loss = 0.5 * (critic.v(new.observation[at]) - q.detach()).square().mean()
            self.optimizer.zero_grad(set_to_none=True)
            (q_loss + v_loss).backward()
            torch.nn.utils.clip_grad_norm_(critic.online.parameters(), 1.0)
            self.optimizer.step()
            if step % 10 == 9:
                critic.update_target(config.tau)
            sums += float(q_loss.detach()), float(v_loss.detach())
        names = ("utterance_q_loss", "utterance_v_loss")
        self.metrics = dict(zip(names, (sums / config.critic_steps).tolist(), strict=True))
        self.metrics["buffer"] = float(len(self.buffer))

    def relabel(
        self, batch: Batch, reading: Reading | None, iteration: int, rng: np.random.Generator
    ) -> Batch:
        """Returns the batch with every turn's utterance-level advantage as its reward."""
        features = self.encoder.encode(batch)
        with torch.no_grad():
            q = self.critic.q(features.observation, features.action)
            v = self.critic.v(features.observation)
        advantages = utterance_advantages(q, v).numpy()
        self.metrics["utterance_value"] = float(v.mean())
        return batch.with_rewards(advantages)

    def state_dict(self) -> dict[str, Any]:
        """Returns critic, optimiser, buffer and encoder."""
        return {
            "critic": self.critic.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "buffer": self.buffer.state_dict(),
            "encoder": self.encoder.policy.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a checkpoint."""
        self.critic.load_state_dict(state["critic"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.buffer.load_state_dict(state["buffer"])
        self.encoder.policy.load_state_dict(state["encoder"])


def main(config: Config) -> list[Report]:
    """Trains a policy with ArCHer; returns its evaluations."""
    return Trainer(
        "archer",
        config,
        credit=TurnReward(baseline=config.token_baseline),
        critic=value_head(TokenValueHead, config) if config.token_baseline else None,
        experience=lambda trainer: Hierarchy(trainer, config),
    ).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("archer", sys.argv[1:]))
