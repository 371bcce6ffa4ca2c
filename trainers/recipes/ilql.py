"""ILQL: implicit language Q-learning, offline, token by token (Snell et al., arXiv 2206.11871).

"Offline RL for Natural Language Generation with Implicit Language Q Learning". From a fixed data
set, heads on the policy's hidden states learn twin Q(s, w) of every token and V(s), s = (o, w_<j),
by temporal differences from token to token:

    Q_k(s_j, w_j) <- V(s_{j+1}) inside an action,   r + gamma V(o') at its end
    V(s_j) <- the expectile tau of min_k Q'_k(s_j, w_j)

with a conservative term that keeps Q of unseen tokens low. The model itself imitates the data;
while *decoding*, every logit is raised by beta (min Q' - V). The policy folder holds the heads:
`agentgym eval` steers by them.

Kept: twin Q, target networks, expectile, the conservative term, heads and model trained together,
steered decoding. Changed: inside an action there is no discount.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from agentgym.errors import ConfigError
from agentgym.evaluation.report import Report
from agentgym.trainers.credit.turn_rewards import TurnReward
from agentgym.trainers.critics.token_q import TokenQ
from agentgym.trainers.hooks import dataset as offline
from agentgym.trainers.policy.collate import collate
from agentgym.trainers.recipes import bc
from agentgym.trainers.run.setup import parameter_group
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.trajectory import Batch, Trajectory
from agentgym.trainers.update.learner import Row, Rows
from agentgym.trainers.update.offline_losses import expectile_loss

Int64 = NDArray[np.int64]


@dataclass
class Config(offline.Config):
    """Settings of ILQL."""

    clip: float = 1.0
    """The ratio is clipped to [1 - clip, 1 + clip_high]."""
    gamma: float = 0.99
    """Discount from one turn to the next; inside an action there is none."""
    expectile: float = 0.8
    """Which expectile of Q is V; towards 1 it becomes the best token of the data."""
    beta: float = 4.0
    """How strongly Q steers decoding."""
    conservative: float = 0.001
    """Weight of the term that keeps Q of tokens that were not said low."""
    head_epochs: int = 8
    """Passes of the heads over a round."""
    trunk_lr: float = 1e-3
    """Learning rate with which the heads' losses train the model under them."""
    tau: float = 0.1
    """How far the target networks move towards the others after each step."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if not 0 < self.expectile < 1:
            raise ConfigError(f"expectile is between 0 and 1, got {self.expectile}.")
        if self.head_epochs < 1:
            raise ConfigError(f"head_epochs must be at least 1, got {self.head_epochs}.")
        self.fixed("the model imitates every token alike", overlong_margin=0, covariance_clip=0.0)


class ImplicitQ(bc.Demonstrations):
    """Imitates the data set, fits the heads to it and lets them steer the policy."""

    def __init__(self, trainer: Trainer, config: Config):
        super().__init__(trainer, config)
        self.config, policy = config, trainer.policy
        vocabulary = policy.model.config.get_text_config(decoder=True).vocab_size
        self.heads = TokenQ(
            policy.hidden_size,
            vocabulary,
            config.critic_layers,
            beta=config.beta,
            generator=torch.Generator().manual_seed(config.seed),
        ).to(policy.device)
        modules = ((self.heads, config.critic_lr), (policy, config.trunk_lr))
        self.optimizer = torch.optim.AdamW(
            [parameter_group(module, lr) for module, lr in modules], weight_decay=0.0
        )

    def gather(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> list[Trajectory]:
        """Returns episodes of the data set; fits the heads, and the model under them, to these.

        That comes before the round is read, so that imitation goes on from the model as it is then.
        """
        chosen = super().gather(fresh, iteration, rng)
        batch = Batch.of(chosen)
        rows, losses, count = Rows.of(batch), np.zeros(3), 0
        spans = [
            trajectory.segments[turn.segment].tokens[turn.start : turn.stop]
            for trajectory in chosen
            for turn in trajectory.turns
        ]
        said = np.concatenate(spans).astype(np.int64)
        for _ in range(self.config.head_epochs):
            parts = rows.microbatches(np.arange(len(rows.rows)), 2048, together=True)
            for number in rng.permutation(len(parts)):
                some = [rows.rows[i] for i in parts[number]]
                losses, count = losses + self._step(batch, some, said), count + 1
        names = ("q_loss", "v_loss", "conservative_loss")
        self.metrics = dict(zip(names, (losses / count).tolist(), strict=True))
        self.trainer.policy.steer(self.heads)
        return chosen

    def _step(self, batch: Batch, rows: list[Row], said: Int64) -> NDArray[np.float64]:
        """Makes a step on whole trajectories; returns the three losses."""
        config, heads, policy = self.config, self.heads, self.trainer.policy
        collated = collate(batch, rows, policy.pad_token).to(policy.device)
        hidden, last = policy.hidden(collated)
        index = collated.index.cpu().numpy()
        tokens = torch.from_numpy(said[index]).to(hidden.device)
        q, v = heads.q(hidden), heads.v(hidden)
        with torch.no_grad():
            after = heads.v(last)
            target = self._targets(batch, index, v, after, collated.bootstrap_trajectory)
            slow = heads.q(hidden, target=True).min(0).values
            best = slow.gather(-1, tokens[:, None])[:, 0]
        q_loss = 0.5 * (q.gather(-1, tokens.expand(2, -1)[..., None])[..., 0] - target).square()
        v_loss = expectile_loss(best - v, config.expectile).mean()
        conservative = cross_entropy(q.flatten(0, 1), tokens.repeat(2))
        loss = q_loss.mean() + v_loss + config.conservative * conservative
        loss.backward()
        for group in self.optimizer.param_groups:
            torch.nn.utils.clip_grad_norm_(group["params"], config.max_grad_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        heads.update_target(config.tau)
        return np.array([float(x.detach()) for x in (q_loss.mean(), v_loss, conservative)])

    def _targets(
        self, batch: Batch, index: Int64, values: Tensor, after: Tensor, owner: Tensor
    ) -> Tensor:
        """Returns [k] what tokens led to: V of the next one, or reward and V of the next turn.

        Args:
            batch: the trajectories.
            index: [k] the tokens, all those of some trajectories.
            values: [k] V before each token.
            after: [b] V of the last observations.
            owner: [b] whose these are.
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

    def state_dict(self) -> dict[str, Any]:
        """Returns data set, heads and optimiser."""
        return super().state_dict() | {
            "heads": self.heads.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a checkpoint."""
        super().load_state_dict(state)
        self.heads.load_state_dict(state["heads"])
        self.optimizer.load_state_dict(state["optimizer"])
        if len(self.kept):
            self.trainer.policy.steer(self.heads)


def main(config: Config) -> list[Report]:
    """Trains a policy on a fixed data set; returns its evaluations."""
    return Trainer(
        "ilql",
        config,
        credit=TurnReward(),
        experience=lambda trainer: ImplicitQ(trainer, config),
    ).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("ilql", sys.argv[1:]))
