"""The loss of policy and critic: `microbatch_loss`, from a batch and its credit as tensors.

A forced token is a token with a single legal continuation. It is excluded from the policy loss, the
entropy and the KL, and included in the value loss.

Shapes: M turns and K action tokens per batch, k action tokens per microbatch.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentgym.trainers.data.batch import Batch, Credit
from agentgym.trainers.data.trajectory import FloatArray
from agentgym.trainers.settings import CriticConfig, LossConfig
from agentgym.trainers.update import losses
from agentgym.trainers.update.learner import ForwardPass, Output
from agentgym.trainers.update.metrics import SUMS
from agentgym.trainers.update.mismatch import importance_weights
from agentgym.trainers.update.rows import Rows
from agentgym.trainers.update.token_masks import kept_tokens, low_entropy_tokens

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
    masked: float  # share of free tokens that `kept_tokens` leaves out
    free: Tensor
    weights: losses.Weights
    span: Tensor | None  # tokens with one ratio
    weighed: Tensor | None  # tokens with one importance weight
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
        end_tokens: Collection[int] = (),
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
            end_tokens: the tokens that end an action, to tell truncated ones.

        Raises:
            ValueError: if importance weights are wanted, and the batch has no log-probabilities
                of training.
        """
        turn = torch.from_numpy(batch.token_turn)
        trajectory = torch.from_numpy(batch.turn_trajectory[batch.token_turn])
        weights = batch.weights(settings.thought_coef)
        entropy = None if forward is None else forward.entropy
        kept = kept_tokens(batch, settings, length, end_tokens, credit.chunks, entropy)
        wanted = torch.from_numpy(weights * kept)
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
            detached = low_entropy_tokens(batch, credit, free, settings.covariance_clip, seed)
        kind = settings.ratio.removesuffix("_product")
        spans = {"turn": turn, "trajectory": trajectory}
        if credit.chunks is not None:
            spans["chunk"] = torch.from_numpy(credit.chunks[batch.token_turn])
        span, weighed = spans.get(kind), spans.get(settings.importance_span)
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
            masked=float((~kept)[weights > 0].sum() / max((weights > 0).sum(), 1)),
            free=free.to(device),
            weights=_weights(settings, wanted, turn, trajectory, length).to(device),
            span=None if span is None else span.to(device),
            weighed=None if weighed is None else weighed.to(device),
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
            weighed=some(self.weighed),
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
        penalised = settings.kl_coef and not settings.penalises_rewards
        penalised = penalised and self.reference is not None and not self.at_reference
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


def microbatch_loss(
    index: Tensor,
    output: Output,
    data: UpdateData,
    counts: Counts,
    settings: LossConfig,
    critic: CriticConfig,
) -> tuple[Tensor, Tensor]:
    """Returns a microbatch's terms of the loss of a minibatch, and its sums [len(SUMS)].

        loss = surrogate - entropy_coef entropy + kl_coef KL(policy || reference)
               + value_coef value_loss

    The squared surrogate has the place of the first and the third term.

    Args:
        index: [k] indices of the action tokens in the batch.
        output: the outputs for them.
        data: the batch.
        counts: the denominators of the minibatch.
        settings: settings of the policy loss.
        critic: settings of the value loss.
    """
    free = data.free[index]
    tokens = data.at(index[free])
    logprobs, entropy = output.logprobs[free].float(), output.entropy[free]
    old = logprobs.detach() if tokens.old_logprobs is None else tokens.old_logprobs
    weights, importance, truncated = tokens.weights, torch.ones_like(old), torch.zeros_like(old)
    if tokens.sampler_logprobs is not None and settings.importance_cap is not None:
        cap, log_weights = settings.importance_cap, old - tokens.sampler_logprobs
        if tokens.weighed is not None:
            log_weights = losses.over_spans(log_weights, tokens.weighed, mean=False)
        importance = importance_weights(log_weights, cap)
        truncated = (log_weights > math.log(cap)).float()
        weights = weights.times(importance)
    surrogate = _surrogate(logprobs, old, tokens, weights, settings)
    loss = surrogate.loss.total
    if settings.entropy_coef:  # without it, no gradient of the entropies is computed
        floor = settings.entropy_floor
        rewarded = entropy if floor is None else entropy.clamp(max=floor)
        loss = loss - settings.entropy_coef * losses.aggregate(rewarded, tokens.weights).total
    kl = torch.zeros_like(entropy)
    if tokens.reference is not None:
        kl = losses.kl_penalty(logprobs, tokens.reference)
        if not settings.penalises_rewards and settings.surrogate != "squared":
            k2 = settings.kl_in == "loss_k2"
            penalty = losses.kl_penalty(logprobs, tokens.reference, "k2") if k2 else kl
            loss = loss + settings.kl_coef * losses.aggregate(penalty, tokens.weights).total
    loss = loss / counts.policy
    value, read = loss.new_zeros(()), torch.zeros((), device=loss.device)
    if output.values is not None:
        targets, old_values = data.values_at(output.value_index)
        value = losses.value_loss(output.values, targets, old_values, clip=critic.value_clip).total
        if output.bootstrap is not None:  # DDP needs every parameter in the graph
            value = value + 0.0 * output.bootstrap.sum()
        loss = loss + critic.value_coef * value / counts.values
        read = read + len(output.values)
    sums = {
        "policy": surrogate.loss.total,
        "entropy": entropy.sum(),
        "reference_kl": kl.sum(),
        "kl": surrogate.kl.total,
        "clipped": surrogate.clipped.total,
        "free": free.sum(),
        "value": value,
        "values": read,
        "importance": importance.sum(),
        "truncated": truncated.sum(),
    }
    return loss, torch.stack([sums[name].detach().double() for name in SUMS])


def _surrogate(
    logprobs: Tensor, old: Tensor, tokens: UpdateData, weights: losses.Weights, settings: LossConfig
) -> losses.Surrogate:
    """Returns the policy loss of the free tokens of a microbatch."""
    product: Literal["mean", "product"] = (
        "product" if settings.ratio.endswith("_product") else "mean"
    )
    if settings.surrogate == "squared":
        assert tokens.reference is not None
        return losses.squared_surrogate(
            logprobs,
            old,
            tokens.reference,
            tokens.advantages,
            beta=settings.kl_coef,
            span=tokens.span,
            span_ratio=product,
            detached=tokens.detached,
            weights=weights,
        )
    return losses.clipped_surrogate(
        logprobs,
        old,
        tokens.advantages,
        span=tokens.span,
        span_ratio=product,
        clip_low=settings.clip,
        clip_high=settings.clip if settings.clip_high is None else settings.clip_high,
        dual_clip=settings.dual_clip,
        detached=tokens.detached,
        bound=settings.surrogate,
        weighted=settings.ratio != "none",
        weights=weights,
    )


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
