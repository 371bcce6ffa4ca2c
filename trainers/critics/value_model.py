"""`ValueModel`: a value function with a language model of its own.

A head on the policy's hidden states shares its backbone with the policy, learns from the episodes
of one iteration and stops when the policy's update does. A value model starts as a copy of the
policy and trains backbone and head together, for several epochs over the episodes of the last
iterations. It is the critic with `--critic-backbone separate`, and the learned turn reward of
recipes. The critic of
"ArCHer: Training Language Model Agents via Hierarchical Multi-Turn RL" (arXiv 2402.19446) has a
language model of its own too.

Shapes: N trajectories, M turns and K action tokens per batch. A microbatch has b bootstrap
positions and k positions with a value.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from agentgym.trainers.critics.heads import ActionValueHead, ValueHead
from agentgym.trainers.critics.privileged import critic_view
from agentgym.trainers.critics.two_hot import cross_entropy
from agentgym.trainers.data.batch import Batch, Credit, Values
from agentgym.trainers.data.packing import pack_all, unpack_all
from agentgym.trainers.data.trajectory import FloatArray
from agentgym.trainers.policy.collate import Collated, collate
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.rollout.context import Context
from agentgym.trainers.settings import CriticConfig
from agentgym.trainers.update.losses import Sum
from agentgym.trainers.update.microbatches import TokenBudget, padded
from agentgym.trainers.update.optimizer import AdamW, divide_gradients
from agentgym.trainers.update.rows import Rows

Loss = Callable[[Tensor, Tensor, Tensor, Batch], Sum]
"""From outputs of the head [k] (two-hot: [k, bins]), the targets of the batch, the indices of the
outputs [k] and the batch to a loss. Outputs and targets are normalised."""
Targets = tuple[Batch, FloatArray]


def squared_error(values: Tensor, targets: Tensor, index: Tensor, batch: Batch) -> Sum:
    """Returns half the squared error against one target per token or turn of the batch."""
    error = values - targets[index]
    return Sum(0.5 * error.square().sum(), error.new_tensor(float(len(error))))


class ValueModel(nn.Module):
    """Values of tokens, turns or actions, by a language model that only their loss trains.

    Args:
        policy: the policy whose copy it starts from. The base of an adapter is shared with it.
        head: the value head. Its `reads` sets the positions of the values.
        lr: learning rate.
        epochs: epochs per call of `fit`.
        batch_tokens: tokens per optimiser step. A forward and backward pass has up to `padded` of
            them, padding included.
        rounds: last calls of `fit` whose episodes are fitted together.
        together: whether the turns of a trajectory share an optimiser step.
        normalize: whether the head predicts targets in standard deviations from their mean, as in
            "Learning values across many orders of magnitude" (PopArt, arXiv 1602.07714). When
            these change, the head is rescaled, so that all values stay as they are. The values of a
            two-hot head move with its bins, and the epochs that follow fit them.
        max_grad_norm: gradient norm clip.
        loss: the loss to minimise. None: the squared error, or the cross-entropy of a two-hot head.
        view: maps a batch to one with other tokens, which are read in place of its own. It may
            only change segments and the positions of actions in them.
    """

    def __init__(
        self,
        policy: Policy,
        head: ValueHead,
        *,
        lr: float,
        epochs: int = 2,
        batch_tokens: int = 8192,
        rounds: int = 1,
        together: bool = False,
        normalize: bool = False,
        max_grad_norm: float = 1.0,
        loss: Loss | None = None,
        view: Callable[[Batch], Batch] | None = None,
    ):
        super().__init__()
        self._view = view or (lambda batch: batch)
        self.trunk, self.head = policy.clone(), head.to(policy.device)
        self.head.detach = False
        self._epochs, self._batch_tokens, self._together = epochs, batch_tokens, together
        self._budget, self._max_grad_norm = TokenBudget(padded(batch_tokens)), max_grad_norm
        default = squared_error if head.bins == 1 else cross_entropy
        self._normalize, self._loss = normalize, loss or default
        self.mean: Tensor
        self.scale: Tensor
        self.register_buffer("mean", torch.zeros((), device=policy.device))
        self.register_buffer("scale", torch.ones((), device=policy.device))
        self._trained = [parameter for parameter in self.parameters() if parameter.requires_grad]
        self.optimizer = AdamW(self._trained, lr=lr, weight_decay=0.0)
        self._earlier: deque[Targets] = deque(maxlen=rounds - 1)

    def forward(self, collated: Collated, turn: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns values [k], the indices of their tokens or turns [k], and bootstrap values [b].

        Args:
            collated: the padded rows.
            turn: index in the batch of the turn of each action token.
        """
        outputs, index, last = self._outputs(collated, turn)
        return self._value(outputs), index, self._value(last)

    def predict(self, batch: Batch) -> FloatArray:
        """Returns the values of a batch: [K] if the head reads tokens, else [M]."""
        return self._predict(self._view(batch))[0]

    def evaluate(self, batch: Batch) -> Values:
        """Returns the values of the states of a batch and its bootstrap values."""
        values, bootstrap = self._predict(self._view(batch))
        if self.head.reads == "turns":
            return Values(None, values, bootstrap)
        return Values(values, values[batch.token_offsets[:-1]], bootstrap)

    def last_values(self, batch: Batch) -> FloatArray:
        """Returns the values of the last observations [N], 0 where none is kept."""
        return self._predict(self._view(batch), last=True)[1]

    def begin(
        self, batch: Batch, credit: Callable[[Batch, Values], Credit], rng: np.random.Generator
    ) -> None:
        """Fits the values to the episodes before RL, with new targets in each epoch.

        Args:
            batch: the trajectories.
            credit: computes the targets from the batch and its values.
            rng: shuffles the steps.
        """
        read, targets = self._view(batch), None
        rows = _rows(read)
        for _ in range(self._epochs):
            targets = credit(batch, self.evaluate(batch)).targets
            assert targets is not None
            self._rescale([(read, targets)])
            self._epoch([(read, targets)], [rows], rng)
        assert targets is not None
        self._earlier.append((read, targets))

    def fit(self, batch: Batch, targets: ArrayLike, rng: np.random.Generator) -> list[float]:
        """Fits the values to a batch and to those of the rounds before.

        Args:
            batch: the trajectories.
            targets: the targets, by default one per value: [K] if the head reads tokens, else [M].
            rng: shuffles the steps.

        Returns:
            The mean loss of each epoch, of normalised values.
        """
        latest = self._view(batch), np.asarray(targets, np.float32)
        rounds = [*self._earlier, latest]
        self._rescale(rounds)
        rows = [_rows(read) for read, _ in rounds]
        losses = [self._epoch(rounds, rows, rng) for _ in range(self._epochs)]
        self._earlier.append(latest)
        return losses

    def states(self) -> dict[str, Any]:
        """Returns weights, optimiser and earlier rounds for a checkpoint."""
        return {
            "trunk": self.trunk.own_weights(),
            "head": self.head.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "mean": self.mean,
            "scale": self.scale,
            "rounds": [
                (pack_all(batch.trajectories), torch.from_numpy(targets))
                for batch, targets in self._earlier
            ],
        }

    def restore(self, states: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        self.trunk.load_own_weights(states["trunk"])
        self.head.load_state_dict(states["head"])
        self.optimizer.load_state_dict(states["optimizer"])
        self.mean.copy_(states["mean"])
        self.scale.copy_(states["scale"])
        self._earlier.clear()
        for packed, targets in states["rounds"]:
            self._earlier.append((Batch.of(unpack_all(packed)), targets.numpy()))

    def _outputs(self, collated: Collated, turn: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns outputs of the head, their indices, and outputs at the bootstrap positions."""
        places, index = self.head.places(collated, turn)
        hidden, last = self.trunk.hidden(places)
        return self.head.outputs(hidden), index, self.head.outputs(last)

    def _value(self, outputs: Tensor) -> Tensor:
        return self.mean + self.scale * self.head.values(outputs)

    @torch.no_grad()
    def _predict(self, batch: Batch, last: bool = False) -> tuple[FloatArray, FloatArray]:
        """Returns the values [K] or [M], and the bootstrap values [N].

        Args:
            batch: the trajectories, as the model reads them.
            last: read the last observations only. Values of other segments are then 0.
        """
        rows, trajectories = Rows.of(batch), batch.trajectories
        chosen = [
            i for i, (n, s) in enumerate(rows.rows) if not last or s == trajectories[n].bootstrap
        ]
        count = batch.num_tokens if self.head.reads == "tokens" else batch.num_turns
        values = np.zeros(count, np.float32)
        bootstrap = np.zeros(len(batch.trajectories), np.float32)

        def step(part: NDArray[np.int64]) -> None:
            collated, turn = self._collate(batch, rows, part)
            found, index, last = self(collated, turn)
            values[index.cpu().numpy()] = found.cpu().numpy()
            bootstrap[collated.bootstrap_trajectory.cpu().numpy()] = last.cpu().numpy()

        self._budget.each(rows, np.array(chosen, np.int64), step)
        return values, bootstrap

    @torch.no_grad()
    def _rescale(self, rounds: Sequence[Targets]) -> None:
        """Sets mean and scale to those of the targets and rescales the head to equal values."""
        if not self._normalize:
            return
        everything = np.concatenate([targets for _, targets in rounds]).astype(np.float64)
        mean, scale = float(everything.mean()), max(float(everything.std()), 1e-4)
        if self.head.bins == 1:
            final = self.head.mlp[-1]
            assert isinstance(final, nn.Linear) and final.bias is not None
            final.weight.mul_(self.scale / scale)
            final.bias.copy_((self.scale * final.bias + self.mean - mean) / scale)
        self.mean.fill_(mean)
        self.scale.fill_(scale)

    def _epoch(
        self, rounds: Sequence[Targets], all_rows: Sequence[Rows], rng: np.random.Generator
    ) -> float:
        """Takes the steps of all rounds, shuffled, and returns the mean loss."""
        steps = []
        for (batch, targets), rows in zip(rounds, all_rows, strict=True):
            wanted = (torch.from_numpy(targets).to(self.trunk.device) - self.mean) / self.scale
            if self._together:
                everything = np.arange(len(rows.rows))
                parts = rows.microbatches(everything, self._batch_tokens, together=True)
            else:
                parts = rows.steps(self._batch_tokens, rng)
            steps += [(batch, rows, part, wanted) for part in parts]
        total, count = 0.0, 0.0
        drop = self.optimizer.zero_grad
        drop()
        for i in rng.permutation(len(steps)):
            batch, rows, part, wanted = steps[i]
            step = partial(self._backward, batch, rows, wanted)
            sums = self._budget.each(rows, part, step, drop=drop, together=self._together)
            of_step, number = map(sum, zip(*sums, strict=True))
            divide_gradients(self._trained, max(number, 1.0))
            nn.utils.clip_grad_norm_(self._trained, self._max_grad_norm)
            self.optimizer.step()
            drop()
            total, count = total + of_step, count + number
        return total / max(count, 1.0)

    def _backward(
        self, batch: Batch, rows: Rows, wanted: Tensor, part: NDArray[np.int64]
    ) -> tuple[float, float]:
        """Adds the gradient of the summed loss, and returns the sum and its count.

        Gradients of a mean would underflow in float16 without a gradient scaler, those of a sum,
        which are divided in float32, do not.
        """
        outputs, index, _ = self._outputs(*self._collate(batch, rows, part, bootstrap=False))
        loss = self._loss(outputs, wanted, index, batch)
        loss.total.backward()
        return float(loss.total.detach()), float(loss.count)

    def _collate(
        self, batch: Batch, rows: Rows, part: NDArray[np.int64], bootstrap: bool = True
    ) -> tuple[Collated, Tensor]:
        chosen = [rows.rows[i] for i in part]
        collated = collate(batch, chosen, self.trunk.pad_token, bootstrap=bootstrap)
        turn = torch.from_numpy(batch.token_turn)[collated.index]
        return collated.to(self.trunk.device), turn.to(self.trunk.device)


def _rows(batch: Batch) -> Rows:
    """Returns the rows that the loss reads: those of tokens, turns or actions."""
    return Rows.of(batch, bootstrap=False)


def action_model(
    policy: Policy,
    *,
    seed: int,
    lr: float = 1e-3,
    epochs: int = 2,
    max_grad_norm: float = 1.0,
    loss: Loss = squared_error,
) -> ValueModel:
    """Returns a model that scores actions: one number per turn, at the end of its action.

    Args:
        policy: the policy whose copy it starts from.
        seed: seed of the head's weights.
        lr: learning rate.
        epochs: epochs per call of `fit`.
        max_grad_norm: gradient norm clip.
        loss: the loss to minimise.
    """
    generator = torch.Generator().manual_seed(seed)
    head = ActionValueHead(policy.hidden_size, (64,), detach=False, generator=generator)
    return ValueModel(
        policy,
        head,
        lr=lr,
        epochs=epochs,
        batch_tokens=2048,
        together=True,
        max_grad_norm=max_grad_norm,
        loss=loss,
    )


def own_critic(
    policy: Policy,
    head: ValueHead,
    settings: CriticConfig,
    context: Context,
    max_grad_norm: float,
) -> ValueModel:
    """Returns the critic of `critic_backbone` = "separate".

    Args:
        policy: the policy whose copy it starts from.
        head: the value head.
        settings: the settings of the critic.
        context: the prompts of the policy, which `critic_view` adds texts to or replaces.
        max_grad_norm: gradient norm clip.
    """
    assert settings.critic_lr is not None
    return ValueModel(
        policy,
        head,
        lr=settings.critic_lr,
        epochs=settings.critic_epochs,
        batch_tokens=settings.critic_batch_tokens,
        rounds=settings.critic_window,
        normalize=True,
        max_grad_norm=max_grad_norm,
        view=critic_view(settings.critic_sees, context),
    )
