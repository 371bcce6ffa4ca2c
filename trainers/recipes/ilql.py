"""ILQL: offline token-level Q-learning whose values steer decoding.

"Offline RL for Natural Language Generation with Implicit Language Q Learning" (Snell et al., arXiv
2206.11871). Heads on the policy's hidden states learn twin Q(s, w) of every token and V(s), s = (o,
w_<j), by temporal differences over the tokens of a fixed data set:

    Q_k(s_j, w_j) <- V(s_{j+1}) inside an action,   r + gamma V(o') at its end
    V(s_j) <- the expectile tau of min_k Q'_k(s_j, w_j)

with a conservative term that keeps Q of unseen tokens low. The model itself is trained by
behaviour cloning of the data.
While decoding, beta (min Q' - V) is added to every logit. The policy folder holds the heads, and
`agentgym eval` decodes with them.

Kept: twin Q, target networks, expectile, the conservative term, heads and model trained together,
steered decoding. Changed: there is no discount inside an action.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Gt, Lt
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from agentgym.trainers.config import TrainConfig
from agentgym.trainers.critics.token_q import TokenQ
from agentgym.trainers.hooks.dataset import DatasetConfig, Demonstrations, check_offline
from agentgym.trainers.policy.collate import collate
from agentgym.trainers.run.setup import parameter_group
from agentgym.trainers.settings import (
    Fraction,
    LossConfig,
    NonNegative,
    OptimisationConfig,
    Positive,
    defaults,
)
from agentgym.trainers.trainer import Algorithm, Trainer
from agentgym.trainers.trajectory import Batch, Trajectory
from agentgym.trainers.update.learner import Rows
from agentgym.trainers.update.memory import TokenBudget
from agentgym.trainers.update.offline_losses import expectile_loss
from agentgym.trainers.update.optimizer import AdamW

Int64 = NDArray[np.int64]
STEP_TOKENS = 2048
"""Tokens per step of the heads, padding included."""


@dataclass
class Config(TrainConfig):
    """Settings of ILQL."""

    dataset: DatasetConfig = defaults(DatasetConfig)
    optimisation: OptimisationConfig = defaults(OptimisationConfig, epochs=1)
    loss: LossConfig = defaults(LossConfig, normalize_advantages="none", clip=1.0)
    gamma: Fraction = 0.99
    """Discount between turns (none inside an action)."""
    expectile: Annotated[float, Gt(0.0), Lt(1.0)] = 0.8
    """Expectile of Q that V follows. Towards 1 it approaches the best token of the data."""
    beta: NonNegative = 4.0
    """Weight of Q in decoding."""
    conservative: NonNegative = 0.001
    """Weight of the term that keeps Q of unseen tokens low."""
    head_epochs: Positive = 8
    """Epochs of the heads per iteration."""
    trunk_lr: NonNegative = 1e-3
    """Learning rate of the model under the heads' losses."""
    tau: Fraction = 0.1
    """Polyak coefficient of the target networks, updated at every step."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        check_offline(self, self.dataset)
        self.fixed("every cloned token has the same weight", covariance_clip=0.0)
        self.fixed("Q steers the logits in decoding", engine="own")

    @property
    def recompute_logprobs(self) -> bool:
        """True: the data need not be the policy's own."""
        return True


