# A None where an array is needed is a failing test.
# pyright: reportOptionalMemberAccess=false, reportOptionalSubscript=false
# pyright: reportArgumentType=false, reportCallIssue=false
from __future__ import annotations

import pytest
import torch

from agentgym.trainers.losses import (
    Sum,
    aggregate,
    aggregation_weights,
    approximate_kl,
    clipped_surrogate,
)

D = torch.float64


def tensor(*numbers: float, grad: bool = False) -> torch.Tensor:
    return torch.tensor(numbers, dtype=D, requires_grad=grad)


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
    joint = clipped_surrogate(log_ratio, old, advantages, span=span, span_ratio="sum", clip_high=9)
    assert torch.isclose(joint.loss.total, -(2 * tensor(0.4).exp() + tensor(-0.1).exp()).sum())
    assert torch.allclose(mean.kl.total, joint.kl.total)  # of tokens, whatever the ratio


@pytest.mark.parametrize("span", [None, torch.tensor([0, 0, 1, 1, 1])])
@pytest.mark.parametrize("dual_clip", [None, 3.0])
def test_gradients(span, dual_clip):
    generator = torch.Generator().manual_seed(0)
    logprobs = torch.randn(5, generator=generator, dtype=D).mul(0.3).requires_grad_()
    advantages = torch.randn(5, generator=generator, dtype=D)
    weights = aggregation_weights(
        "turn", torch.tensor([0, 0, 1, 1, 1]), torch.zeros(5, dtype=torch.long), dtype=D
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
    weights = aggregation_weights(how, TURN, TRAJECTORY, length=8, dtype=D)
    losses = tensor(1, 2, 3, 4, 5)
    assert torch.isclose(aggregate(losses, weights).mean(), tensor(expected).sum())
    parts = [torch.tensor([0, 4]), torch.tensor([1, 2, 3])]
    first, second = (aggregate(losses[part], weights[part]) for part in parts)
    assert torch.isclose((first + second).mean(), tensor(expected).sum())


def test_unknown_aggregation_is_named():
    with pytest.raises(ValueError, match="not 'sentence'"):
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


def test_approximate_kl_is_never_negative_and_exact_for_small_ratios():
    log_ratio = torch.linspace(-3, 3, 101)
    assert (approximate_kl(log_ratio).total >= 0).item()
    tiny = approximate_kl(torch.tensor([1e-3]))
    assert torch.isclose(tiny.total, torch.tensor(5.0017e-7), rtol=1e-2)
