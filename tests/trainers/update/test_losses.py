# A None where an array is needed is a failing test.
# pyright: reportOptionalMemberAccess=false, reportOptionalSubscript=false
# pyright: reportArgumentType=false, reportCallIssue=false
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from agentgym.trainers.rewards.penalties import overlong_penalty
from agentgym.trainers.update.losses import (
    Bound,
    Sum,
    aggregate,
    aggregation_weights,
    approximate_kl,
    clipped_surrogate,
    kl_penalty,
    squared_surrogate,
    value_loss,
)
from agentgym.trainers.update.metrics import correlation, explained_variance
from agentgym.trainers.update.offline_losses import (
    expectile_loss,
    span_sums,
    utterance_advantages,
    utterance_targets,
)
from agentgym.trainers.update.token_masks import covariance_clip

D = torch.float64


def tensor(*numbers: float, grad: bool = False) -> torch.Tensor:
    return torch.tensor(numbers, dtype=D, requires_grad=grad)


def test_the_squared_surrogate_is_a_policy_gradient_at_the_reference():
    """And has the minimum beta log(pi / pi_ref) = A."""
    advantages, reference = tensor(1, -2, 0.5), tensor(-1, -2, -3)
    logprobs = reference.clone().requires_grad_()
    span = torch.tensor([0, 0, 1])
    for beta in (0.1, 2.0):
        found = squared_surrogate(logprobs, reference, reference, advantages, beta=beta)
        (gradient,) = torch.autograd.grad(found.loss.total, logprobs)
        torch.testing.assert_close(gradient, -advantages)
        best = reference + advantages / beta
        at_best = squared_surrogate(best, reference, reference, advantages, beta=beta)
        assert float(at_best.loss.total) == pytest.approx(0.0, abs=1e-9)
        joint = squared_surrogate(
            logprobs, reference, reference, tensor(1, 1, 0.5), beta=beta, span=span,
            span_ratio="product",
        )  # fmt: skip
        (gradient,) = torch.autograd.grad(joint.loss.total, logprobs)
        torch.testing.assert_close(gradient, -tensor(2, 2, 0.5))  # once for each token of the span
    with pytest.raises(ValueError, match="beta must be above 0"):
        squared_surrogate(reference, reference, reference, advantages, beta=0.0)


def test_golden_surrogate():
    # ratios 1.5, 0.5, 1.5, 0.5 with advantages 1, 1, -1, -1, clip 0.2
    ratio = tensor(1.5, 0.5, 1.5, 0.5)
    result = clipped_surrogate(ratio.log(), torch.zeros(4), tensor(1, 1, -1, -1))
    assert torch.isclose(result.loss.total, tensor(-1.2 - 0.5 + 1.5 + 0.8).sum())
    assert result.loss.count == 4
    assert result.clipped.mean() == 0.5
    assert torch.isclose(result.kl.total, (ratio - 1 - ratio.log()).sum())


def test_the_clip_removes_the_gradient_it_should():
    logprobs = tensor(1.5, 0.5, 1.5, 0.5).log().requires_grad_()
    clipped_surrogate(logprobs, torch.zeros(4), tensor(1, 1, -1, -1)).loss.total.backward()
    assert torch.allclose(logprobs.grad, tensor(0, -0.5, 1.5, 0))


def test_a_clip_with_gradient_bounds_the_loss_and_not_the_gradient():
    ratios, advantages = (1.5, 0.5, 1.5, 0.5, 1.1), tensor(1, 1, -1, -1, 1)
    logprobs = tensor(*ratios).log().requires_grad_()
    result = clipped_surrogate(logprobs, torch.zeros(5), advantages, bound="aepo")
    plain = clipped_surrogate(logprobs, torch.zeros(5), advantages)
    assert torch.isclose(result.loss.total, plain.loss.total)
    result.loss.total.backward()
    assert torch.allclose(logprobs.grad, tensor(-1.2, -0.5, 1.5, 0, -1.1))
    assert plain.clipped.total == 2
    assert result.clipped.total == (logprobs.grad == 0).sum() == 1


