"""Models of a lower precision that compute in float32 while they are probed."""

from __future__ import annotations

from contextlib import suppress

import pytest
import torch
from torch import nn

from agentgym.trainers.policy.exact_weights import in_float32
from agentgym.trainers.policy.policy import Policy

PROBE = torch.arange(2, 12)[None]


@pytest.fixture(params=[torch.bfloat16, torch.float16])
def model(make_model, request):
    return make_model("llama").to(request.param).eval()


def weights_of(model):
    return {name: (each.dtype, each.data_ptr()) for name, each in model.named_parameters()}


@torch.no_grad()
def logits(model):
    return model(input_ids=PROBE, use_cache=False).logits


def test_logits_are_those_of_a_copy_in_float32(make_model, model):
    exact = make_model("llama").to(model.dtype).float().eval()
    with in_float32(model, 2) as converted:
        assert converted
        torch.testing.assert_close(logits(model), logits(exact))
    assert logits(model).dtype == model.dtype
    with in_float32(exact, 2) as converted:
        assert not converted


@pytest.mark.parametrize("where", ["inside", "twice", "listed again"])
def test_weights_are_the_same_afterwards(model, where):
    layers = model.model.layers
    if where == "twice":
        layers[1] = layers[0]
    if where == "listed again":
        model.stages = nn.ModuleList(layers)
    before = weights_of(model)
    with in_float32(model, 2) as converted:
        assert converted
        logits(model)
    assert weights_of(model) == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, AssertionError])
def test_an_interrupt_leaves_no_float32_behind(model, error):
    before, calls = weights_of(model), [0]

    def fail(*_):
        calls[0] += 1
        if calls[0] == 2:
            raise error

    model.model.layers[1].mlp.register_forward_pre_hook(fail)
    with suppress(error), in_float32(model, 2):
        logits(model)
    assert weights_of(model) == before


def test_a_layer_of_one_precision_is_probed_in_it(model, tokenizer):
    own = model.dtype

    def check(module, args):
        assert args[0].dtype == own

    model.model.layers[0].register_forward_pre_hook(check)
    with in_float32(model, 2) as converted:
        assert not converted
    Policy(model, tokenizer)
