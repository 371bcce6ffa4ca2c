"""Losses: pure functions of flat tensors.

Shapes: k action tokens, b transitions or pairs. Nothing here normalises. A loss comes as a `Sum`, a
total and what it is to be divided by, so that gradient accumulation and data parallelism can
divide by the count of the whole batch instead of averaging the averages of uneven parts:

    (surrogate.loss.total / global_count).backward()

`aggregation_weights` says what a token weighs; computed once over the whole batch and indexed by
minibatch, the weights do not depend on how the batch was cut. Losses of data that another policy
collected are in `offline_losses`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

# exp(20) is far outside every clip range and far inside float32.
_MAX_LOG_RATIO = 20.0

Aggregation = Literal["token", "turn", "trajectory", "constant"]


@dataclass(frozen=True, slots=True)
class Sum:
    """A sum and the count it is to be divided by; sums of parts add up.

    Attributes:
        total: scalar.
        count: scalar.
    """

    total: Tensor
    count: Tensor

    def __add__(self, other: Sum) -> Sum:
        return Sum(self.total + other.total, self.count + other.count)

    def mean(self) -> Tensor:
        """The total over the count; 0 where nothing was counted."""
        return self.total / torch.where(self.count > 0, self.count, torch.ones_like(self.count))


@dataclass(frozen=True, slots=True)
class Weights:
    """What each token contributes; index it like a tensor.

    Attributes:
        weight: [k] factor of the token in the total.
        share: [k] what the token adds to the count.
    """

    weight: Tensor
    share: Tensor

    def __getitem__(self, index: Tensor | slice) -> Weights:
        return Weights(self.weight[index], self.share[index])

    def to(self, device: torch.device | str) -> Weights:
        """The weights on a device."""
        return Weights(self.weight.to(device), self.share.to(device))


def aggregation_weights(
    how: Aggregation,
    turn: Tensor,
    trajectory: Tensor,
    length: float | None = None,
    dtype: torch.dtype = torch.float32,
) -> Weights:
    """How a loss per token becomes one number.

    Args:
        how: "token": the mean over tokens (DAPO, arXiv 2503.14476); "turn": the mean over turns of
            the means over their tokens; "trajectory": the mean over trajectories of the means over
            their tokens (GRPO, arXiv 2402.03300); "constant": the mean over trajectories of the
            sums over their tokens / `length`, which favours no length (Dr. GRPO, arXiv 2503.20783).
        turn: [k] number of each token's turn.
        trajectory: [k] number of each token's trajectory.
        length: the constant of "constant", say the largest number of tokens of a trajectory.
        dtype: of the weights.
    """
    if how == "token":
        ones = torch.ones(turn.shape, dtype=dtype, device=turn.device)
        return Weights(ones, ones)
    if how == "turn":
        weight = _reciprocal_size(turn, dtype)
        return Weights(weight, weight)
    if how == "trajectory":
        weight = _reciprocal_size(trajectory, dtype)
        return Weights(weight, weight)
    if how == "constant":
        if length is None or length <= 0:
            raise ValueError(f"Aggregation 'constant' needs a positive length; got {length}.")
        share = _reciprocal_size(trajectory, dtype)
        return Weights(torch.full_like(share, 1.0 / length), share)
    raise ValueError(f"Aggregation is 'token', 'turn', 'trajectory' or 'constant', not {how!r}.")


def aggregate(losses: Tensor, weights: Weights | None = None) -> Sum:
    """Sums losses [k]; without weights, every token counts once."""
    losses = wide(losses)
    if weights is None:
        return Sum(losses.sum(), losses.new_tensor(float(losses.numel())))
    return Sum((losses * weights.weight).sum(), weights.share.sum().to(losses.dtype))


def wide(x: Tensor) -> Tensor:
    """At least float32: half precision is too coarse for sums and ratios."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


@dataclass(frozen=True, slots=True)
class Surrogate:
    """The policy loss and what to watch beside it.

    Attributes:
        loss: to be minimised.
        clipped: how many tokens' gradients the clip removed (of all tokens).
        kl: estimate of KL(behaviour || policy), E[rho - 1 - log rho] over tokens, no gradient.
    """

    loss: Sum
    clipped: Sum
    kl: Sum