@pytest.mark.parametrize("bound", ["ppo", "aepo"])
@pytest.mark.parametrize("dual_clip", [None, 3.0])
def test_the_clip_counts_the_tokens_whose_gradient_it_removes(
    bound: Bound, dual_clip: float | None
):
    ratios = torch.tensor(np.linspace(0.1, 5.0, 50), dtype=D).repeat(2)
    advantages = torch.tensor([1.0] * 50 + [-1.0] * 50, dtype=D)
    logprobs = ratios.log().requires_grad_()
    zeros, options = torch.zeros(100), {"bound": bound, "dual_clip": dual_clip}
    result = clipped_surrogate(logprobs, zeros, advantages, clip_high=0.28, **options)
    result.loss.total.backward()
    assert logprobs.grad is not None
    assert result.clipped.total == (logprobs.grad == 0).sum() > 0


@pytest.mark.parametrize(
    ("bound", "sign", "expected"),
    [
        ("ppo", 1, (0, -0.1852, -0.2763, -0.25)),
        ("cispo", 1, (-0.32, -0.1852, -0.2763, -0.25)),
        ("ppo", -1, (0.4122, 0.1852, 0.2763, 0.25)),
        ("cispo", -1, (0.32, 0.1852, 0.2763, 0.25)),
    ],
)
def test_golden_gradients_of_bounds(bound: Bound, sign: int, expected: tuple[float, ...]):
    old = tensor(-1, -2, -0.5, -0.1)
    logprobs = (old + tensor(0.5, -0.3, 0.1, 0)).requires_grad_()
    result = clipped_surrogate(
        logprobs, old, sign * torch.ones(4), clip_low=0.3, clip_high=0.28, bound=bound
    )
    result.loss.mean().backward()
    assert logprobs.grad is not None
    torch.testing.assert_close(logprobs.grad, tensor(*expected), atol=1e-4, rtol=0)


@pytest.mark.parametrize("span", [None, torch.tensor([0, 0, 1, 1])])
def test_cispo_keeps_every_gradient_and_its_weight_has_none(span: torch.Tensor | None):
    logprobs = tensor(30, -30, -2, 1, grad=True)
    advantages = tensor(1, -2, 0.5, -1)
    result = clipped_surrogate(logprobs, torch.zeros(4), advantages, span=span, bound="cispo")
    result.loss.total.backward()
    ratio = logprobs.detach() if span is None else tensor(0, 0, -0.5, -0.5)
    weight = ratio.clamp(min=-20).exp().clamp(max=1.2)
    assert torch.allclose(logprobs.grad, -weight * advantages, atol=0)
    assert result.clipped.total == (logprobs.grad == 0).sum() == 0
    with pytest.raises(ValueError, match="expected dual_clip None"):
        clipped_surrogate(logprobs, logprobs, advantages, bound="cispo", dual_clip=3.0)


def test_clip_high_and_low_are_separate():
    ratio = tensor(1.3, 0.7).log()
    loose = clipped_surrogate(ratio, torch.zeros(2), tensor(1, -1), clip_low=0.4, clip_high=0.4)
    assert loose.clipped.total == 0
    only_high = clipped_surrogate(ratio, torch.zeros(2), tensor(1, -1), clip_low=0.4)
    assert torch.isclose(only_high.loss.total, tensor(-1.2 + 0.7).sum())


def test_dual_clip_bounds_the_loss_of_bad_actions():
    logprobs = tensor(10.0, 10.0).log().requires_grad_()
    result = clipped_surrogate(logprobs, torch.zeros(2), tensor(-1, 1), dual_clip=3.0)
    assert torch.isclose(result.loss.total, tensor(3.0 - 1.2).sum())
    result.loss.total.backward()
    assert not logprobs.grad.any()
    with pytest.raises(ValueError, match="dual_clip"):
        clipped_surrogate(logprobs, logprobs, logprobs, dual_clip=0.5)


def test_ratio_of_a_span():
    log_ratio = tensor(0.1, 0.3, -0.1)
    span, advantages = torch.tensor([4, 4, 7]), tensor(1, 1, 1)
    old = torch.zeros(3)
    mean = clipped_surrogate(log_ratio, old, advantages, span=span, clip_high=9)
    assert torch.isclose(mean.loss.total, -(2 * tensor(0.2).exp() + tensor(-0.1).exp()).sum())
    token = clipped_surrogate(log_ratio, old, advantages, clip_high=9)
    assert torch.allclose(mean.kl.total, token.kl.total)  # the KL is over tokens for every ratio


