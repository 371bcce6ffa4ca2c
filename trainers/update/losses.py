"""Losses: pure functions of flat tensors.

Shapes: k action tokens. No function normalises its inputs. A loss is returned as a `Sum`: a total
and its denominator. Gradient accumulation and data parallelism can then divide by the count of the
whole batch instead of averaging the means of uneven parts:

    (surrogate.loss.total / global_count).backward()

`aggregation_weights` returns the weight of each token. The weights are computed once over the whole
batch and indexed by minibatch, so they do not depend on the split into minibatches. Losses for
off-policy data are in `offline_losses`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

# exp(20) is far outside every clip range and far inside float32.
MAX_LOG_RATIO = 20.0

Aggregation = Literal["token", "turn", "trajectory", "constant"]
Bound = Literal["ppo", "aepo", "cispo"]


@dataclass(frozen=True, slots=True)
class Sum:
    """A sum and its denominator. The sums of parts add up to the sum of the whole.

    Attributes:
        total: scalar.
        count: scalar.
    """

    total: Tensor
    count: Tensor

    def __add__(self, other: Sum) -> Sum:
        return Sum(self.total + other.total, self.count + other.count)

    def mean(self) -> Tensor:
        """Returns the total divided by the count, or 0 if the count is 0."""
        return self.total / torch.where(self.count > 0, self.count, torch.ones_like(self.count))


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of tokens in a loss. They are indexed like a tensor.

    Attributes:
        weight: [k] factor of each token in the total.
        share: [k] contribution of each token to the count.
    """

    weight: Tensor
    share: Tensor

    def __getitem__(self, index: Tensor | slice) -> Weights:
        return Weights(self.weight[index], self.share[index])

    def times(self, factor: Tensor) -> Weights:
        """Returns the weights with other factors in the total, and the same count."""
        return Weights(self.weight * factor, self.share)

    def to(self, device: torch.device | str) -> Weights:
        """Returns the weights on a device."""
        return Weights(self.weight.to(device), self.share.to(device))


def aggregation_weights(
    how: Aggregation,
    turn: Tensor,
    trajectory: Tensor,
    length: float | None = None,
    importance: Tensor | None = None,
) -> Weights:
    """Returns the weights that aggregate a loss per token into a scalar.

    Args:
        how: the aggregation.

            - "token": mean over tokens (DAPO, arXiv 2503.14476).
            - "turn": mean over turns of the mean over their tokens.
            - "trajectory": mean over trajectories of the mean over their tokens (GRPO, arXiv
              2402.03300).
            - "constant": mean over trajectories of the sum over their tokens / `length`, which is
              free of length bias (Dr. GRPO, arXiv 2503.20783).

        turn: [k] index of each token's turn.
        trajectory: [k] index of each token's trajectory.
        length: the constant of "constant", such as the maximum number of tokens per trajectory.
        importance: [k] relative weight of each token, which makes all means above weighted means.
            None: 1.

    Raises:
        ValueError: for an unknown aggregation, or "constant" without a positive length.
    """
    if importance is None:
        importance = torch.ones(turn.shape, device=turn.device)
    importance = importance.float()
    if how == "token":
        return Weights(importance, importance)
    if how == "turn":
        weight = _shares(turn, importance)
        return Weights(weight, weight)
    if how == "trajectory":
        weight = _shares(trajectory, importance)
        return Weights(weight, weight)
    if how == "constant":
        if length is None or length <= 0:
            raise ValueError(f"Aggregation 'constant' needs a positive length, got {length}.")
        return Weights(importance * (1.0 / length), _shares(trajectory, importance))
    raise ValueError(
        f"aggregation must be 'token', 'turn', 'trajectory' or 'constant', got {how!r}."
    )


def aggregate(losses: Tensor, weights: Weights | None = None) -> Sum:
    """Returns the weighted sum of losses [k]. Without weights, every token has the weight 1."""
    losses = wide(losses)
    if weights is None:
        return Sum(losses.sum(), losses.new_tensor(float(losses.numel())))
    return Sum((losses * weights.weight).sum(), weights.share.sum().to(losses.dtype))