def clipped_surrogate(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    *,
    span: Tensor | None = None,
    span_ratio: Literal["mean", "sum"] = "mean",
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
    detached: Tensor | None = None,
    weights: Weights | None = None,
) -> Surrogate:
    """The clipped surrogate of PPO with a ratio for each token, turn or trajectory.

    loss_k = max(-rho_k A_k, -clip(rho_k, 1 - clip_low, 1 + clip_high) A_k), with
    log rho_k = log pi(w_k) - log mu(w_k), or its mean or sum over the span that token k belongs to.

    Sources: token: "Proximal Policy Optimization Algorithms", arXiv 1707.06347, eq. 7; turn, mean:
    ReMA, arXiv 2503.09501; turn, sum: the action's own probability ratio (TWOSOME, arXiv
    2401.14151); trajectory, mean: GSPO, arXiv 2507.18071; clip_high > clip_low: DAPO, arXiv
    2503.14476; dual clip: arXiv 1912.09729, eq. 5.

    Args:
        logprobs: [k] under the policy being optimised, with gradient.
        old_logprobs: [k] under the policy that acted.
        advantages: [k].
        span: [k] number of the turn or trajectory of each token, any integers; None: a ratio for
            each token. A span is computed from the tokens given, so keep its tokens together.
        span_ratio: how log-ratios join over a span.
        clip_low: the ratio is clipped below at 1 - clip_low.
        clip_high: and above at 1 + clip_high.
        dual_clip: for negative advantages the loss is at most -dual_clip * A; above 1.
        detached: [k] True where the token gives no gradient (`covariance_clip`).
        weights: aggregation; None: every token counts once.
    """
    if dual_clip is not None and dual_clip <= 1:
        raise ValueError(f"dual_clip bounds a ratio from above and is > 1; got {dual_clip}.")
    logprobs = wide(logprobs)
    advantages = advantages.to(logprobs.dtype).detach()
    if detached is not None:
        logprobs = torch.where(detached, logprobs.detach(), logprobs)
    token_log_ratio = logprobs - old_logprobs.to(logprobs.dtype).detach()
    log_ratio = token_log_ratio
    if span is not None:
        log_ratio = _over_span(log_ratio, span, span_ratio)
    ratio = log_ratio.clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO).exp()
    plain = -ratio * advantages
    bounded = -ratio.clamp(1 - clip_low, 1 + clip_high) * advantages
    losses = torch.maximum(plain, bounded)
    clipped = bounded > plain
    if dual_clip is not None:
        ceiling = -dual_clip * advantages
        dual = (advantages < 0) & (losses > ceiling)
        losses = torch.where(dual, ceiling, losses)
        clipped = clipped | dual
    return Surrogate(
        loss=aggregate(losses, weights),
        clipped=aggregate(clipped.to(losses.dtype)),
        kl=approximate_kl(token_log_ratio),
    )


def approximate_kl(log_ratio: Tensor) -> Sum:
    """E[rho - 1 - log rho] over tokens drawn by the behaviour policy: KL(behaviour || policy).

    Unbiased and never negative ("k3"); what early stopping looks at.

    Args:
        log_ratio: [k] log policy - log behaviour.
    """
    log_ratio = wide(log_ratio.detach()).clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO)
    return aggregate(torch.expm1(log_ratio) - log_ratio)


def covariance_clip(
    logprobs: Tensor,
    advantages: Tensor,
    *,
    fraction: float = 0.02,
    low: float = 1.0,
    high: float = 5.0,
    generator: torch.Generator,
) -> Tensor:
    """[k] which tokens give no gradient, so that entropy does not collapse ("Clip-Cov").

    The tokens that drive entropy down are those where (log pi - mean)(A - mean) is large. Of the
    tokens where it lies in (low, high), some are drawn, at most `fraction` of all tokens.

    Source: "The Entropy Mechanism of Reinforcement Learning for Reasoning Language Models", arXiv
    2505.22617 (fraction 2e-4); SPEAR, arXiv 2509.22601, uses 0.02.

    Args:
        logprobs: [k] under the policy being optimised.
        advantages: [k].
        fraction: largest share of tokens.
        low: lower bound of the covariance.
        high: upper bound of the covariance.
        generator: draws the tokens; on the CPU.
    """
    x, y = wide(logprobs.detach()), wide(advantages.detach())
    detached = torch.zeros_like(x, dtype=torch.bool)
    if x.numel() == 0:
        return detached
    covariance = (x - x.mean()) * (y - y.mean())
    candidates = ((covariance > low) & (covariance < high)).nonzero().squeeze(-1)
    wanted = min(int(fraction * x.numel()), len(candidates))
    chosen = torch.randperm(len(candidates), generator=generator)[:wanted].to(x.device)
    detached[candidates[chosen]] = True
    return detached


def entropy_bonus(entropy: Tensor, weights: Weights | None = None) -> Sum:
    """Negative entropy: what is added, times a coefficient, to the loss.

    Args:
        entropy: [k] of the distribution that each token was drawn from, with gradient.
        weights: aggregation.
    """
    return aggregate(-entropy, weights)


