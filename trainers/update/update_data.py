"""`UpdateData`: a batch and its credit as tensors, and the loss of a microbatch.

A forced token is a token with a single legal continuation. It is excluded from the policy loss, the
entropy and the KL, and included in the value loss.

Shapes: M turns and K action tokens per batch, k action tokens per microbatch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentgym.trainers.data.batch import Batch, Credit
from agentgym.trainers.data.trajectory import FloatArray
from agentgym.trainers.settings import CriticConfig, LossConfig
from agentgym.trainers.update import losses
from agentgym.trainers.update.learner import ForwardPass, Output
from agentgym.trainers.update.mismatch import importance_weights

SUMS = (
    *("policy", "entropy", "reference_kl", "kl", "clipped", "free", "value", "values"),
    *("importance", "truncated"),
)
"""Sums over the tokens of a microbatch."""
KL, FREE = SUMS.index("kl"), SUMS.index("free")
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
        generator: torch.Generator,
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
            generator: randomness of the covariance clip.
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
            detached = _low_entropy(batch, credit, free, settings.covariance_clip, generator)
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

    def idle(self, settings: LossConfig) -> NDArray[np.bool_] | None:
        """Returns the tokens whose log-probability and entropy have no gradient in the loss, [K].

        Their advantage is 0, as in a group of equal returns. None if an entropy bonus, a KL penalty
        or a value loss gives a gradient to all tokens. A policy that equals its reference has no
        gradient of the penalty until the first step.

        Args:
            settings: settings of the policy loss.
        """
        penalised = self.reference is not None and settings.kl_in != "reward" and settings.kl_coef
        penalised = penalised and not self.at_reference
        if settings.entropy_coef or penalised or self.targets is not None:
            return None
        return ((self.advantages == 0) | ~self.free).cpu().numpy()

    def counts(self, tokens: NDArray[np.int64]) -> Counts:
        """Returns the denominators of sums over these action tokens."""
        index = torch.from_numpy(tokens).to(self.turn.device)
        values = len(index)
        if self.targets is not None and len(self.targets) != len(self.turn):
            values = len(torch.unique(self.turn[index]))
        policy = float(self.weights.share[index].double().sum())
        return Counts(max(policy, 1e-8), max(float(self.free[index].sum()), 1.0), max(values, 1))

    def loss(
        self,
        index: Tensor,
        output: Output,
        counts: Counts,
        settings: LossConfig,
        critic: CriticConfig,
    ) -> tuple[Tensor, Tensor]:
        """Returns a microbatch's terms of the loss and of the sums, the latter [len(SUMS)]."""
        free = self.free[index]
        chosen = index[free]
        weights = self.weights[chosen]
        logprobs = output.logprobs[free].float()
        old = logprobs.detach() if self.old_logprobs is None else self.old_logprobs[chosen]
        weighted, importance = weights, torch.ones_like(old)
        truncated, cap = torch.zeros_like(old), settings.importance_cap
        if self.sampler_logprobs is not None and cap is not None:
            sampled = self.sampler_logprobs[chosen]
            importance = importance_weights(old, sampled, cap)
            truncated = old - sampled > math.log(cap)
            weighted = replace(weights, weight=weights.weight * importance)
        surrogate = losses.clipped_surrogate(
            logprobs,
            old,
            self.advantages[chosen],
            span=None if self.span is None else self.span[chosen],
            span_ratio="product" if settings.ratio.endswith("_product") else "mean",
            clip_low=settings.clip,
            clip_high=settings.clip if settings.clip_high is None else settings.clip_high,
            dual_clip=settings.dual_clip,
            detached=None if self.detached is None else self.detached[chosen],
            clip_gradient=settings.clip_gradient,
            weighted=settings.ratio != "none",
            weights=weighted,
        )
        entropy, loss = output.entropy[free], surrogate.loss.total
        if settings.entropy_coef:  # without it, no gradient of the entropies is computed
            floor = settings.entropy_floor
            rewarded = entropy if floor is None else entropy.clamp(max=floor)
            loss = loss - settings.entropy_coef * losses.aggregate(rewarded, weights).total
        kl = torch.zeros_like(entropy)
        if self.reference is not None:
            kl = losses.kl_penalty(logprobs, self.reference[chosen])
            if settings.kl_in != "reward":
                penalty = kl
                if settings.kl_in == "loss_k2":
                    penalty = losses.kl_penalty(logprobs, self.reference[chosen], "k2")
                loss = loss + settings.kl_coef * losses.aggregate(penalty, weights).total
        loss = loss / counts.policy
        value, read = loss.new_zeros(()), 0
        if output.values is not None:
            value, read = self._value_loss(output, output.values, critic), len(output.values)
            loss = loss + critic.value_coef * value / counts.values
        parts = [surrogate.loss.total, entropy.sum(), kl.sum(), surrogate.kl.total]
        numbers = [*parts, surrogate.clipped.total, free.sum()]
        numbers += [value, torch.tensor(float(read)).to(entropy.device)]
        numbers += [importance.sum(), truncated.sum()]
        return loss, torch.stack([x.detach().double() for x in numbers])

    def _value_loss(self, output: Output, values: Tensor, critic: CriticConfig) -> Tensor:
        """Returns the summed value loss of a microbatch."""
        assert self.targets is not None
        at = output.value_index
        loss = losses.value_loss(
            values,
            self.targets[at],
            None if self.old_values is None else self.old_values[at],
            clip=critic.value_clip,
        ).total
        # The bootstrap values enter with the weight 0: DDP needs every parameter in the graph.
        return loss + 0.0 * (output.bootstrap.sum() if output.bootstrap is not None else 0.0)


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


