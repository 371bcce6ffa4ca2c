"""`TurnModel`: a second language model, which says a number about every turn.

It starts as a copy of the policy and reads what the policy read, up to the end of an action.
Learned turn rewards are such numbers, trained on what a trajectory brought in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from agentgym.trainers.critics.heads import ValueHead
from agentgym.trainers.hooks.base import Experience
from agentgym.trainers.policy.collate import collate
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.trajectory import Batch
from agentgym.trainers.update.learner import Rows
from agentgym.trainers.update.losses import Sum

if TYPE_CHECKING:
    from agentgym.trainers.trainer import Trainer

Loss = Callable[[Tensor, Tensor], Sum]
"""From predictions [m] and the numbers of their turns in the batch [m] to a loss."""


class TurnModel(nn.Module):
    """Numbers about turns, and how to fit them.

    Args:
        policy: what it starts from; nothing is shared afterwards.
        lr: learning rate.
        epochs: passes over a round.
        tokens: tokens, padding included, in a step.
        seed: of the head's weights.
    """

    def __init__(
        self, policy: Policy, *, lr: float = 1e-3, epochs: int = 2, tokens: int = 2048, seed: int
    ):
        super().__init__()
        self.reader = policy.clone()
        generator = torch.Generator().manual_seed(seed)
        self.head = ValueHead(policy.hidden_size, (64,), detach=False, generator=generator)
        self.head.to(policy.device)
        self._epochs, self._tokens = epochs, tokens
        trained = [parameter for parameter in self.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.AdamW(trained, lr=lr, weight_decay=0.0)

    def forward(self, batch: Batch, rows: list[tuple[int, int]]) -> tuple[Tensor, Tensor]:
        """Returns the numbers [m] of the turns in some segments, and which turns these are [m]."""
        collated = collate(batch, rows, self.reader.pad_token).to(self.reader.device)
        turn = torch.from_numpy(batch.token_turn).to(self.reader.device)[collated.index]
        last = torch.ones_like(turn, dtype=torch.bool)
        last[:-1] = turn[1:] != turn[:-1]
        ends = replace(collated, row=collated.row[last], column=collated.column[last] + 1)
        return self.head(self.reader.hidden(ends)[0]), turn[last]

    @torch.no_grad()
    def predict(self, batch: Batch) -> NDArray[np.float32]:
        """[M] the number of every turn."""
        found = np.zeros(batch.num_turns, np.float32)
        rows = Rows.of(batch)
        for part in rows.microbatches(np.arange(len(rows.rows)), self._tokens):
            numbers, turn = self(batch, [rows.rows[i] for i in part])
            found[turn.cpu().numpy()] = numbers.cpu().numpy()
        return found

    def fit(self, batch: Batch, loss: Loss, rng: np.random.Generator) -> float:
        """Fits the numbers to a batch; the turns of a trajectory share a step.

        Args:
            batch: the trajectories.
            loss: what is minimised.
            rng: shuffles.

        Returns:
            The mean loss of the last pass.
        """
        rows = Rows.of(batch)
        mean = 0.0
        for _ in range(self._epochs):
            steps = rows.microbatches(np.arange(len(rows.rows)), self._tokens, together=True)
            total, count = 0.0, 0.0
            for i in rng.permutation(len(steps)):
                numbers, turn = self(batch, [rows.rows[j] for j in steps[i]])
                sums = loss(numbers, turn)
                self.optimizer.zero_grad(set_to_none=True)
                sums.mean().backward()
                nn.utils.clip_grad_norm_(self.parameters(), 1.0)
                self.optimizer.step()
                total, count = total + float(sums.total.detach()), count + float(sums.count)
            mean = total / max(count, 1.0)
        return mean

    def states(self) -> dict[str, Any]:
        """Returns weights and optimiser for a checkpoint."""
        return {"weights": self.state_dict(), "optimizer": self.optimizer.state_dict()}

    def restore(self, states: dict[str, Any]) -> None:
        """Goes on from a checkpoint."""
        self.load_state_dict(states["weights"])
        self.optimizer.load_state_dict(states["optimizer"])


class TurnJudge(Experience):
    """What recipes share whose rewards come from a turn model.

    Args:
        trainer: whose policy the model starts from.
        config: says `model_lr` and `model_epochs`.
    """

    def __init__(self, trainer: Trainer, config: Any):
        super().__init__()
        self.config = config
        self.model = TurnModel(
            trainer.policy, lr=config.model_lr, epochs=config.model_epochs, seed=config.seed
        )

    def state_dict(self) -> dict[str, Any]:
        """Returns the model."""
        return self.model.states()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on with the model."""
        self.model.restore(state)
