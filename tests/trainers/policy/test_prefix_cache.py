from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from agentgym.trainers import make_trainer
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.prefix_cache import PrefixCache
from agentgym.trainers.policy.sampling import Request, Sampling

KINDS = ["llama", "gpt2", "qwen2"]
CHOICES = [None, ["go north", "go south", "go"], ["take red key, blue key", "take red key", "+"]]


def tokens_of(seed, length):
    return np.random.default_rng(seed).integers(2, 250, size=length).astype(np.int32)


def act(policy, prompts, cache=None, slots=None, sampling=None, candidates=()):
    requests = [
        Request(
            prompt,
            np.random.default_rng(i),
            candidates[i] if candidates else None,
            slot=None if slots is None else slots[i],
        )
        for i, prompt in enumerate(prompts)
    ]
    return policy.act(requests, sampling or Sampling(max_new_tokens=6), cache)


def assert_same(some, others):
    for a, b in zip(some, others, strict=True):
        assert a.tokens.tolist() == b.tokens.tolist()
        np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-5)


@pytest.fixture(scope="module")
def policies(make_policy):
    return {(kind, size): make_policy(kind, size) for kind in KINDS for size in (1, 3, 64)}


@pytest.mark.slow
@settings(deadline=None, max_examples=12, phases=[Phase.generate])
@given(data=st.data())
def test_reuse_eviction_and_order_never_change_actions(policies, data):
    policy = policies[data.draw(st.sampled_from(KINDS)), data.draw(st.sampled_from([1, 3, 64]))]
    per_token = sum(shape.bytes for shape in policy.layer_shapes)
    rows = data.draw(st.integers(1, 8), label="rows of 128 tokens that fit")
    cache = PrefixCache(max_bytes=rows * 128 * per_token)
    contexts = {slot: tokens_of(slot % 3, 12 + slot) for slot in range(6)}
    for turn in range(data.draw(st.integers(1, 4), label="turns")):
        slots = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=7), label="slots")
        prompts = [contexts[slot] for slot in slots]
        candidates = [CHOICES[(slot + turn) % 3] for slot in slots]
        cached = act(policy, prompts, cache, slots, candidates=candidates)
        assert cache.bytes <= rows * 128 * per_token
        for prompt, choices, sample in zip(prompts, candidates, cached, strict=True):
            request = Request(prompt, np.random.default_rng(0), choices)
            if prompt is prompts[0]:
                assert_same([cached[0]], policy.act([request], Sampling(max_new_tokens=6)))
            assert len(sample.tokens)
        assert_same(cached, act(policy, prompts, candidates=candidates))
        for slot, sample in zip(slots, cached, strict=True):
            if len(contexts[slot]) < 80 and data.draw(st.booleans(), label="goes on"):
                heard = tokens_of([slot, turn], 1 + slot * 4)
                contexts[slot] = np.concatenate([contexts[slot], sample.tokens, heard])
            elif data.draw(st.booleans(), label="ends"):
                cache.drop(slot)
                contexts[slot] = tokens_of(slot % 2, 12 + turn)


def test_the_least_recently_used_slot_is_evicted(make_policy):
    policy = make_policy()
    per_token = sum(shape.bytes for shape in policy.layer_shapes)
    cache = PrefixCache(max_bytes=2 * 64 * per_token)
    prompts = [tokens_of(i, 40) for i in range(3)]

    def cached(i):
        policy.stats.reset()
        act(policy, [prompts[i]], cache, [i])
        return policy.stats.cached_tokens

    assert [cached(0), cached(1), cached(0)] == [0, 0, 39]
    assert cached(2) == 0  # takes the place of slot 1
    assert cached(0) == 39
    assert cached(1) == 0


def test_keys_and_values_are_written_in_place(make_policy):
    policy = make_policy(batch_size=4)
    cache = policy.session()
    prompts = [tokens_of(i, 20 + i) for i in range(4)]
    first = act(policy, prompts, cache, range(4), Sampling(max_new_tokens=30))

    def places():
        return [state.data_ptr() for layer in cache._layers for state in layer.states]

    before = places()
    longer = [np.concatenate([p, s.tokens[:5]]) for p, s in zip(prompts, first, strict=True)]
    act(policy, longer, cache, range(4), Sampling(max_new_tokens=5))
    assert places() == before


def test_waiting_rows_take_the_places_of_finished_ones(make_policy):
    policy = make_policy(batch_size=4)
    shapes: list[tuple[int, ...]] = []
    policy.model.register_forward_pre_hook(
        lambda module, args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)),
        with_kwargs=True,
    )
    prompts = [tokens_of(i, 20 + i % 3) for i in range(24)]
    samples = act(policy, prompts, sampling=Sampling(max_new_tokens=25))
    assert max(rows for rows, _ in shapes) == 4
    lengths = sorted(len(sample.tokens) for sample in samples)
    assert lengths[0] < lengths[-1]
    steps = sum(width == 1 for _, width in shapes)
    batches = [list(range(i, i + 4)) for i in range(0, 24, 4)]
    in_lockstep = sum(max(len(samples[i].tokens) for i in batch) - 1 for batch in batches)
    assert steps < in_lockstep
    alone = [act(policy, [p])[0] for p in prompts[:1]]
    assert alone[0].tokens.tolist() == samples[0].tokens[:6].tolist()


@pytest.mark.parametrize("batch", [1, 3, None])
def test_the_setting_bounds_the_rows_of_a_pass(batch: int | None, tmp_path):
    trainer = make_trainer(
        "rloo", model="nano", generation_batch=batch, num_envs=5, episodes_per_iteration=5,
        group_size=5, env_kwargs={"max_turns": 1}, device="cpu", quiet=True, run_dir=str(tmp_path),
    )  # fmt: skip
    rows: list[int] = []
    trainer.policy.model.register_forward_pre_hook(
        lambda module, args, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    try:
        trainer.rollouts.collect(0)
    finally:
        for part in (trainer.pool, trainer.log, trainer.folder):
            part.close()
    assert max(rows) == (batch or 5)


def test_equal_rows_need_no_mask(make_policy):
    policy = make_policy()
    masks: list[bool] = []
    policy.model.register_forward_pre_hook(
        lambda module, args, kwargs: masks.append(kwargs["attention_mask"] is not None),
        with_kwargs=True,
    )
    act(policy, [tokens_of(i, 20) for i in range(5)])
    assert not any(masks)
    masks.clear()
    act(policy, [tokens_of(i, 20 + i) for i in range(5)])
    assert masks[0] is False  # padding on the right comes after all tokens
    assert all(masks[1:])


def test_contexts_that_grow_from_call_to_call_are_read_once_and_seldom_copied(make_policy):
    policy = make_policy()
    cache, context, places = policy.session(), tokens_of(0, 100), set()
    policy.stats.reset()
    for turn in range(20):
        act(policy, [context], cache, [0], Sampling(max_new_tokens=5))
        places.add(cache._shape)
        context = np.concatenate([context, tokens_of(turn, 20)])
    read = policy.stats.fed_tokens - policy.stats.new_tokens
    assert read == len(context) - 20 - 20  # without the last tokens of actions
    assert len(places) <= 6  # columns grow by a quarter: 128 * 1.25 ** 6 > 480
    assert cache._shape[1] < 1.25 * len(context) + 64


def test_tokens_with_equal_embeddings_do_not_hide_how_masks_are_read(make_model, tokenizer):
    model = make_model("llama")
    unused = [0, 1, tokenizer.eos_token_id]
    model.get_input_embeddings().weight.data[unused] = 0
    assert Policy(model, tokenizer).blocks
