"""Adapters: the layers that they change, and those that were made elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from agentgym.errors import ConfigError
from agentgym.trainers.policy.loading import LoraSettings, add_adapter
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.update.optimizer import hidden_matrices

from ...helpers.architectures import small_model

TOKENS = torch.arange(2, 12)[None]


def outputs(model: Any) -> torch.Tensor:
    return model(input_ids=TOKENS, use_cache=False).logits


@torch.no_grad()
def move(model: torch.nn.Module, seed: int = 0) -> None:
    """Adds noise to all trained weights."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)


# Layers.


@pytest.mark.parametrize("kind", ["falcon_mamba", "jamba", "mamba", "zamba2"])
def test_every_default_layer_learns_and_can_be_merged(kind):
    """`transformers` reads weights of layers itself, and Zamba2 ties layers."""
    adapted = add_adapter(small_model(kind), LoraSettings(rank=2)).eval()
    move(adapted)
    expected = outputs(adapted)
    expected.square().mean().backward()
    for name, parameter in adapted.named_parameters():
        assert not parameter.requires_grad or (
            parameter.grad is not None and parameter.grad.any()
        ), name
    merged = adapted.merge_and_unload()
    torch.testing.assert_close(outputs(merged), expected, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize(
    ("kind", "target"), [("jamba", "dt_proj"), ("jamba", "conv1d"), ("zamba2", "q_proj")]
)
def test_layers_that_cannot_have_an_adapter_are_refused_by_name(kind, target):
    with pytest.raises(ConfigError, match=rf"--lora-targets: '{target}' cannot.*Leave it out"):
        add_adapter(small_model(kind), LoraSettings(targets=(target, "in_proj")))


def test_a_name_of_weights_is_no_layer(make_model):
    with pytest.raises(ConfigError, match="'weight' was not found"):
        add_adapter(make_model(), LoraSettings(targets=("q_proj", "weight")))


def test_muon_leaves_adapters_of_embeddings_and_head_alone(make_model, tokenizer):
    targets = ("embed_tokens", "lm_head", "q_proj")
    model = add_adapter(make_model(tie_word_embeddings=False), LoraSettings(2, targets=targets))
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    hidden = hidden_matrices(Policy(model, tokenizer), trained.values())
    names = [name for number, name in enumerate(trained) if number in hidden]
    assert names == [name for name in trained if "q_proj" in name] != []