@pytest.mark.parametrize("span", [None, torch.tensor([0, 0, 1, 1, 1])])
@pytest.mark.parametrize("dual_clip", [None, 3.0])
def test_gradients(span, dual_clip):
    generator = torch.Generator().manual_seed(0)
    logprobs = torch.randn(5, generator=generator, dtype=D).mul(0.3).requires_grad_()
    advantages = torch.randn(5, generator=generator, dtype=D)
    weights = aggregation_weights(
        "turn", torch.tensor([0, 0, 1, 1, 1]), torch.zeros(5, dtype=torch.long)
    )

    def loss(x):
        result = clipped_surrogate(
            x, torch.zeros(5), advantages, span=span, dual_clip=dual_clip, weights=weights
        )
        return result.loss.mean()

    assert torch.autograd.gradcheck(loss, (logprobs,))


def test_at_ratio_one_the_gradient_is_the_policy_gradient():
    logprobs = tensor(-1, -2, -3, grad=True)
    advantages = tensor(0.5, -1, 2)
    clipped_surrogate(logprobs, logprobs.detach(), advantages).loss.total.backward()
    assert torch.allclose(logprobs.grad, -advantages)


def test_without_a_ratio_it_is_the_weighted_negative_log_likelihood():
    logprobs, advantages = tensor(-0.5, -3, -1, grad=True), tensor(1, 1, -2)
    found = clipped_surrogate(logprobs, tensor(-9, -1, -1), advantages, weighted=False)
    assert found.loss.total == 0.5 + 3 - 2 and found.clipped.total == 0
    found.loss.total.backward()
    assert torch.equal(logprobs.grad, -advantages)


def test_detached_tokens_give_no_gradient():
    logprobs = tensor(-1, -2, grad=True)
    result = clipped_surrogate(
        logprobs, logprobs.detach(), tensor(1, 1), detached=torch.tensor([True, False])
    )
    result.loss.total.backward()
    assert logprobs.grad.tolist() == [0, -1]
    assert result.loss.total == -2


TURN = torch.tensor([0, 0, 0, 1, 2])
TRAJECTORY = torch.tensor([0, 0, 0, 0, 1])


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("token", (1 + 2 + 3 + 4 + 5) / 5),
        ("turn", (2 + 4 + 5) / 3),
        ("trajectory", (2.5 + 5) / 2),
        ("constant", (10 / 8 + 5 / 8) / 2),
    ],
)
def test_aggregation_and_parts_that_add_up(how, expected):
    weights = aggregation_weights(how, TURN, TRAJECTORY, length=8)
    losses = tensor(1, 2, 3, 4, 5)
    assert torch.isclose(aggregate(losses, weights).mean(), tensor(expected).sum())
    parts = [torch.tensor([0, 4]), torch.tensor([1, 2, 3])]
    first, second = (aggregate(losses[part], weights[part]) for part in parts)
    assert torch.isclose((first + second).mean(), tensor(expected).sum())


def test_unknown_aggregation_is_named():
    with pytest.raises(ValueError, match="got 'sentence'"):
        aggregation_weights("sentence", TURN, TRAJECTORY)
    with pytest.raises(ValueError, match="positive length"):
        aggregation_weights("constant", TURN, TRAJECTORY)


@pytest.mark.parametrize("size", [0, 1])
def test_few_tokens_and_extreme_ratios_give_no_nan(size):
    empty = torch.zeros(size, requires_grad=True)
    index = torch.zeros(size, dtype=torch.long)
    for how in ("token", "turn", "trajectory", "constant"):
        weights = aggregation_weights(how, index, index, length=1)
        for span in (None, index):
            result = clipped_surrogate(
                empty, empty.detach() + 500, empty + 1, span=span, weights=weights
            )
            for part in (result.loss, result.clipped, result.kl):
                assert torch.isfinite(part.mean())
            result.loss.mean().backward()
    assert Sum(torch.zeros(()), torch.zeros(())).mean() == 0


