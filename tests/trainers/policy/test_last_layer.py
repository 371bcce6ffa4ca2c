"""The last layer, computed only at the positions whose logits are read."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.trainers.policy.cache_layers import Span
from agentgym.trainers.policy.forward import read
from agentgym.trainers.policy.last_layer import can_restrict
from agentgym.trainers.policy.prefix_cache import PrefixCache
from agentgym.trainers.policy.shared_attention import shares_attention

FULL = {"layer_types": ["full_attention"] * 2}
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("llama", {}),
    ("qwen3", {}),
    ("gemma", {}),
    ("gemma3_text", FULL),
    ("gemma2", FULL),
    ("phi3", {}),
    ("qwen2", {"attn_implementation": "eager"}),
]


@pytest.mark.parametrize("shares", [True, False])
@pytest.mark.parametrize(("kind", "changes"), KINDS)
@torch.no_grad()
def test_logits_are_those_of_the_whole_layer(make_policy, kind, changes, shares):
    policy = make_policy(kind, **changes)
    assert policy.restricts
    read: list[tuple[int, ...]] = []
    layer = policy.model.get_decoder().layers[-1]
    layer.mlp.register_forward_hook(lambda module, args, out: read.append(out.shape))
    tokens = np.random.default_rng(0).integers(2, 200, (3, 12))
    # Of the first five tokens, some rows read fewer. Then all rows go on from there.
    steps = [([0, 0, 0], [5, 3, 1]), ([5, 3, 1], [4, 6, 7]), ([9, 9, 8], [3, 3, 3])]
    found = []
    for policy.restricts in (False, True):
        store, logits = PrefixCache(), []
        store.open(policy.layer_shapes, policy.device, 0)
        store.place([(None, row) for row in tokens.astype(np.int32)], 12)
        for starts, lengths in steps:
            span = Span(0, np.array(starts), np.array(lengths), policy.device)
            some = tokens[np.arange(3)[:, None], span.positions]
            at = np.array(lengths) - 1
            with shares_attention(policy.model) if shares else nullcontext():
                cache, mask = store.reading(span)
                logits.append(policy.next_logits(some, mask, span.positions, cache, at))
        found.append(torch.stack(logits))
    torch.testing.assert_close(found[0], found[1], atol=1e-5, rtol=1e-5)
    assert [shape[:2] for shape in read[-3:]] == [(1, 3)] * 3


@pytest.mark.parametrize(("kind", "changes"), KINDS)
def test_states_and_gradients_are_those_of_the_whole_layer(make_policy, kind, changes):
    policy = make_policy(kind, **changes)
    computed: list[tuple[int, ...]] = []
    layer = policy.model.get_decoder().layers[-1]
    layer.mlp.register_forward_hook(lambda module, args, out: computed.append(out.shape))
    tokens = torch.from_numpy(np.random.default_rng(0).integers(2, 200, (3, 30)))
    # Repeated positions, several in a row, none in the second one, and one that is not scored.
    row, column = torch.tensor([0, 0, 0, 2, 2]), torch.tensor([3, 4, 4, 29, 0])
    last = torch.tensor([2]), torch.tensor([17])
    found = []
    for policy.restricts in (False, True):
        policy.zero_grad()
        outputs, (states, end) = read(policy, row, column, [(row, column), last], input_ids=tokens)
        (outputs.square().sum() + end.sum()).backward()
        gradients = [p.grad for p in policy.parameters() if p.grad is not None]
        found.append([states, end, outputs, *gradients])
    assert len(found[0]) == len(found[1]) > 10
    for whole, cut in zip(*found, strict=True):
        torch.testing.assert_close(cut, whole, atol=1e-4, rtol=1e-4)
    assert computed[-1][:2] == (1, 5)
    for most, places in (("checkpointing", row), ("many places", torch.arange(3).repeat(10))):
        policy.gradient_checkpointing = most == "checkpointing"
        read(policy, places, torch.arange(len(places)), input_ids=tokens)
        assert computed[-1][:2] == (3, 30), most


def test_layers_of_other_kinds_are_computed_as_they_are(make_policy):
    for kind in ("gpt2", "mistral", "mamba"):  # other names, a sliding window, a recurrent state
        assert not make_policy(kind).restricts
    policy = make_policy("llama")
    layer = policy.model.get_decoder().layers[-1]
    layer.register_forward_hook(lambda module, args, out: out + out.roll(1, 1))
    assert not can_restrict(policy.model, policy.end_token)
    layer.mlp.register_forward_hook(lambda module, args, out: out[:, :3].reshape(-1, 3, 1, 1))
    assert not can_restrict(policy.model, policy.end_token)