def kl_penalty(
    logprobs: Tensor, reference: Tensor, kind: Literal["k1", "k2", "k3"] = "k3"
) -> Tensor:
    """[k] estimates of KL(policy || reference) from tokens that the policy drew.

    With x = log reference - log policy: k1 = -x (unbiased, may be negative), k2 = x^2 / 2 (its
    gradient is the unbiased one), k3 = exp(x) - 1 - x (unbiased, never negative). See John
    Schulman, "Approximating KL Divergence", 2020.

    Args:
        logprobs: [k] under the policy, with gradient.
        reference: [k] under the reference.
        kind: which estimate.
    """
    x = (wide(reference).detach() - wide(logprobs)).clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO)
    if kind == "k1":
        return -x
    if kind == "k2":
        return 0.5 * x.square()
    if kind == "k3":
        return torch.expm1(x) - x
    raise ValueError(f"kind is 'k1', 'k2' or 'k3', not {kind!r}.")


def value_loss(
    values: Tensor,
    targets: Tensor,
    old_values: Tensor | None = None,
    *,
    clip: float | None = None,
    huber: float | None = None,
    weights: Weights | None = None,
) -> Sum:
    """Half the squared error, or Huber's, of values; pessimistic within a clip range.

    max(l(V - R), l(V_old + clip(V - V_old, -clip, clip) - R)), l(e) = e^2 / 2, or beyond |e| >
    huber: huber (|e| - huber / 2).

    Args:
        values: [k] of tokens or turns, with gradient.
        targets: [k].
        old_values: [k] before the update; needed with `clip`.
        clip: how far a value may move in one update; None: no clip.
        huber: where the error becomes linear; None: never.
        weights: aggregation.
    """
    values, targets = wide(values), wide(targets).detach()
    losses = _error(values - targets, huber)
    if clip is not None:
        if old_values is None:
            raise ValueError("A clipped value loss needs the old values; got None.")
        old = wide(old_values).detach()
        moved = old + (values - old).clamp(-clip, clip)
        losses = torch.maximum(losses, _error(moved - targets, huber))
    return aggregate(losses, weights)


def explained_variance(values: Tensor, targets: Tensor) -> Tensor:
    """1 - Var[R - V] / Var[R]: 1 is perfect, 0 no better than a constant.

    0 where the targets do not vary or there are none.
    """
    values, targets = values.detach().double(), targets.detach().double()
    if targets.numel() == 0:
        return targets.new_zeros(())
    variance = targets.var(correction=0)
    residual = (targets - values).var(correction=0)
    return torch.where(variance > 0, 1 - residual / variance.clamp_min(1e-30), 0.0)


def overlong_penalty(lengths: Tensor, limit: int, margin: int) -> Tensor:
    """Soft punishment of long actions or trajectories, to be added to the reward.

    0 up to limit - margin tokens, then linear down to -1 at `limit` and beyond.

    Source: "DAPO: An Open-Source LLM Reinforcement Learning System at Scale", arXiv 2503.14476,
    eq. 13.
    """
    if not 0 < margin <= limit:
        raise ValueError(f"Expected 0 < margin <= limit; got margin {margin}, limit {limit}.")
    return ((limit - margin - lengths) / margin).clamp(-1.0, 0.0)


def policy_gradient(logprobs: Tensor, advantages: Tensor, weights: Weights | None = None) -> Sum:
    """REINFORCE: -A log pi, no ratio; the actor's loss of ArCHer (arXiv 2402.19446)."""
    return aggregate(-wide(advantages).detach() * wide(logprobs), weights)


def behaviour_cloning(logprobs: Tensor, weights: Weights | None = None) -> Sum:
    """Cross-entropy of demonstrated tokens: -log pi."""
    return aggregate(-logprobs, weights)


def _error(e: Tensor, huber: float | None) -> Tensor:
    if huber is None:
        return 0.5 * e.square()
    return torch.nn.functional.huber_loss(e, torch.zeros_like(e), reduction="none", delta=huber)


def _reciprocal_size(span: Tensor, dtype: torch.dtype) -> Tensor:
    """[k] 1 / number of tokens of each token's span."""
    _, inverse, counts = torch.unique(span, return_inverse=True, return_counts=True)
    return counts.to(dtype).reciprocal()[inverse]


def _over_span(x: Tensor, span: Tensor, how: Literal["mean", "sum"]) -> Tensor:
    """[k] the mean or sum of x over each token's span."""
    _, inverse, counts = torch.unique(span, return_inverse=True, return_counts=True)
    joined = x.new_zeros(len(counts)).index_add(0, inverse, x)
    if how == "mean":
        joined = joined / counts
    elif how != "sum":
        raise ValueError(f"span_ratio is 'mean' or 'sum', not {how!r}.")
    return joined[inverse]