def test_half_precision_is_computed_in_float32():
    logprobs = torch.tensor([-1.0, -2.0], dtype=torch.bfloat16)
    result = clipped_surrogate(logprobs, logprobs, torch.ones(2))
    assert result.loss.total.dtype == torch.float32


@pytest.mark.parametrize("span", [None, torch.arange(64) // 4])
def test_losses_in_bfloat16_are_off_by_no_more_than_their_rounding(span):
    # Rounding to 8 significant bits moves a log-prob by at most |x| / 256, so a ratio by a factor
    # of at most exp(2 * 4 / 256) where log-probs are above -4; the clip and KL only shrink that.
    generator = torch.Generator().manual_seed(0)
    old = -4 * torch.rand(64, generator=generator)
    new = (old + 0.3 * torch.randn(64, generator=generator)).clamp(-4, 0)
    advantages = torch.randn(64, generator=generator)
    weights = aggregation_weights("turn", torch.arange(64) // 4, torch.arange(64) // 16)
    exact, rough = (
        clipped_surrogate(x, y, z, span=span, weights=weights, dual_clip=3.0)
        for x, y, z in [(new, old, advantages), (new.bfloat16(), old.bfloat16(), advantages)]
    )
    factor = torch.tensor(8 / 256).expm1() * (new - old).exp().max()
    bound = factor * advantages.abs().max()
    assert 0 < abs(exact.loss.mean() - rough.loss.mean()) < bound
    assert abs(exact.kl.mean() - rough.kl.mean()) < factor


def test_approximate_kl_is_never_negative_and_exact_for_small_ratios():
    log_ratio = torch.linspace(-3, 3, 101)
    assert (approximate_kl(log_ratio).total >= 0).item()
    tiny = approximate_kl(torch.tensor([1e-3]))
    assert torch.isclose(tiny.total, torch.tensor(5.0017e-7), rtol=1e-2)


def test_covariance_clip_takes_tokens_with_large_covariance_only():
    # (log pi - mean)(A - mean) = 2.25 at the ends, 0.25 in the middle
    logprobs, advantages = tensor(-1.5, -0.5, 0.5, 1.5), tensor(-1.5, -0.5, 0.5, 1.5)

    def clip(**kwargs):
        return covariance_clip(
            logprobs, advantages, generator=torch.Generator().manual_seed(0), **kwargs
        ).tolist()

    assert clip(fraction=1.0) == [True, False, False, True]
    assert sum(clip(fraction=0.25)) == 1
    assert clip(fraction=0.02) == [False] * 4


def test_kl_penalties_golden_and_in_expectation():
    x = torch.log(tensor(2.0))  # reference twice as likely
    zero = torch.zeros_like(x)
    assert torch.isclose(kl_penalty(zero, x, "k2"), 0.5 * x**2)
    assert torch.isclose(kl_penalty(zero, x, "k3"), 1 - x)
    p, q = tensor(0.7, 0.2, 0.1), tensor(0.5, 0.3, 0.2)
    exact = (p * (p / q).log()).sum()
    assert torch.isclose((p * kl_penalty(p.log(), q.log())).sum(), exact)


def test_gradient_of_k2_is_the_gradient_of_the_divergence():
    logits, q = tensor(0.3, -0.2, 0.1, grad=True), tensor(0.5, 0.3, 0.2)
    p = logits.softmax(0)
    (p.detach() * kl_penalty(p.log(), q.log(), "k2")).sum().backward()
    estimate = logits.grad.clone()
    logits.grad = None
    p = logits.softmax(0)
    (p * (p / q).log()).sum().backward()
    assert torch.allclose(estimate, logits.grad)


@pytest.mark.parametrize(
    ("kind", "golden"),
    [
        ("k2", (0.385499, -0.347640, -0.037859)),  # of KL(policy || reference)
        ("k3", (0.420512, -0.420512, 0.0)),  # policy - reference, of KL(reference || policy)
    ],
)
def test_gradients_of_the_estimators_golden(kind: Any, golden: tuple[float, ...]):
    logits, reference = tensor(1.0, 0.0, -1.0, grad=True), tensor(0.0, 1.0, -1.0).softmax(0)
    p = logits.softmax(0)
    (p.detach() * kl_penalty(p.log(), reference.log(), kind)).sum().backward()
    assert torch.allclose(logits.grad, tensor(*golden).to(logits.grad), atol=1e-6)


def test_value_loss_golden():
    values, targets, old = tensor(1.0, 3.0), tensor(0.0, 0.0), tensor(2.0, 2.9)
    assert value_loss(values, targets).total == 0.5 + 4.5
    # moved: 2 - 0.2 = 1.8 (worse than 1), 3.0 (within the range)
    clipped = value_loss(values, targets, old, clip=0.2)
    assert torch.isclose(clipped.total, tensor(1.8**2 / 2 + 4.5).sum())
    with pytest.raises(ValueError, match="old values"):
        value_loss(values, targets, clip=0.2)


def test_explained_variance():
    targets = np.array([1.0, 2.0, 3.0], np.float32)
    assert explained_variance(targets, targets) == 1
    assert explained_variance(np.zeros(3, np.float32), targets) == pytest.approx(0)
    assert explained_variance(-targets, targets) == pytest.approx(-3)
    assert explained_variance(targets, np.ones(3, np.float32)) == 0


def test_correlation_ignores_scale_and_is_0_for_constants():
    returns = np.array([1.0, 2.0, 4.0], np.float32)
    assert correlation(10 * returns - 3, returns) == pytest.approx(1)
    assert correlation(-returns, returns) == pytest.approx(-1)
    assert correlation(np.ones(3, np.float32), returns) == 0


def test_overlong_penalty_golden():
    lengths = np.array([0, 80, 85, 100, 200])
    assert overlong_penalty(lengths, 100, 20).tolist() == [0, 0, -0.25, -1, -1]
    with pytest.raises(ValueError, match="margin"):
        overlong_penalty(lengths, 10, 20)


def test_expectile_loss_golden():
    assert torch.isclose(expectile_loss(tensor(1, -2), 0.9).total, tensor(0.9 + 0.4).sum())
    half = expectile_loss(tensor(1, -2), 0.5)
    assert half.total == 2.5


def test_span_sums():
    sums = span_sums(tensor(1, 2, 3, 4), torch.tensor([0, 2, 2, 0]), 4)
    assert sums.tolist() == [5, 0, 5, 0]


def test_utterance_targets_and_advantages_golden():
    targets = utterance_targets(
        tensor(1, 1), torch.tensor([True, False]), torch.tensor([[5.0, 5.0], [7.0, 7.0]]), 0.5
    )
    assert targets.tolist() == [[1, 3.5], [1, 4.5]]
    q, v = torch.tensor([[3.0, 1.0], [2.0, 4.0]]), torch.tensor([[1.0, 1.0], [0.5, 2.0]])
    assert utterance_advantages(q, v).tolist() == [1.5, 0.0]


@pytest.mark.parametrize(
    "loss",
    [
        lambda x, y: kl_penalty(x, y, "k2").sum(),
        lambda x, y: kl_penalty(x, y, "k3").sum(),
        lambda x, y: value_loss(x, y).total,
        lambda x, y: value_loss(x, y, x.detach() + 0.05, clip=0.2).total,
        lambda x, y: expectile_loss(y - x).total,
        lambda x, y: span_sums(x, torch.tensor([0, 0, 1, 1, 3]), 4).square().sum(),
    ],
)
def test_gradients_of_small_losses(loss):
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(5, generator=generator, dtype=D, requires_grad=True)
    y = torch.randn(5, generator=generator, dtype=D)
    assert torch.autograd.gradcheck(lambda x: loss(x, y), (x,))


def test_no_tokens_give_zero():
    empty = torch.zeros(0, requires_grad=True)
    for loss in (
        value_loss(empty, empty, empty, clip=0.2),
        expectile_loss(empty),
        aggregate(kl_penalty(empty, empty)),
    ):
        assert loss.mean() == 0
    generator = torch.Generator().manual_seed(0)
    assert len(covariance_clip(empty, empty, fraction=0.02, generator=generator)) == 0
