"""Token-level Q-learning on a fixed data set, whose values steer decoding."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from agentgym.trainers.critics.token_q import TokenQ
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.dataset import DataSet, DatasetConfig, OfflineConfig
from agentgym.trainers.policy.collate import collate
from agentgym.trainers.settings import (
    CriticConfig,
    Fraction,
    NonNegative,
    Positive,
    all_but,
    defaults,
)
from agentgym.trainers.settings.kinds import RATIO
from agentgym.trainers.update.microbatches import TokenBudget
from agentgym.trainers.update.optimizer import AdamW, divide_gradients, parameter_group
from agentgym.trainers.update.rows import Rows

if TYPE_CHECKING:
    from torch import Tensor, nn

    from agentgym.trainers.hooks.run import Run

Int64 = NDArray[np.int64]
STEP_TOKENS = 2048
"""Tokens per step of the heads, padding included."""


@dataclass
class TokenQConfig:
    """The heads of Q and V, and decoding with them."""

    beta: NonNegative = 4.0
    """Weight of Q in decoding."""
    conservative: NonNegative = 0.001
    """Weight of the term that keeps Q of unseen tokens low."""
    head_epochs: Positive = 8
    """Epochs of the heads per iteration."""
    backbone_lr: NonNegative = 1e-3
    """Learning rate of the model under the heads' losses."""


@dataclass
class SteeredConfig(OfflineConfig):
    """Settings of a recipe that clones its data and steers decoding with Q."""

    lacks: ClassVar[tuple[str, ...]] = (
        *RATIO,
        "general_data",  # it has no rewards
        "engine",  # vLLM cannot steer the logits
        *all_but(CriticConfig, "critic_lr", "critic_layers", "critic_warmup"),
    )

    critic: CriticConfig = defaults(CriticConfig)
    q: TokenQConfig = defaults(TokenQConfig)
    gamma: Fraction = 0.99
    """Discount between turns (none inside an action)."""


@dataclass(frozen=True)
class Places:
    """Action tokens of whole trajectories, read by the model with gradients.

    Attributes:
        batch: the trajectories of the iteration.
        index: [k] indices of the tokens in the batch.
        tokens: int64 [k] token ids.
        hidden: [k, H] hidden states that predict them.
        q: [2, k, V] Q of all tokens.
        v: [k] V before the token.
        last: [b, H] hidden states of the observations after a truncation.
        owner: [b] indices of their trajectories.
    """

    batch: Batch
    index: Int64
    tokens: Tensor
    hidden: Tensor
    q: Tensor
    v: Tensor
    last: Tensor
    owner: Tensor


