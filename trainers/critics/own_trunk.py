"""`OwnTrunkCritic`: a critic that reads with a copy of the policy's language model.

A head on the policy's hidden states shares its trunk with the policy, learns from the episodes of
one iteration and stops when the policy's update does. This critic starts as a copy of the policy
after imitation, and trains trunk and head together, for several epochs over the episodes of the
last iterations. The critic of "ArCHer: Training Language Model Agents via Hierarchical Multi-Turn
RL" (arXiv 2402.19446) has a language model of its own too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from agentgym.trainers.critics.heads import ValueHead
from agentgym.trainers.hooks.base import pack, unpack
from agentgym.trainers.policy.collate import Collated, collate
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.settings import CriticConfig
from agentgym.trainers.trajectory import Batch, Credit, FloatArray, Values
from agentgym.trainers.update.learner import Rows
from agentgym.trainers.update.memory import TokenBudget, divide_gradients
from agentgym.trainers.update.optimizer import AdamW


class OwnTrunkCritic(nn.Module):
    """Values of a language model of its own. An adapter's base model is shared with the policy.

    Args:
        policy: the policy whose copy it starts from.
        head: the value head. Its gradient trains the trunk.
        settings: learning rate, epochs, rounds and tokens per step.
    """

    def __init__(self, policy: Policy, head: ValueHead, settings: CriticConfig):
        super().__init__()
        self.trunk, self.head, self.settings = policy.clone(), head.to(policy.device), settings
        self.head.detach = False
        trained = [parameter for parameter in self.parameters() if parameter.requires_grad]
        self.optimizer = AdamW(trained, lr=settings.critic_lr, weight_decay=0.0)
        self._budget = TokenBudget(settings.critic_batch_tokens)
        self._rounds: deque[tuple[Batch, FloatArray]] = deque(maxlen=settings.critic_rounds)

    def forward(self, collated: Collated, turn: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns values of tokens or turns [k], their indices [k] and bootstrap values [b].

        Args:
            collated: the padded rows.
            turn: [k] index in the batch of each token's turn.
        """
        hidden, last = self.trunk.hidden(collated)
        index = collated.index
        if self.head.reads == "turns":
            first = self.head.positions(turn)  # type: ignore[operator]
            hidden, index = hidden[first], turn[first]
        return self.head(hidden), index, self.head(last)

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Values:
        """Returns the values of a batch, [K] and [M] for a token critic, else [M], and [N]."""
        rows = Rows.of(batch)
        of_turns = self.head.reads == "turns"
        values = np.zeros(batch.num_turns if of_turns else batch.num_tokens, np.float32)
        bootstrap = np.zeros(len(batch.trajectories), np.float32)

        def step(part: NDArray[np.int64]) -> None:
            collated, turn = self._collate(batch, rows, part)
            found, index, last = self(collated, turn)
            values[index.cpu().numpy()] = found.cpu().numpy()
            bootstrap[collated.bootstrap_trajectory.cpu().numpy()] = last.cpu().numpy()

        self._budget.each(rows, np.arange(len(rows.rows)), step)
        if of_turns:
            return Values(None, values, bootstrap)
        return Values(values, values[batch.token_offsets[:-1]], bootstrap)

    def begin(
        self, batch: Batch, credit: Callable[[Batch, Values], Credit], rng: np.random.Generator
    ) -> None:
        """Fits the values to the episodes before RL, with new targets in each epoch.

        Args:
            batch: the trajectories.
            credit: computes the targets from the batch and its values.
            rng: shuffles the steps.
        """
        for _ in range(self.settings.critic_epochs):
            targets = credit(batch, self.evaluate(batch)).targets
            assert targets is not None
            self._rounds.clear()
            self._rounds.append((batch, targets))
            self._epoch(rng)

    def fit(self, batch: Batch, targets: FloatArray, rng: np.random.Generator) -> dict[str, float]:
        """Fits the values to a batch and those of the rounds before.

        Args:
            batch: the trajectories.
            targets: targets of the values, [K] for a token critic, else [M].
            rng: shuffles the steps.

        Returns:
            The mean value losses of the last and the first epoch, as scalars to log.
        """
        self._rounds.append((batch, targets))
        losses = [self._epoch(rng) for _ in range(self.settings.critic_epochs)]
        return {"value_loss": losses[-1], "value_loss_first": losses[0]}

    def _epoch(self, rng: np.random.Generator) -> float:
        """Takes a step per microbatch of all rounds and returns the mean loss."""
        steps = []
        for batch, targets in self._rounds:
            rows = Rows.of(batch)
            wanted = torch.from_numpy(np.asarray(targets, np.float32)).to(self.trunk.device)
            everything = rng.permutation(len(rows.rows))
            limit = self.settings.critic_batch_tokens
            steps += [(batch, rows, p, wanted) for p in rows.microbatches(everything, limit)]
        total, count = 0.0, 0
        drop = partial(self.optimizer.zero_grad, set_to_none=True)
        for i in rng.permutation(len(steps)):
            batch, rows, part, wanted = steps[i]
            step = partial(self._backward, batch, rows, wanted)
            sums = self._budget.each(rows, part, step, drop=drop)
            of_step, number = map(sum, zip(*sums, strict=True))
            divide_gradients(self.parameters(), max(number, 1))
            nn.utils.clip_grad_norm_(self.parameters(), 1.0)
            self.optimizer.step()
            drop()
            total, count = total + of_step, count + number
        return total / max(count, 1)

    def _backward(
        self, batch: Batch, rows: Rows, wanted: Tensor, part: NDArray[np.int64]
    ) -> tuple[float, int]:
        """Adds the gradient of the summed loss, and returns the sum and the number of values."""
        values, index, _ = self(*self._collate(batch, rows, part))
        loss = 0.5 * (values - wanted[index]).square().sum()
        loss.backward()
        return float(loss.detach()), len(values)

    def _collate(self, batch: Batch, rows: Rows, part: np.ndarray) -> tuple[Collated, Tensor]:
        collated = collate(batch, [rows.rows[i] for i in part], self.trunk.pad_token)
        turn = torch.from_numpy(batch.token_turn)[collated.index]
        return collated.to(self.trunk.device), turn.to(self.trunk.device)

    def states(self) -> dict[str, Any]:
        """Returns weights, optimiser and rounds for a checkpoint."""
        return {
            "trunk": self.trunk.own_weights(),
            "head": self.head.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "rounds": [
                ([pack(each) for each in batch.trajectories], targets.tolist())
                for batch, targets in self._rounds
            ],
        }

    def restore(self, states: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        self.trunk.load_own_weights(states["trunk"])
        self.head.load_state_dict(states["head"])
        self.optimizer.load_state_dict(states["optimizer"])
        self._rounds.clear()
        for packed, targets in states["rounds"]:
            batch = Batch.of([unpack(each) for each in packed])
            self._rounds.append((batch, np.array(targets, np.float32)))
