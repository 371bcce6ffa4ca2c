"""`TurnModel`: a small language model of its own that says a number about every turn.

It reads what the policy read up to the end of an action. Learned turn rewards are such numbers,
trained on what a trajectory brought in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from agentgym.trainers.collate import collate
from agentgym.trainers.critics.backbone import BackboneCritic
from agentgym.trainers.learner import Rows
from agentgym.trainers.losses import Sum
from agentgym.trainers.policy import Policy
from agentgym.trainers.trajectory import Batch

Loss = Callable[[Tensor, Tensor], Sum]
"""From predictions [m] and the numbers of their turns in the batch [m] to a loss."""


class TurnModel(nn.Module):
    """Numbers about turns, and how to fit them.

    Args:
        policy: whose tokens it reads; nothing is shared with it.
        lr: learning rate.
        epochs: passes over a round.
        tokens: tokens, padding included, in a step.
        seed: of the weights.
    """

    def __init__(
        self, policy: Policy, *, lr: float = 1e-3, epochs: int = 2, tokens: int = 16384, seed: int
    ):
        super().__init__()
        config = policy.model.config.get_text_config(decoder=True)
        self.backbone = BackboneCritic.small(
            config.vocab_size,
            hidden_size=64,
            max_length=policy.max_length or 4096,
            generator=torch.Generator().manual_seed(seed),
        ).to(policy.device)
        self._pad, self._epochs, self._tokens = policy.pad_token, epochs, tokens
        self._device = policy.device
        self.optimizer = torch.optim.AdamW(self.parameters(), lr=lr, weight_decay=0.0)

    def forward(self, batch: Batch, rows: list[tuple[int, int]]) -> tuple[Tensor, Tensor]:
        """Returns the numbers [m] of the turns in some segments, and which turns these are [m]."""
        collated = collate(batch, rows, self._pad).to(self._device)
        turn = torch.from_numpy(batch.token_turn).to(self._device)[collated.index]
        last = torch.ones_like(turn, dtype=torch.bool)
        last[:-1] = turn[1:] != turn[:-1]
        row, column = collated.row[last], collated.column[last] + 1
        numbers = self.backbone(collated.tokens, collated.attention_mask, row, column)
        return numbers, turn[last]

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
                total, count = total + float(sums.total), count + float(sums.count)
            mean = total / max(count, 1.0)
        return mean

    def states(self) -> dict[str, Any]:
        """Returns weights and optimiser for a checkpoint."""
        return {"weights": self.state_dict(), "optimizer": self.optimizer.state_dict()}

    def restore(self, states: dict[str, Any]) -> None:
        """Goes on from a checkpoint."""
        self.load_state_dict(states["weights"])
        self.optimizer.load_state_dict(states["optimizer"])