def _low_entropy(
    batch: Batch, credit: Credit, free: Tensor, fraction: float, generator: torch.Generator
) -> Tensor:
    """Returns the mask of the tokens that lower the entropy most (Clip-Cov).

    They are selected from the whole batch, with the log-probs of the behaviour policy, so the
    selection does not depend on the split into minibatches.
    """
    detached = torch.zeros_like(free)
    detached[free] = losses.covariance_clip(
        torch.as_tensor(batch.logprobs)[free],
        torch.as_tensor(credit.advantages)[free],
        fraction=fraction,
        generator=generator,
    )
    return detached


def metrics_of(
    totals: NDArray[np.float64],
    norms: NDArray[np.float64],
    steps: int,
    stopped: bool,
    weight: float,
    importance: bool = False,
) -> dict[str, float]:
    """Returns the scalars of an update.

    Args:
        totals: sums over all minibatches, in the order of `SUMS`.
        norms: mean gradient norms of policy and critic.
        steps: optimiser steps.
        stopped: whether `target_kl` ended the update.
        weight: sum of the weights of all tokens.
        importance: whether the loss had importance weights.
    """
    sums = dict(zip(SUMS, totals.tolist(), strict=True))
    free, values = max(sums["free"], 1.0), max(sums["values"], 1.0)
    weights = {
        "importance_weight": sums["importance"] / free,
        "importance_clipped": sums["truncated"] / free,
    }
    return (weights if importance else {}) | {
        "policy_loss": sums["policy"] / max(weight, 1e-8),
        "value_loss": sums["value"] / values,
        "entropy": sums["entropy"] / free,
        "reference_kl": sums["reference_kl"] / free,
        "kl": sums["kl"] / free,
        "clip_fraction": sums["clipped"] / free,
        "policy_grad_norm": float(norms[0]),
        "value_grad_norm": float(norms[1]),
        "steps": float(steps),
        "kl_stopped": float(stopped),
    }


def explained_variance(values: FloatArray, targets: FloatArray) -> float:
    """Returns the explained variance 1 - Var[target - value] / Var[target].

    It is 1 for perfect values, at most 0 for values that are no better than a constant, and 0 if
    the targets are constant.

    Args:
        values: values of tokens or turns.
        targets: their targets.
    """
    variance = float(np.var(targets))
    return 0.0 if variance < 1e-12 else 1.0 - float(np.var(targets - values)) / variance


def correlation(values: FloatArray, returns: FloatArray) -> float:
    """Returns the correlation of values and returns in [-1, 1], or 0 if either is constant."""
    spread = float(np.std(values)) * float(np.std(returns))
    if spread < 1e-12:
        return 0.0
    centred = (values - values.mean()) * (returns - returns.mean())
    return float(centred.mean()) / spread