def wide(x: Tensor) -> Tensor:
    """Returns a tensor in float32 or wider. Sums and ratios need more than half precision."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


@dataclass(frozen=True, slots=True)
class Surrogate:
    """The policy loss and its diagnostics.

    Attributes:
        loss: the loss to minimise.
        clipped: number of tokens whose gradient the clip removed, out of all tokens. 0 with
            "cispo", which removes none.
        kl: estimate of KL(behaviour || policy), E[rho - 1 - log rho] over tokens, without gradient.
            0 without a ratio: imitated tokens are no samples of the behaviour policy.
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
    span_ratio: Literal["mean", "product"] = "mean",
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
    detached: Tensor | None = None,
    bound: Bound = "ppo",
    weighted: bool = True,
    weights: Weights | None = None,
) -> Surrogate:
    """Returns the clipped surrogate loss of PPO with a ratio per token, turn or trajectory.

        loss_k = max(-rho_k A_k, -clip(rho_k, 1 - clip_low, 1 + clip_high) A_k)

    where log rho_k = log pi(w_k) - log mu(w_k), or its mean or sum over the span of token k.

    Sources: "Proximal Policy Optimization Algorithms", arXiv 1707.06347, eq. 7 (token). ReMA, arXiv
    2503.09501 (turn). TWOSOME, arXiv 2401.14151 (product over a turn, the ratio of the whole
    action). GSPO, arXiv 2507.18071 (trajectory). DAPO, arXiv 2503.14476 (clip_high >
    clip_low). arXiv 1912.09729, eq. 5 (dual clip).

    Args:
        logprobs: [k] log-probabilities under the current policy, with gradient.
        old_logprobs: [k] log-probabilities under the behaviour policy.
        advantages: [k] advantages.
        span: [k] index of the turn or trajectory of each token, any integers. None: one ratio per
            token. Means and products are over the tokens given, so all tokens of a span must be
            passed together.
        span_ratio: the ratio of a span: the geometric mean of the ratios of its tokens, or their
            product.
        clip_low: lower clip. The ratio is at least 1 - clip_low.
        clip_high: upper clip. The ratio is at most 1 + clip_high.
        dual_clip: bound of the loss for negative advantages, -dual_clip * A. It must be above 1.
        detached: [k] True for tokens without gradient, such as those of `covariance_clip`.
        bound: the form of the loss, with sg the stop-gradient.

            - "ppo": the equation above. Tokens beyond a clip have no gradient.
            - "aepo": tokens above the upper clip keep their gradient, as if their ratio were the
              bound: (1 + clip_high) rho / sg(rho) (AEPO, arXiv 2510.14545).
            - "cispo": -sg(min(rho, 1 + clip_high)) A log pi. Every token keeps its gradient, and
              there is no lower clip (CISPO, MiniMax-M1, arXiv 2506.13585, eq. 4 and 5).

        weighted: False: the loss is -A_k log pi(w_k), without a ratio and a clip. With A_k = 1 it
            is the negative log-likelihood.
        weights: aggregation weights. None: every token has the weight 1.

    Raises:
        ValueError: if dual_clip is not above 1, or given with "cispo", whose weights are bounded.
    """
    if dual_clip is not None and dual_clip <= 1:
        raise ValueError(f"dual_clip must be above 1, got {dual_clip}.")
    if dual_clip is not None and bound == "cispo":
        raise ValueError(f"'cispo' bounds every weight: expected dual_clip None, got {dual_clip}.")
    logprobs = wide(logprobs)
    advantages = advantages.to(logprobs.dtype).detach()
    if detached is not None:
        logprobs = torch.where(detached, logprobs.detach(), logprobs)
    if not weighted:
        likelihood, none = aggregate(-logprobs * advantages, weights), torch.zeros_like(logprobs)
        return Surrogate(likelihood, clipped=aggregate(none), kl=aggregate(none))
    log_ratio = logprobs - old_logprobs.to(logprobs.dtype).detach()
    kl = approximate_kl(log_ratio)
    if span is not None:
        log_ratio = over_spans(log_ratio, span, mean=span_ratio == "mean")
    ratio = log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
    if bound == "cispo":
        weight = ratio.detach().clamp(max=1 + clip_high)
        none = aggregate(torch.zeros_like(logprobs))
        return Surrogate(aggregate(-weight * advantages * logprobs, weights), clipped=none, kl=kl)
    plain = -ratio * advantages
    inside = ratio.clamp(1 - clip_low, 1 + clip_high)
    if bound == "aepo":
        inside = torch.where(ratio > inside, inside.detach() * ratio / ratio.detach(), inside)
    bounded = -inside * advantages
    losses = torch.maximum(plain, bounded)
    clipped = bounded > plain
    if bound == "aepo":
        clipped = clipped & (ratio <= 1 + clip_high)  # those above the upper clip keep theirs
    if dual_clip is not None:
        ceiling = -dual_clip * advantages
        dual = (advantages < 0) & (losses > ceiling)
        losses = torch.where(dual, ceiling, losses)
        clipped = clipped | dual
    return Surrogate(
        loss=aggregate(losses, weights),
        clipped=aggregate(clipped.to(losses.dtype)),
        kl=kl,
    )


