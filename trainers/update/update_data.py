"""`UpdateData`: a batch and its credit as tensors, from which `Updater` computes losses.

A forced token is a token with a single legal continuation. It is excluded from the policy loss, the
entropy and the KL, and included in the value loss.

Shapes: M turns and K action tokens per batch, k action tokens per microbatch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentgym.trainers.data.batch import Batch, Credit
from agentgym.trainers.data.trajectory import FloatArray
from agentgym.trainers.settings import LossConfig
from agentgym.trainers.update import losses
from agentgym.trainers.update.learner import ForwardPass, Rows

ROUNDING = 1e-5
"""Largest log ratio, in nats, by which rounding tells a policy from a reference that it equals."""


@dataclass(frozen=True)
class Counts:
    """The denominators of a minibatch's sums."""

    policy: float
    free: float
    values: float


@dataclass(frozen=True)
class UpdateData:
    """A batch and its credit as tensors on the device, of shape [K] unless noted."""

    advantages: Tensor
    old_logprobs: Tensor | None  # None: those of the pass itself, before the only step
    sampler_logprobs: Tensor | None  # None: without importance weights
    reference: Tensor | None
    at_reference: bool  # whether the policy equals its reference before the update
    free: Tensor
    weights: losses.Weights
    span: Tensor | None
    turn: Tensor
    targets: Tensor | None  # [K] or [M]
    old_values: Tensor | None  # [K] or [M]
    detached: Tensor | None

    @classmethod
    def of(
        cls,
        batch: Batch,
        credit: Credit,
        forward: ForwardPass | None,
        settings: LossConfig,
        *,
        length: int,
        device: torch.device,
        seed: int,
        first_pass: bool = False,
    ) -> UpdateData:
        """Returns the tensors of a batch.

        Args:
            batch: the trajectories.
            credit: normalised advantages and value targets.
            forward: the forward pass before the update, or None.
            settings: settings of the policy loss.
            length: maximum length of an action, for the aggregation "constant".
            device: their device.
            seed: randomness of the covariance clip.
            first_pass: the old log-probabilities are those of the first pass of the update, which
                must be the only one.

        Raises:
            ValueError: if importance weights are wanted, and the batch has no log-probabilities
                of training.
        """
        turn = torch.from_numpy(batch.token_turn)
        trajectory = torch.from_numpy(batch.turn_trajectory[batch.token_turn])
        wanted = torch.from_numpy(batch.weights(settings.thought_coef))
        free = wanted > 0
        values = None if forward is None else forward.values
        old_values = None
        if values is not None:
            old_values = values.turns if values.tokens is None else values.tokens

        def tensor(array: FloatArray | None) -> Tensor | None:
            return None if array is None else torch.from_numpy(np.asarray(array)).to(device)

        old_logprobs, advantages = tensor(batch.logprobs), tensor(credit.advantages)
        assert old_logprobs is not None and advantages is not None
        detached = None
        if settings.covariance_clip:
            detached = _low_entropy(batch, credit, free, settings.covariance_clip, seed)
        kind = settings.ratio.removesuffix("_product")
        span = {"turn": turn, "trajectory": trajectory}.get(kind)
        at_reference = False
        if forward is not None and forward.reference is not None:
            at_reference = bool(np.abs(forward.log_ratio).max(initial=0.0) <= ROUNDING)
        sampled = None
        if settings.importance_cap is not None:
            sampled = batch.logprobs if first_pass else batch.sampler_logprobs
            if sampled is None:
                raise ValueError("Importance weights need recomputed log-probabilities.")
        return cls(
            advantages=advantages,
            old_logprobs=None if first_pass else old_logprobs,
            sampler_logprobs=tensor(sampled),
            reference=None if forward is None else tensor(forward.reference),
            at_reference=at_reference,
            free=free.to(device),
            weights=_weights(settings, wanted, turn, trajectory, length).to(device),
            span=None if span is None else span.to(device),
            turn=turn.to(device),
            targets=None if values is None else tensor(credit.targets),
            old_values=tensor(old_values),
            detached=None if detached is None else detached.to(device),
        )

    def at(self, index: Tensor) -> UpdateData:
        """Returns the data of some tokens. Value targets and old values stay those of the batch."""

        def some(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor[index]

        return replace(
            self,
            advantages=self.advantages[index],
            old_logprobs=some(self.old_logprobs),
            sampler_logprobs=some(self.sampler_logprobs),
            reference=some(self.reference),
            free=self.free[index],
            weights=self.weights[index],
            span=some(self.span),
            turn=self.turn[index],
            detached=some(self.detached),
        )

    def values_at(self, index: Tensor) -> tuple[Tensor, Tensor | None]:
        """Returns the value targets of some tokens or turns, and the values before the update."""
        assert self.targets is not None
        return self.targets[index], None if self.old_values is None else self.old_values[index]

    def idle(self, rows: Rows, settings: LossConfig) -> NDArray[np.bool_]:
        """Returns True for the rows of trajectories without a gradient, one number per row.

        Their advantages are 0, as in a group of equal returns. No row is idle if an entropy bonus,
        a KL penalty or a value loss gives a gradient to all tokens. A policy that equals its
        reference has no gradient of the penalty until the first step.

        Args:
            rows: the rows of the batch.
            settings: settings of the policy loss.
        """
        penalised = self.reference is not None and settings.kl_in != "reward" and settings.kl_coef
        penalised = penalised and not self.at_reference
        if settings.entropy_coef or penalised or self.targets is not None:
            return np.zeros(len(rows.rows), bool)
        tokens = ((self.advantages == 0) | ~self.free).cpu().numpy()
        owners = np.array([trajectory for trajectory, _ in rows.rows])
        idle = np.array([tokens[each].all() for each in rows.tokens])
        # The ratio of a trajectory depends on all its rows.
        return ~np.isin(owners, owners[~idle])

    def counts(self, tokens: NDArray[np.int64]) -> Counts:
        """Returns the denominators of sums over these action tokens."""
        index = torch.from_numpy(tokens).to(self.turn.device)
        values = len(index)
        if self.targets is not None and len(self.targets) != len(self.turn):
            values = len(torch.unique(self.turn[index]))
        policy = float(self.weights.share[index].double().sum())
        return Counts(max(policy, 1e-8), max(float(self.free[index].sum()), 1.0), max(values, 1))


def _weights(
    settings: LossConfig, wanted: Tensor, turn: Tensor, trajectory: Tensor, length: int
) -> losses.Weights:
    """Returns the weights of the tokens in the loss, 0 where `wanted` is."""
    free = wanted > 0
    weights = losses.Weights(torch.zeros(len(free)), torch.zeros(len(free)))
    if free.any():
        some = losses.aggregation_weights(
            settings.aggregation,
            turn[free],
            trajectory[free],
            length=length,
            importance=wanted[free],
        )
        weights.weight[free], weights.share[free] = some.weight, some.share
    return weights


def _low_entropy(batch: Batch, credit: Credit, free: Tensor, fraction: float, seed: int) -> Tensor:
    """Returns the mask of the tokens that lower the entropy most (Clip-Cov).

    They are selected from the whole batch, with the log-probs of the behaviour policy, so the
    selection does not depend on the split into minibatches.
    """
    detached = torch.zeros_like(free)
    detached[free] = losses.covariance_clip(
        torch.as_tensor(batch.logprobs)[free],
        torch.as_tensor(credit.advantages)[free],
        fraction=fraction,
        generator=torch.Generator().manual_seed(seed % 2**63),
    )
    return detached
