"""`TurnModel`: a language model with a scalar head that scores turns.

It starts as a copy of the policy and reads the same prompts, up to the end of an action. Learned
turn rewards are such scores, fitted to the outcomes of trajectories.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from agentgym.trainers.critics.heads import ValueHead
from agentgym.trainers.policy.collate import collate
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.trajectory import Batch
from agentgym.trainers.update.learner import Rows
from agentgym.trainers.update.losses import Sum
from agentgym.trainers.update.memory import TokenBudget, divide_gradients
from agentgym.trainers.update.optimizer import AdamW

Loss = Callable[[Tensor, Tensor], Sum]
"""From predictions [m] and the indices of their turns in the batch [m] to a loss."""


class TurnModel(nn.Module):
    """Predicts one number per turn.

    Args:
        policy: the policy whose copy it starts from. No weights are shared.
        lr: learning rate.
        epochs: epochs per call of `fit`.
        tokens: tokens per step, padding included. A step is split if it does not fit into memory.
        seed: seed of the head's weights.
    """

    def __init__(
        self, policy: Policy, *, lr: float = 1e-3, epochs: int = 2, tokens: int = 2048, seed: int
    ):
        super().__init__()
        self.reader = policy.clone()
        generator = torch.Generator().manual_seed(seed)
        self.head = ValueHead(policy.hidden_size, (64,), detach=False, generator=generator)
        self.head.to(policy.device)
        self._epochs, self._tokens, self._budget = epochs, tokens, TokenBudget(tokens)
        trained = [parameter for parameter in self.parameters() if parameter.requires_grad]
        self.optimizer = AdamW(trained, lr=lr, weight_decay=0.0)

    def forward(self, batch: Batch, rows: list[tuple[int, int]]) -> tuple[Tensor, Tensor]:
        """Returns the predictions [m] for the turns of some rows, and their indices [m]."""
        collated = collate(batch, rows, self.reader.pad_token).to(self.reader.device)
        turn = torch.from_numpy(batch.token_turn).to(self.reader.device)[collated.index]
        last = torch.ones_like(turn, dtype=torch.bool)
        last[:-1] = turn[1:] != turn[:-1]
        ends = replace(collated, row=collated.row[last], column=collated.column[last] + 1)
        return self.head(self.reader.hidden(ends)[0]), turn[last]

    @torch.no_grad()
    def predict(self, batch: Batch) -> NDArray[np.float32]:
        """Returns the predictions [M] for the turns of a batch."""
        found = np.zeros(batch.num_turns, np.float32)
        rows = Rows.of(batch)

        def step(part: NDArray[np.int64]) -> None:
            numbers, turn = self(batch, [rows.rows[i] for i in part])
            found[turn.cpu().numpy()] = numbers.cpu().numpy()

        self._budget.each(rows, np.arange(len(rows.rows)), step)
        return found

    def fit(self, batch: Batch, loss: Loss, rng: np.random.Generator) -> float:
        """Fits the predictions to a batch. The turns of a trajectory share an optimiser step.

        Args:
            batch: the trajectories.
            loss: the loss to minimise.
            rng: shuffles the steps.

        Returns:
            The mean loss of the last epoch.
        """
        rows = Rows.of(batch)
        mean = 0.0

        def step(part: NDArray[np.int64]) -> tuple[float, float]:
            sums = loss(*self(batch, [rows.rows[i] for i in part]))
            sums.total.backward()
            return float(sums.total.detach()), float(sums.count)

        drop = partial(self.zero_grad, set_to_none=True)
        for _ in range(self._epochs):
            steps = rows.microbatches(np.arange(len(rows.rows)), self._tokens, together=True)
            total, count = 0.0, 0.0
            for i in rng.permutation(len(steps)):
                drop()
                sums = self._budget.each(rows, steps[i], step, drop=drop, together=True)
                of_step, number = map(sum, zip(*sums, strict=True))
                divide_gradients(self.parameters(), max(number, 1.0))
                nn.utils.clip_grad_norm_(self.parameters(), 1.0)
                self.optimizer.step()
                total, count = total + of_step, count + number
            mean = total / max(count, 1.0)
        return mean

    def states(self) -> dict[str, Any]:
        """Returns weights and optimiser for a checkpoint."""
        return {
            "reader": self.reader.own_weights(),
            "head": self.head.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }

    def restore(self, states: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        self.reader.load_own_weights(states["reader"])
        self.head.load_state_dict(states["head"])
        self.optimizer.load_state_dict(states["optimizer"])


def turn_loss(targets: np.ndarray) -> Loss:
    """Returns half the squared error against targets [M], as a loss for `TurnModel.fit`."""
    wanted = torch.from_numpy(np.asarray(targets, np.float32))

    def loss(numbers: Tensor, turn: Tensor) -> Sum:
        error = numbers - wanted.to(numbers.device)[turn]
        return Sum(0.5 * error.square().sum(), error.new_tensor(float(len(error))))

    return loss