def squared_surrogate(
    logprobs: Tensor,
    old_logprobs: Tensor,
    reference: Tensor,
    advantages: Tensor,
    *,
    beta: float,
    span: Tensor | None = None,
    span_ratio: Literal["mean", "product"] = "mean",
    detached: Tensor | None = None,
    weights: Weights | None = None,
) -> Surrogate:
    """Returns the squared loss of WebRL, with a log-ratio per token, turn or trajectory.

        loss_k = (beta log(pi / pi_ref) - A_k)^2 / (2 beta)

    Where the policy equals the reference, its gradient is that of the policy gradient. Its minimum
    is the policy of largest expected advantage with a KL penalty of weight beta, up to a constant
    per state. The data may be of any policy, as in a replay.

    Source: "WebRL: Training LLM Web Agents via Self-Evolving Online Curriculum Reinforcement
    Learning", arXiv 2411.02337, section 3.2, without the factor 1 / (2 beta).

    Args:
        logprobs: [k] log-probabilities under the current policy, with gradient.
        old_logprobs: [k] log-probabilities under the behaviour policy, for the estimate of its KL.
        reference: [k] log-probabilities under the reference policy.
        advantages: [k] advantages.
        beta: weight of the log-ratio, above 0.
        span: [k] index of the turn or trajectory of each token, as in `clipped_surrogate`.
        span_ratio: the log-ratio of a span: the mean over its tokens, or their sum ("product").
        detached: [k] True for tokens without gradient.
        weights: aggregation weights. None: every token has the weight 1.

    Raises:
        ValueError: if beta is not above 0.
    """
    if beta <= 0:
        raise ValueError(f"beta must be above 0, got {beta}.")
    logprobs = wide(logprobs)
    if detached is not None:
        logprobs = torch.where(detached, logprobs.detach(), logprobs)
    log_ratio = logprobs - reference.to(logprobs.dtype).detach()
    if span is not None:
        log_ratio = over_spans(log_ratio, span, mean=span_ratio == "mean")
    difference = beta * log_ratio - advantages.to(logprobs.dtype).detach()
    return Surrogate(
        loss=aggregate(difference.square() / (2 * beta), weights),
        clipped=aggregate(torch.zeros_like(logprobs)),
        kl=approximate_kl(logprobs - old_logprobs.to(logprobs.dtype).detach()),
    )


def approximate_kl(log_ratio: Tensor) -> Sum:
    """Estimates KL(behaviour || policy) as E[rho - 1 - log rho] over sampled tokens.

    The estimate is unbiased and never negative ("k3"). `target_kl` and `max_kl` bound its mean.

    Args:
        log_ratio: [k] log policy - log behaviour of tokens sampled from the behaviour policy.
    """
    log_ratio = wide(log_ratio.detach()).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    return aggregate(torch.expm1(log_ratio) - log_ratio)


def kl_penalty(logprobs: Tensor, reference: Tensor, kind: Literal["k2", "k3"] = "k3") -> Tensor:
    """Estimates KL(policy || reference) at every token that the policy sampled.

    With x = log reference - log policy:

    - k2 = x^2 / 2: biased. Its gradient in a loss is an unbiased estimate of that of
      KL(policy || reference).
    - k3 = exp(x) - 1 - x: unbiased, never negative. Its gradient in a loss is an unbiased estimate
      of that of KL(reference || policy).

    The gradients are those at tokens that the policy has just sampled, which are constants.

    Source: John Schulman, "Approximating KL Divergence", 2020. GRPO, arXiv 2402.03300, eq. 4, has
    k3 in its loss.

    Args:
        logprobs: [k] log-probabilities under the policy, with gradient.
        reference: [k] log-probabilities under the reference policy.
        kind: the estimator.

    Returns:
        [k] estimates.
    """
    x = (wide(reference).detach() - wide(logprobs)).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    return 0.5 * x.square() if kind == "k2" else torch.expm1(x) - x


def value_loss(
    values: Tensor,
    targets: Tensor,
    old_values: Tensor | None = None,
    *,
    clip: float | None = None,
) -> Sum:
    """Returns half the squared error of values, with the clip of PPO if `clip` is set.

        loss = max((V - R)^2, (V_old + clip(V - V_old, -clip, clip) - R)^2) / 2

    Args:
        values: [k] values of tokens or turns, with gradient.
        targets: [k] value targets.
        old_values: [k] values before the update, required with `clip`.
        clip: bound of the change of a value per iteration. None: no clip.

    Raises:
        ValueError: if `clip` is set without old values.
    """
    values, targets = wide(values), wide(targets).detach()
    losses = 0.5 * (values - targets).square()
    if clip is not None:
        if old_values is None:
            raise ValueError("A clipped value loss needs the old values, got None.")
        old = wide(old_values).detach()
        moved = old + (values - old).clamp(-clip, clip)
        losses = torch.maximum(losses, 0.5 * (moved - targets).square())
    return aggregate(losses)


def _shares(span: Tensor, importance: Tensor) -> Tensor:
    """Returns each token's share in the total importance of its span, [k]."""
    _, inverse, counts = torch.unique(span, return_inverse=True, return_counts=True)
    totals = importance.new_zeros(len(counts)).index_add(0, inverse, importance)
    return importance / totals[inverse]


def over_spans(x: Tensor, span: Tensor, mean: bool) -> Tensor:
    """Returns the mean or the sum of x [k] over the span of each token [k]."""
    _, inverse, counts = torch.unique(span, return_inverse=True, return_counts=True)
    sums = x.new_zeros(len(counts)).index_add(0, inverse, x)
    return (sums / counts if mean else sums)[inverse]
