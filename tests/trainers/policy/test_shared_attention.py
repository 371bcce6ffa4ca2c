"""Attention of generated tokens to prefixes that rows share."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model

from agentgym.trainers.policy import shared_attention
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Request, Sampling
from agentgym.trainers.policy.shared_attention import Sharing, common_prefixes, equal_tokens

CHOICES = ["go north", "go south", "take the red key, then wait", "take the blue key"]
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


def groups(policy: Policy, count: int) -> list[Request]:
    """Returns requests in groups of three that share a prompt, every second one constrained."""
    rng, begin = np.random.default_rng(0), np.arange(7, 40)
    tails = [rng.integers(2, 250, 3 + 2 * i) for i in range(count)]
    prompts = [np.concatenate([begin, tail]).astype(np.int32) for tail in tails for _ in range(3)]
    return [
        Request(prompt, np.random.default_rng(i), CHOICES if i % 2 else None, slot=i)
        for i, prompt in enumerate(prompts)
    ]


KINDS = [
    ("llama", {}, None),
    ("qwen2", {}, None),
    ("gpt2", {}, None),
    ("qwen2", {}, torch.bfloat16),
    ("qwen2", {}, "lora"),
    ("mistral", {}, None),  # a sliding window: not shared
    ("qwen2", {"attn_implementation": "eager"}, None),  # not shared
]


@pytest.mark.parametrize(("kind", "changes", "other"), KINDS)
def test_actions_are_those_of_plain_attention(make_policy, monkeypatch, kind, changes, other):
    policy, plain, attend, calls = make_policy(kind, **changes), [], Sharing.attend, []
    if other == "lora":
        config = LoraConfig(target_modules=["q_proj", "v_proj"], init_lora_weights=False)
        policy = Policy(get_peft_model(policy.model, config), policy.tokenizer)
    elif other is not None:
        policy.model.to(other)

    def counted(*args):
        calls.append(args)
        return attend(*args)

    monkeypatch.setattr(Sharing, "attend", counted)
    for least in (1 << 30, 1):
        monkeypatch.setattr(shared_attention, "LEAST_CPU", least)
        session, sampling = policy.session(), Sampling(max_new_tokens=8)
        samples = policy.act(groups(policy, 3), sampling, session)
        again = [  # the contexts go on, so that groups differ after their first prompt
            Request(np.concatenate([r.prompt, s.tokens, [60]]).astype(np.int32), r.rng, slot=r.slot)
            for r, s in zip(groups(policy, 3), samples, strict=True)
        ]
        samples += policy.act(again, sampling, session)
        assert bool(calls) == (least == 1 and kind != "mistral" and not changes)
        if least > 1:
            plain = samples
    tolerance = 0.25 if other == torch.bfloat16 else 1e-5  # of 1/256 in every layer's output
    for one, two in zip(samples, plain, strict=True):
        common = equal_tokens(one.tokens, two.tokens, min(len(one.tokens), len(two.tokens)))
        if other != torch.bfloat16:
            assert one.tokens.tolist() == two.tokens.tolist()
        np.testing.assert_allclose(one.logprobs[:common], two.logprobs[:common], atol=tolerance)
    assert policy.model.config._attn_implementation == changes.get("attn_implementation", "sdpa")


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