class TokenQHooks(DataSet):
    """Clones the data set, fits Q of tokens to it and steers decoding with Q.

    Args:
        trainer: the trainer of the policy.
        dataset: the size of the data set.
        settings: the heads.
        tau: Polyak coefficient of the target networks, updated at every step. 1: no delay.
    """

    def __init__(self, trainer: Run, dataset: DatasetConfig, settings: TokenQConfig, tau: float):
        super().__init__(trainer, dataset)
        self.settings, self.tau = settings, tau
        config, policy = trainer.config, trainer.policy
        self.heads = TokenQ(
            policy.hidden_size,
            policy.model.config.get_text_config(decoder=True).vocab_size,
            config.critic.critic_layers,
            beta=settings.beta,
            generator=torch.Generator().manual_seed(config.run.seed),
        ).to(policy.device)
        self._budget = TokenBudget(STEP_TOKENS)
        modules = ((self.heads, config.critic.critic_lr), (policy, settings.backbone_lr))
        self.optimizer = AdamW(
            [parameter_group(module, lr) for module, lr in modules], weight_decay=0.0
        )

    def losses(self, places: Places) -> tuple[Tensor, Tensor]:
        """Returns the losses of Q and of V."""
        raise NotImplementedError(f"{type(self).__name__} has no losses.")

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Fits the heads and the model under them to a sample of the data set, and returns it.

        This precedes the forward pass of the iteration, so behaviour cloning continues from the
        fitted model.
        """
        chosen = super().on_rollout_end(fresh, iteration, rng)
        batch = Batch.of(chosen.trajectories)
        rows, losses, count = Rows.of(batch), np.zeros(3), 0
        spans = [
            trajectory.segments[turn.segment].tokens[turn.start : turn.stop]
            for trajectory in chosen.trajectories
            for turn in trajectory.turns
        ]
        actions = np.concatenate(spans).astype(np.int64)
        for _ in range(self.settings.head_epochs):
            parts = rows.microbatches(np.arange(len(rows.rows)), STEP_TOKENS, together=True)
            for number in rng.permutation(len(parts)):
                losses, count = losses + self._step(batch, rows, parts[number], actions), count + 1
        names = ("q_loss", "v_loss", "conservative_loss")
        self.metrics = dict(zip(names, (losses / count).tolist(), strict=True))
        self.trainer.policy.steer(self.heads)
        return chosen

    def _step(self, batch: Batch, rows: Rows, part: Int64, actions: Int64) -> NDArray[np.float64]:
        """Takes one step on whole trajectories and returns the three losses."""
        drop = partial(self.optimizer.zero_grad, set_to_none=True)
        number = rows.num_tokens(part)
        backward = partial(self._backward, batch, rows, actions)
        losses = self._budget.each(rows, part, backward, drop=drop, together=True)
        limit = self.trainer.config.optimisation.max_grad_norm
        for group in self.optimizer.param_groups:
            divide_gradients(group["params"], number)
            torch.nn.utils.clip_grad_norm_(group["params"], limit)
        self.optimizer.step()
        drop()
        self.heads.update_target(self.tau)
        return np.sum(losses, 0) / number

    def _backward(
        self, batch: Batch, rows: Rows, actions: Int64, part: Int64
    ) -> NDArray[np.float64]:
        """Adds the gradient of the summed losses of some rows, and returns the sums.

        Gradients of a mean would underflow in float16, those of a sum do not.

        Args:
            batch: the trajectories.
            rows: their rows.
            actions: [K] the action tokens.
            part: indices of whole trajectories' rows.
        """
        heads, policy = self.heads, self.trainer.policy
        collated = collate(batch, [rows.rows[i] for i in part], policy.pad_token)
        collated = collated.to(policy.device)
        hidden, last = policy.hidden(collated)
        index = collated.index.cpu().numpy()
        tokens = torch.from_numpy(actions[index]).to(hidden.device)
        q, v = heads.q(hidden), heads.v(hidden)
        owner = collated.bootstrap_trajectory
        q_loss, v_loss = self.losses(Places(batch, index, tokens, hidden, q, v, last, owner))
        conservative = cross_entropy(q.flatten(0, 1), tokens.repeat(2))
        count = len(index)
        (count * (q_loss + v_loss + self.settings.conservative * conservative)).backward()
        return np.array([count * float(x.detach()) for x in (q_loss, v_loss, conservative)])

    def modules(self) -> tuple[nn.Module, ...]:
        """Returns the heads and the policy."""
        return (self.heads, self.trainer.policy)

    def state_dict(self) -> dict[str, Any]:
        """Returns data set, heads and optimiser."""
        return super().state_dict() | {
            "heads": self.heads.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        super().load_state_dict(state)
        self.heads.load_state_dict(state["heads"])
        self.optimizer.load_state_dict(state["optimizer"])
        if len(self.kept):
            self.trainer.policy.steer(self.heads)


def chosen_q(q: Tensor, tokens: Tensor) -> Tensor:
    """Returns Q [2, k] of the tokens [k], given Q of all tokens [2, k, V]."""
    return q.gather(-1, tokens.expand(2, -1)[..., None])[..., 0]
