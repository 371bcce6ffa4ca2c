from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from agentgym.trainers.critics.heads import ValueHead
from agentgym.trainers.critics.two_hot import BINS, support, two_hot
from agentgym.trainers.data.batch import Batch

BATCH = Batch.of([])


@settings(deadline=None)
@given(st.lists(st.floats(-147, 147, width=32), min_size=1, max_size=8))
def test_values_within_the_bins_are_decoded_exactly(values: list[float]):
    bins, wanted = support(), torch.tensor(values, dtype=torch.float32)
    encoded = two_hot(wanted, bins)
    assert (encoded >= 0).all() and ((encoded > 0).sum(-1) <= 2).all()
    torch.testing.assert_close(encoded.sum(-1), torch.ones(len(values)))
    torch.testing.assert_close(encoded @ bins, wanted, rtol=1e-5, atol=1e-5)


def test_bins_are_two_hot_at_themselves_and_bound_all_values():
    bins = support()
    assert torch.equal(two_hot(bins, bins), torch.eye(BINS))
    assert bins[BINS // 2] == 0 and torch.equal(bins, -bins.flip(0))
    ends = two_hot(torch.tensor([-1e6, 1e6]), bins) @ bins
    assert torch.equal(ends, bins[[0, -1]])


@pytest.mark.parametrize(("bins", "limit"), [(1, 5.0), (4, 5.0), (5, 0.0)])
def test_impossible_bins_are_refused(bins: int, limit: float):
    with pytest.raises(ValueError, match=f"odd number .* got {bins} and {limit}"):
        support(bins, limit)


def test_the_expectation_has_the_gradient_of_a_softmax_mean():
    head = ValueHead(4, (), bins=5)
    logits = torch.randn(3, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
    values = head.values(logits)
    values.sum().backward()
    share = logits.detach().softmax(-1)
    expected = share * (head.support - values.detach()[:, None])
    torch.testing.assert_close(logits.grad, expected)


def test_a_bimodal_target_is_learned_as_its_mean_and_both_modes():
    from agentgym.trainers.critics.two_hot import cross_entropy

    head = ValueHead(4, (), bins=BINS, detach=False)
    hidden = torch.tensor([[1.0, 2.0, 3.0, 5.0]]).repeat(8, 1)
    targets = torch.tensor([3.0] * 2 + [-1.0] * 6)
    optimizer = torch.optim.Adam(head.parameters(), lr=0.05)
    for _ in range(500):
        optimizer.zero_grad()
        cross_entropy(head.outputs(hidden), targets, torch.arange(8), BATCH).total.backward()
        optimizer.step()
    share = head.outputs(hidden)[0].softmax(-1).detach()
    assert head(hidden)[0].item() == pytest.approx(0.0, abs=0.02)
    assert share[head.support > 2.5].sum().item() == pytest.approx(0.25, abs=0.01)
    assert share[head.support < -0.8].sum().item() == pytest.approx(0.75, abs=0.01)


def test_logits_and_values_are_float32_and_a_scalar_head_is_as_before():
    hidden = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0)).bfloat16()
    head = ValueHead(4, (8,), bins=BINS)
    with torch.autocast("cpu", torch.bfloat16):
        assert head.outputs(hidden).shape == (2, 3, BINS)
        assert head.outputs(hidden).dtype == head(hidden).dtype == torch.float32
    np.testing.assert_allclose(head(hidden).detach(), 0.0, atol=1e-4)
    scalar = ValueHead(4, (8,))
    assert isinstance(scalar.mlp[-1], nn.Linear) and scalar.mlp[-1].out_features == 1
    assert torch.equal(scalar(hidden), scalar.outputs(hidden))