class ImplicitQ(Demonstrations):
    """Clones the data set, fits the heads to it and steers decoding with them.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    def __init__(self, trainer: Trainer, config: Config):
        super().__init__(trainer, config.dataset)
        self.config, policy = config, trainer.policy
        vocabulary = policy.model.config.get_text_config(decoder=True).vocab_size
        self.heads = TokenQ(
            policy.hidden_size,
            vocabulary,
            config.critic.critic_layers,
            beta=config.beta,
            generator=torch.Generator().manual_seed(config.run.seed),
        ).to(policy.device)
        self._budget = TokenBudget(STEP_TOKENS)
        modules = ((self.heads, config.critic.critic_lr), (policy, config.trunk_lr))
        self.optimizer = AdamW(
            [parameter_group(module, lr) for module, lr in modules], weight_decay=0.0
        )

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> list[Trajectory]:
        """Fits the heads and the model under them to a sample of the data set, and returns it.

        This precedes the forward pass of the iteration, so behaviour cloning continues from the
        fitted model.
        """
        chosen = super().on_rollout_end(fresh, iteration, rng)
        batch = Batch.of(chosen)
        rows, losses, count = Rows.of(batch), np.zeros(3), 0
        everything = np.arange(len(rows.rows))
        spans = [
            trajectory.segments[turn.segment].tokens[turn.start : turn.stop]
            for trajectory in chosen
            for turn in trajectory.turns
        ]
        actions = np.concatenate(spans).astype(np.int64)
        for _ in range(self.config.head_epochs):
            parts = rows.microbatches(everything, STEP_TOKENS, together=True)
            for number in rng.permutation(len(parts)):
                losses, count = losses + self._step(batch, rows, parts[number], actions), count + 1
        names = ("q_loss", "v_loss", "conservative_loss")
        self.metrics = dict(zip(names, (losses / count).tolist(), strict=True))
        self.trainer.policy.steer(self.heads)
        return chosen

    def _step(self, batch: Batch, rows: Rows, part: Int64, actions: Int64) -> NDArray[np.float64]:
        """Takes one step on whole trajectories and returns the three losses."""
        config, drop = self.config, self.optimizer.zero_grad
        backward = partial(self._backward, batch, rows, actions, rows.num_tokens(part))
        losses = self._budget.each(rows, part, backward, drop=drop, together=True)
        for group in self.optimizer.param_groups:
            torch.nn.utils.clip_grad_norm_(group["params"], config.optimisation.max_grad_norm)
        self.optimizer.step()
        drop()
        self.heads.update_target(config.tau)
        return np.sum(losses, 0)

    def _backward(
        self, batch: Batch, rows: Rows, actions: Int64, number: int, part: Int64
    ) -> NDArray[np.float64]:
        """Adds the gradient of the losses of some rows, and returns their terms of the means.

        Args:
            batch: the trajectories.
            rows: their rows.
            actions: [K] the action tokens.
            number: action tokens of the step.
            part: indices of whole trajectories' rows.
        """
        config, heads, policy = self.config, self.heads, self.trainer.policy
        collated = collate(batch, [rows.rows[i] for i in part], policy.pad_token)
        collated = collated.to(policy.device)
        hidden, last = policy.hidden(collated)
        index = collated.index.cpu().numpy()
        tokens = torch.from_numpy(actions[index]).to(hidden.device)
        q, v = heads.q(hidden), heads.v(hidden)
        with torch.no_grad():
            after = heads.v(last)
            target = self._targets(batch, index, v, after, collated.bootstrap_trajectory)
            slow = heads.q(hidden, target=True).min(0).values
            best = slow.gather(-1, tokens[:, None])[:, 0]
        q_loss = 0.5 * (q.gather(-1, tokens.expand(2, -1)[..., None])[..., 0] - target).square()
        v_loss = expectile_loss(best - v, config.expectile).mean()
        conservative = cross_entropy(q.flatten(0, 1), tokens.repeat(2))
        share = rows.num_tokens(part) / number
        (share * (q_loss.mean() + v_loss + config.conservative * conservative)).backward()
        return np.array([share * float(x.detach()) for x in (q_loss.mean(), v_loss, conservative)])

    def _targets(
        self, batch: Batch, index: Int64, values: Tensor, after: Tensor, owner: Tensor
    ) -> Tensor:
        """Returns [k] the TD targets: V of the next token, or reward and V of the next turn.

        Args:
            batch: the trajectories.
            index: [k] indices of the tokens of whole trajectories.
            values: [k] V before each token.
            after: [b] V of the last observations.
            owner: [b] indices of their trajectories.
        """
        every = torch.zeros(batch.num_tokens + 1, device=values.device)
        every[torch.from_numpy(index).to(values.device)] = values
        future = torch.zeros(len(batch.trajectories), device=values.device)
        future[owner] = after
        turn = batch.token_turn[index]
        ends = index == batch.token_offsets[turn + 1] - 1
        trajectory = batch.turn_trajectory[turn]
        final = ends & (turn == batch.turn_offsets[trajectory + 1] - 1)

        def tensor(array: NDArray[Any]) -> Tensor:
            return torch.from_numpy(array).to(values.device)

        following = torch.where(tensor(final), future[tensor(trajectory)], every[tensor(index + 1)])
        discount = np.where(ends, self.config.gamma, 1.0) * ~(final & batch.terminated[trajectory])
        rewards = np.where(ends, batch.rewards[turn], 0.0)
        return tensor(rewards).float() + tensor(discount).float() * following

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


def build(config: Config) -> Algorithm:
    """Returns the parts of ILQL."""
    return Algorithm(hooks=lambda trainer: ImplicitQ(trainer, config), trains_policy=True)
