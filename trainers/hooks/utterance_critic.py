"""The utterance-level critic of ArCHer: twin Q(o, a) and V(o), off-policy from a buffer of turns.

"ArCHer: Training Language Model Agents via Hierarchical Multi-Turn RL" (arXiv 2402.19446):

    Q_k(o, a) <- r + gamma (1 - terminated) V'_k(o'),    V_k(o) <- Q'_k(o, a'), a' ~ pi(.|o)

with target networks '. Both read the features of a copy of the policy before RL, which the losses
train, with a target network of its own, or which is frozen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from agentgym.trainers.critics.transitions import Encoder, Features, TransitionBuffer, TurnBuffer
from agentgym.trainers.critics.utterance import UtteranceCritic
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.answers import answer
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.settings import Fraction, Positive
from agentgym.trainers.update.offline_losses import (
    expectile_loss,
    utterance_advantages,
    utterance_targets,
)
from agentgym.trainers.update.optimizer import AdamW, divide_gradients

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from torch import Tensor, nn

    from agentgym.trainers.hooks.run import Run

TARGET_EVERY = 10
"""Critic steps from one update of the target networks to the next. The last steps of an iteration
are followed by one too."""
UNLIMITED = 1 << 62
"""Capacity of the buffer of a fixed data set."""


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
    """Polyak coefficient of the target networks, updated every 10 critic steps and after the last
    one of an iteration."""


class UtteranceHooks(RecipeHooks):
    """Fits the utterance-level critic to a buffer of turns and assigns its advantages.

    Args:
        trainer: the trainer of the policy.
        settings: the critic.
        gamma: discount between turns.
        replay: the buffer. None: a subclass fills it with a fixed data set.
        expectile: None: V follows Q of freshly sampled actions. A number: V is this expectile of Q
            of the actions in the buffer (IQL).
        trained: whether the losses train the encoder.
    """

    def __init__(
        self,
        trainer: Run,
        settings: UtteranceConfig,
        gamma: float,
        *,
        replay: ReplayConfig | None = None,
        expectile: float | None = None,
        trained: bool = False,
    ):
        super().__init__()
        self.trainer, self.settings, self.gamma, self.replay = trainer, settings, gamma, replay
        self.expectile = expectile
        config = trainer.config
        size = UNLIMITED if replay is None else replay.buffer_size
        self.buffer = TurnBuffer(size) if trained else TransitionBuffer(size)
        hidden = trainer.policy.hidden_size
        generator = torch.Generator().manual_seed(config.run.seed)
        self.critic = UtteranceCritic(hidden, settings.utterance_layers, generator=generator)
        self.encoder = Encoder(trainer.policy, trainer.updater.microbatch_tokens, trained=trained)
        networks = [self.critic.online, *self.encoder.modules[:1]]
        self._trained = [[p for p in each.parameters() if p.requires_grad] for each in networks]
        # Most of the time of a step on a small critic is that of calls, of which `fused` has few.
        self.optimizer = AdamW(
            [p for each in self._trained for p in each],
            lr=config.critic.critic_lr,
            weight_decay=0.0,
            fused=True,
        )

    def remember(self, batch: Batch) -> None:
        """Adds the turns of a batch to the buffer."""
        if isinstance(self.buffer, TurnBuffer):
            self.buffer.add(batch)
        else:
            self.buffer.add(batch, self.encoder.encode(batch))

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Adds turns to the buffer, samples fresh actions for old observations, fits the critic."""
        self.remember(Batch.of(fresh))
        answers: list[Trajectory] = []
        if self.replay is not None:
            number = min(self.replay.replayed, len(self.buffer))
            old = rng.choice(len(self.buffer), number, replace=False)
            prompts = [self.buffer.prompt(int(i)) for i in old]
            answers = answer(self.trainer, prompts, rng)
        self._fit(answers, rng)
        return self._learn(fresh + answers)

    def _learn(self, trajectories: list[Trajectory]) -> Learn:
        """Returns trajectories with the utterance-level advantage of every turn."""
        q, v = self._values(Batch.of(trajectories))
        self.metrics["utterance_value"] = float(v.mean())
        return Learn(trajectories, utterance_advantages(q, v).numpy())

    def _fit(self, answers: list[Trajectory], rng: np.random.Generator) -> None:
        settings, critic = self.settings, self.critic
        frozen = not self.encoder.trained and len(answers)
        new = self.encoder.encode(Batch.of(answers)) if frozen else None
        sums = np.zeros(2)
        for start in range(0, settings.critic_steps, TARGET_EVERY):
            steps = min(TARGET_EVERY, settings.critic_steps - start)
            for drawn in self._with_targets(self._draw(steps, answers, new, rng)):
                sums += self._step(*drawn)
            critic.update_target(settings.tau)
            self.encoder.update_target(settings.tau)
        names = ("utterance_q_loss", "utterance_v_loss")
        self.metrics = dict(zip(names, (sums / settings.critic_steps).tolist(), strict=True))
        self.metrics["buffer"] = float(len(self.buffer))

    def _with_targets(self, drawn: Iterator[tuple[Minibatch, Minibatch]]) -> Iterator[Any]:
        """Yields minibatches with V of what follows and Q of the fresh turns by the targets."""
        # Features of a trained encoder are read just before the step.
        for pairs in ([pair] for pair in drawn) if self.encoder.trained else [list(drawn)]:
            sizes = [len(turns.reward) for turns, _ in pairs]
            after = torch.cat([turns.slow.following for turns, _ in pairs])
            both = (torch.cat(x) for x in zip(*(own.slow.pair for _, own in pairs), strict=True))
            v = self.critic.v(after, target=True).split(sizes, -1)
            q = self.critic.q(*both, target=True).detach().split(sizes, -1)
            yield from ((*pair, *values) for pair, *values in zip(pairs, v, q, strict=True))

    def _step(
        self, turns: Minibatch, fresh: Minibatch, following: Tensor, q: Tensor
    ) -> tuple[float, float]:
        """Takes a step of Q on turns and of V on fresh ones, and returns the losses.

        Args:
            turns: the turns.
            fresh: the fresh turns.
            following: [2, b] values of what follows the turns, by the target networks.
            q: [2, b] values of the fresh actions, by the target networks.
        """
        critic = self.critic
        targets = utterance_targets(turns.reward, turns.terminated, following, self.gamma)
        q_loss = 0.5 * (critic.q(*turns.fast.pair) - targets).square().mean()
        error = q - critic.v(fresh.fast.observation)
        if self.expectile is None:
            v_loss = 0.5 * error.square().mean()
        else:
            v_loss = expectile_loss(error, self.expectile).mean()
        self.optimizer.zero_grad(set_to_none=True)
        number, limit = len(turns.reward), self.trainer.config.optimisation.max_grad_norm
        (number * (q_loss + v_loss)).backward()  # gradients of a mean would underflow in float16
        for parameters in self._trained:
            divide_gradients(parameters, number)
            torch.nn.utils.clip_grad_norm_(parameters, limit)
        self.optimizer.step()
        return float(q_loss.detach()), float(v_loss.detach())

    def _draw(
        self,
        steps: int,
        answers: list[Trajectory],
        new: Features | None,
        rng: np.random.Generator,
    ) -> Iterator[tuple[Minibatch, Minibatch]]:
        """Yields minibatches of the buffer, each with one of answers, or itself without answers.

        Args:
            steps: number of critic steps, between which the target networks stay the same.
            answers: fresh actions in observations of the buffer.
            new: their features if the encoder is frozen.
            rng: samples the minibatches.
        """
        size, kept, fresh = self.settings.critic_batch, [], []
        for _ in range(steps):
            kept.append(rng.integers(len(self.buffer), size=size))
            fresh.append(rng.integers(len(answers), size=size) if answers else kept[-1])
        if isinstance(self.buffer, TurnBuffer):
            yield from self._read(self.buffer, kept, answers, fresh)
            return
        for index, at in zip(kept, fresh, strict=True):
            turns = self.buffer.take(index)
            features = Features(turns.observation, turns.action, turns.following)
            batch = Minibatch(features, features, turns.reward, turns.terminated)
            some = features if new is None else new.take(at)
            yield batch, replace(batch, fast=some, slow=some)

    def _read(
        self,
        buffer: TurnBuffer,
        kept: list[NDArray[np.int64]],
        answers: list[Trajectory],
        fresh: list[NDArray[np.int64]],
    ) -> Iterator[tuple[Minibatch, Minibatch]]:
        """Yields minibatches of turns of the buffer, each with one of answers, as `_draw`.

        The target network reads each turn once for all of them.

        Args:
            buffer: the buffer.
            kept: the turns of each minibatch.
            answers: the answers. Empty: each minibatch comes with itself.
            fresh: the answers of each minibatch.
        """
        index, places = np.unique(np.stack(kept), return_inverse=True)
        turns = buffer.take(index)
        drawn = places.reshape(len(kept), -1)
        if answers:
            index, places = np.unique(np.stack(fresh), return_inverse=True)
            own = places.reshape(len(fresh), -1) + len(turns)
            turns, drawn = turns + [answers[i] for i in index], np.concatenate([drawn, own], 1)
        batch = Batch.of(turns)
        slow = self.encoder.encode(batch, target=True)
        rewards = torch.from_numpy(batch.rewards.astype(np.float32))
        terminated = torch.from_numpy(batch.terminated)
        alone = [replace(t, segments=t.segments[:1], bootstrap=None) for t in turns]
        for at in drawn:
            # Both in one pass.
            fast = self.encoder.features(Batch.of([alone[i] for i in at.tolist()]))
            every = Minibatch(fast, slow.take(at), rewards[at], terminated[at])
            mine, others = slice(len(kept[0])), slice(len(kept[0]), None)
            yield (every.take(mine), every.take(others)) if answers else (every, every)

    def _values(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Returns twin Q and V of every turn, [2, M] each."""
        features = self.encoder.encode(batch)
        with torch.no_grad():
            q = self.critic.q(features.observation, features.action)
            return q, self.critic.v(features.observation)

    def modules(self) -> tuple[nn.Module, ...]:
        """Returns the critic, and the encoder if it is trained."""
        return (self.critic, *self.encoder.modules)

    def state_dict(self) -> dict[str, Any]:
        """Returns critic, optimiser, buffer, and the encoder if it is trained."""
        return {
            "critic": self.critic.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "buffer": self.buffer.state_dict(),
            "encoder": [module.own_weights() for module in self.encoder.modules],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        self.critic.load_state_dict(state["critic"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.buffer.load_state_dict(state["buffer"])
        for module, weights in zip(self.encoder.modules, state["encoder"], strict=True):
            module.load_own_weights(weights)

    def frozen_state(self) -> dict[str, Any]:
        """Returns the weights of a frozen encoder."""
        return {} if self.encoder.trained else self.encoder.policy.own_weights()

    def load_frozen_state(self, state: dict[str, Any]) -> None:
        """Restores a frozen encoder."""
        if not self.encoder.trained:
            self.encoder.policy.load_own_weights(state)


@dataclass(frozen=True)
class Minibatch:
    """Turns of a critic step.

    Attributes:
        fast: features by the encoder, with gradients if it is trained.
        slow: features by its target network.
        reward: [b] rewards.
        terminated: [b] whether the episode terminated.
    """

    fast: Features
    slow: Features
    reward: Tensor
    terminated: Tensor

    def take(self, part: slice) -> Minibatch:
        """Returns some of the turns."""
        features = self.fast.take(part), self.slow.take(part)
        return Minibatch(*features, self.reward[part], self.terminated[part])
