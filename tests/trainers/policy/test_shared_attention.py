"""Attention of generated tokens to prefixes that rows share."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from transformers import AttentionInterface

from agentgym.trainers.data.trajectory import equal_tokens
from agentgym.trainers.policy import shared_attention
from agentgym.trainers.policy.collate import collate, segment_rows
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Request, Sample, Sampling
from agentgym.trainers.policy.shared_attention import NAME, Sharing, common_prefixes

CHOICES = ["go north", "go south", "take the red key, then wait", "take the blue key"]
BF16 = 0.1
"""Largest error in nats per token of two layers in bfloat16. It is as large without sharing."""
FEW = st.lists(st.lists(st.integers(0, 1), min_size=5, max_size=9), min_size=1, max_size=8)


@settings(deadline=None, max_examples=50)
@given(FEW)
def test_the_prefixes_are_those_that_save_most(lists):
    prompts = [np.array(some, np.int32) for some in lists]

    def families(length):
        return {tuple(prompt[:length]) for prompt in prompts}

    length, found = common_prefixes(prompts, 5)
    saved = [(len(prompts) - len(families(n))) * n for n in range(6)]
    assert saved[length] == max(saved)
    assert sorted(i for family in found for i in family) == list(range(len(prompts)))
    assert len(found) == len(families(length))
    for family in found:
        first = prompts[family[0]]
        assert all(equal_tokens(prompts[i], first, length) == length for i in family)


@settings(deadline=None, max_examples=25)
@given(
    prefixes=st.lists(st.integers(0, 2), min_size=1, max_size=6),
    new=st.integers(1, 3),
    queries=st.sampled_from([1, 2]),
    masked=st.booleans(),
)
@example([0, 2, 1], 1, 1, False)  # the order of rows is its own inverse
def test_results_are_those_of_plain_attention(prefixes, new, queries, masked):
    b, kv, length, own, size = len(prefixes), 2, 5, 4, 8
    generator = torch.Generator().manual_seed(0)

    def some(*shape):
        return torch.randn(shape, generator=generator)

    (first_keys, own_keys), (first_values, own_values) = [
        (some(3, kv, length, size), some(b, kv, own, size)) for _ in range(2)
    ]
    query, mask = some(b, kv * queries, new, size), None
    if masked:
        mask = torch.zeros(b, 1, new, own).masked_fill(some(b, 1, new, own) > 0, -1e9)
        mask[..., 0] = 0
    keys = torch.cat([first_keys[prefixes], own_keys], 2)
    values = torch.cat([first_values[prefixes], own_values], 2)
    whole = None if mask is None else torch.nn.functional.pad(mask, (length, 0))
    expected = torch.nn.functional.scaled_dot_product_attention(
        query, keys, values, whole, scale=1.0, enable_gqa=True
    )
    states = {0: (first_keys, first_values)}
    plan = Sharing(length, states, np.array(prefixes), torch.device("cpu"))
    found = plan.attend(states[0], query, (own_keys, own_values), mask)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_autocast_and_capped_scores():
    generator = torch.Generator().manual_seed(0)
    query, first, own = (torch.randn(4, 2, n, 8, generator=generator) for n in (1, 5, 3))
    keys = torch.cat([first[:1].expand_as(first), own], 2)
    expected = torch.nn.functional.scaled_dot_product_attention(query, keys, keys)
    states = {0: (first[:1], first[:1])}
    plan = Sharing(5, states, np.zeros(4, np.int64), torch.device("cpu"))
    keys.sharing = plan, states[0]  # type: ignore[attr-defined]
    attention = AttentionInterface()[NAME]
    with torch.autocast("cpu", torch.bfloat16):
        found, _ = attention(None, query, keys, keys, None)
    torch.testing.assert_close(found, expected.transpose(1, 2), atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match="softcap"):
        attention(None, query, keys, keys, None, softcap=30.0)


def groups(policy: Policy, count: int) -> list[Request]:
    """Returns requests in any order, every second one constrained.

    Groups of three share a prompt, all groups share its beginning, and one request shares nothing.
    """
    rng, begin = np.random.default_rng(0), np.arange(7, 40)
    tails = [rng.integers(2, 250, 3 + 2 * i) for i in range(count)]
    prompts = [np.concatenate([begin, tail]) for tail in tails for _ in range(3)]
    prompts.append(rng.integers(2, 250, 45))
    order = rng.permutation(len(prompts)).tolist()
    return [
        Request(
            prompts[number].astype(np.int32),
            np.random.default_rng(i),
            CHOICES if i % 2 else None,
            slot=i,
        )
        for i, number in enumerate(order)
    ]


def two_turns(policy: Policy) -> tuple[list[Request], list[Sample]]:
    """Lets a policy act twice in each context, so that groups differ after their first prompt."""
    session, sampling, first = policy.session(), Sampling(max_new_tokens=8), groups(policy, 3)
    samples = policy.act(first, sampling, session)
    second = [
        Request(np.concatenate([r.prompt, s.tokens, [60]]).astype(np.int32), r.rng, slot=r.slot)
        for r, s in zip(first, samples, strict=True)
    ]
    return first + second, samples + policy.act(second, sampling, session)


FULL = {"layer_types": ["full_attention"] * 2}
KINDS: list[tuple[str, dict[str, Any], str, bool]] = [  # ..., whether prefixes are shared
    ("llama", {}, "float32", True),
    ("gpt2", {}, "float32", True),
    ("qwen3", {}, "float32", True),
    ("gemma", {}, "float32", True),
    ("gemma3_text", FULL, "float32", True),
    ("phi3", {}, "float32", True),
    ("qwen2", {}, "lora", True),
    ("qwen3", {}, "bfloat16", True),
    ("gemma", {}, "bfloat16", True),
    ("phi3", {}, "autocast", True),
    ("mistral", {}, "float32", False),  # a sliding window
    ("gemma3_text", {}, "float32", False),  # every other layer has one
    ("gemma2", FULL, "float32", False),  # attention scores are capped
    ("qwen2", {"attn_implementation": "eager"}, "float32", False),
]


@pytest.mark.parametrize(("kind", "changes", "other", "shared"), KINDS)
def test_actions_are_those_of_plain_attention(
    make_policy, as_batch, monkeypatch, kind, changes, other, shared
):
    policy, attend, calls = make_policy(kind, **changes), Sharing.attend, []
    if other == "lora":
        config = LoraConfig(target_modules=["q_proj", "v_proj"], init_lora_weights=False)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            policy = Policy(get_peft_model(policy.model, config), policy.tokenizer)
    elif other == "autocast":
        policy.autocast = lambda: torch.autocast("cpu", torch.bfloat16)
    elif other == "bfloat16":
        policy.model.to(torch.bfloat16)

    def counted(*args):
        calls.append(args)
        return attend(*args)

    monkeypatch.setattr(Sharing, "attend", counted)
    implementation = policy.model.config._attn_implementation
    played = []
    for least in (1 << 30, 1):
        monkeypatch.setattr(shared_attention, "LEAST_CPU", least)
        played.append(two_turns(policy))
        assert bool(calls) == (shared and least == 1)
    assert policy.model.config._attn_implementation == implementation
    if other in ("float32", "lora"):
        for plain, found in zip(played[0][1], played[1][1], strict=True):
            assert found.tokens.tolist() == plain.tokens.tolist()
            np.testing.assert_allclose(found.logprobs, plain.logprobs, atol=1e-5)
    tolerance = 1e-5 if other in ("float32", "lora") else BF16
    exact = Policy(copy.deepcopy(policy.model).float(), policy.tokenizer)
    for requests, samples in played:
        batch = as_batch([request.prompt for request in requests], samples)
        collated = collate(batch, segment_rows(batch), exact.pad_token, 1.0)
        expected = exact(collated).logprobs.detach()
        found = torch.from_numpy(batch.logprobs)[collated.index]
        torch.testing.assert_close(found, expected, atol=tolerance, rtol=0)


def test_the_cache_is_freed_with_its_last_reference(make_policy, monkeypatch):
    """Reference cycles would keep the keys and values of earlier calls in memory."""
    monkeypatch.setattr(shared_attention, "LEAST_CPU", 1)
    policy = make_policy()
    session = policy.session()
    policy.act(groups(policy, 2), Sampling(max_new_tokens=2), session)
    layer = weakref.ref(session._layers[0])
    gc.disable()
    try:
        del session
        assert layer() is None
    finally:
        gc.enable()
