from __future__ import annotations

from itertools import chain, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.errors import ConfigError
from agentgym.trainers.policy.collate import collate, segment_rows
from agentgym.trainers.policy.distribution import draw, score
from agentgym.trainers.policy.sampling import Request, Sampling

KINDS = ["llama", "gpt2", "qwen2", "gemma2", "mistral", "mamba"]
SAMPLINGS = [
    Sampling(max_new_tokens=6),
    Sampling(temperature=0.6, max_new_tokens=6),
    Sampling(top_k=5, max_new_tokens=6),
    Sampling(temperature=1.7, top_p=0.7, max_new_tokens=6),
    Sampling(temperature=0.8, top_k=20, top_p=0.9, max_new_tokens=6),
    Sampling(temperature=0, max_new_tokens=6),
]
CHOICES = [
    None,
    ["go north", "go south", "go", "take red key, blue key", "take red key"],
    ["+", "-"],
    ["wait"],
    None,
    ["日本", "日の出", "day 17"],
    ["a" * n for n in range(1, 9)],
]


def prompts_of(policy, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 40, size=len(CHOICES))
    return [rng.integers(2, len(policy.tokenizer), size=k).astype(np.int32) for k in lengths]


def requests_of(policy, seed=0):
    return [
        Request(prompt, np.random.default_rng([seed, i]), candidates)
        for i, (prompt, candidates) in enumerate(
            zip(prompts_of(policy, seed=seed), CHOICES, strict=True)
        )
    ]


# Drawing.


@settings(deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(SAMPLINGS[:5]))
def test_draw_follows_the_probabilities_it_reports(seed, sampling):
    n, columns = 2000, 7
    logits = torch.randn(1, columns, generator=torch.Generator().manual_seed(seed)) * 3
    logits[0, seed % columns] = -torch.inf
    grid = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    drawn = draw(
        logits.expand(n, -1), grid, sampling.temperature, min(sampling.top_k, 3), sampling.top_p
    )
    for column in range(columns):
        chosen = drawn.column == column
        if chosen.any():
            probability = drawn.logprob[chosen][0].exp().item()
            assert chosen.double().mean().item() == pytest.approx(probability, abs=2 / n)
            assert bool(drawn.kept[0, column])
    assert int(drawn.column.min()) >= 0
    assert not bool(drawn.kept[:, seed % columns].any())


def test_top_k_and_top_p_keep_what_they_say():
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05], [0.25, 0.25, 0.25, 0.25]]).log()
    u = torch.tensor([0.999999, 0.0], dtype=torch.float64)
    assert draw(logits, u, 1.0, top_k=2).kept.tolist() == [[True, True, False, False]] * 2
    assert draw(logits, u, 1.0, top_p=0.79).kept.tolist() == [
        [True, True, False, False],
        [True, True, True, True],
    ]
    assert draw(logits, u, 1.0, top_p=1e-9).kept.tolist() == [[True, False, False, False]] * 2
    # top-p counts what top-k has left: .5 of .8 is more than .6
    assert draw(logits, u, 1.0, top_k=2, top_p=0.6).kept[0].tolist() == [True, False, False, False]
    assert draw(logits, u, 1.0, top_k=2).column.tolist() == [1, 0]
    greedy = draw(logits, u, 0.0)
    assert greedy.column.tolist() == [0, 0]
    assert greedy.logprob.tolist() == [0, 0]


def test_a_guide_says_what_is_kept_and_the_logits_what_is_drawn():
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    guide = torch.tensor([[0.05, 0.15, 0.3, 0.5]]).log()
    drawn = draw(logits, torch.tensor([0.0]).double(), 1.0, top_p=0.7, guide=guide)
    assert drawn.kept.tolist() == [[False, False, True, True]]
    assert drawn.column.tolist() == [2]
    assert drawn.logprob.exp().item() == pytest.approx(0.15 / 0.2)


@pytest.mark.parametrize("candidates", [None, ("go left", "go right", "stay here")])
def test_a_lagged_guide_bounds_what_is_sampled(make_policy, candidates):
    policy = make_policy()
    prompts = prompts_of(policy)

    def act(sampling):
        requests = [
            Request(prompt, np.random.default_rng(i), candidates, slot=i)
            for i, prompt in enumerate(prompts)
        ]
        return policy.act(requests, sampling, policy.session())

    sampling = Sampling(top_p=0.9, max_new_tokens=5)
    alone = act(sampling)
    policy.follow(policy.frozen_copy())
    for mine, guided in zip(alone, act(sampling), strict=True):
        assert mine.tokens.tolist() == guided.tokens.tolist()  # a guide like the policy itself
        np.testing.assert_allclose(mine.logprobs, guided.logprobs, atol=1e-5)
    before = [p.clone() for p in policy.guide.parameters()]
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    for old, parameter in zip(before, policy.guide.parameters(), strict=True):
        assert torch.equal(old, parameter)
    # The first token is among those that the guide keeps, whatever the policy has become.
    kept = {tuple(s.support.ids[: s.support.offsets[1]]) for s in alone}
    moved = act(sampling)
    assert {tuple(s.support.ids[: s.support.offsets[1]]) for s in moved} == kept
    gaps = [abs(a.logprobs[0] - b.logprobs[0]) for a, b in zip(alone, moved, strict=True)]
    assert max(gaps) > 0.01


def test_the_last_column_is_never_passed():
    logits = torch.tensor([[0.0, 0.0, -torch.inf]])
    almost_one = torch.tensor([np.nextafter(1.0, 0.0)], dtype=torch.float64)
    assert draw(logits, almost_one, 1.0).column.tolist() == [1]


def test_score_agrees_with_a_plain_softmax_over_the_support():
    logits = torch.randn(4, 9, generator=torch.Generator().manual_seed(0)).double()
    supports = [[1, 4, 8], [3], [], [0, 1, 2, 3, 4, 5, 6, 7]]
    target = torch.tensor([4, 3, 2, 7])
    offsets = torch.tensor([0, 3, 4, 4, 12])
    ids = torch.tensor(list(chain.from_iterable(supports)))
    logprob, entropy = score(logits, target, (offsets, ids), temperature=0.7)
    for i, allowed in enumerate(supports):
        allowed = allowed or list(range(9))
        expected = torch.distributions.Categorical(logits=logits[i, allowed] / 0.7)
        at = torch.tensor(allowed.index(int(target[i])))
        assert logprob[i].item() == pytest.approx(expected.log_prob(at).item(), abs=1e-6)
        assert entropy[i].item() == pytest.approx(expected.entropy().item(), abs=1e-6)
    assert logprob[1] == 0
    assert entropy[1] == 0


# What is sampled.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_first_ratio_is_one(make_policy, as_batch, kind, sampling):
    policy = make_policy(kind)
    requests = requests_of(policy)
    samples = policy.act(requests, sampling)
    batch = as_batch([request.prompt for request in requests], samples)
    rows = segment_rows(batch)
    collated = collate(batch, rows, policy.pad_token, sampling.temperature or 1.0)
    scores = policy(collated)
    behaviour = torch.from_numpy(batch.logprobs)[collated.index]
    assert torch.isfinite(scores.logprobs).all()
    assert (scores.logprobs - behaviour).abs().max() < 1e-5
    assert (scores.entropy > -1e-5).all()


@pytest.mark.parametrize(
    ("kind", "changes"), [("falcon", {}), ("falcon", {"alibi": True}), ("bamba", {})]
)
def test_models_with_an_attention_or_positions_of_their_own(make_policy, as_batch, kind, changes):
    policy = make_policy(kind, **changes)
    test_first_ratio_is_one(lambda _: policy, as_batch, kind, Sampling(max_new_tokens=4))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampling", SAMPLINGS[::2], ids=str)
def test_samples_do_not_depend_on_the_batch(make_policy, kind, sampling):
    policy = make_policy(kind)
    together = policy.act(requests_of(policy), sampling)
    alone = [policy.act([request], sampling)[0] for request in requests_of(policy)]
    backwards = policy.act(requests_of(policy)[::-1], sampling)[::-1]
    assert policy.rows_at_once() > 3
    policy = make_policy(kind, batch_size=3)
    in_threes = policy.act(requests_of(policy), sampling)
    for a, *others in zip(together, alone, backwards, in_threes, strict=True):
        for b in others:
            assert a.tokens.tolist() == b.tokens.tolist()
            assert (a.text, a.finished) == (b.text, b.finished)
            np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-5)
            if a.support is None:
                assert b.support is None
            else:
                assert b.support is not None
                assert a.support.ids.tolist() == b.support.ids.tolist()
                assert a.support.offsets.tolist() == b.support.offsets.tolist()


def test_candidates_may_hold_commas_and_begin_alike(make_policy):
    policy = make_policy()
    texts = ("go north", "go north, then take the key", "go north, then", ", ", "a,b")
    prompt = np.array(policy.encode("You are in a room.\n> "), np.int32)
    requests = [Request(prompt, np.random.default_rng(seed), texts) for seed in range(80)]
    for normalization in (None, "sum", "token", "word"):
        samples = policy.act(requests, Sampling(100.0, normalization=normalization))
        assert {sample.text for sample in samples} == set(texts)


@pytest.mark.parametrize("kind", ["llama", "mistral", "mamba"])
def test_a_constrained_action_is_one_of_the_candidates(make_policy, kind):
    policy = make_policy(kind)
    for seed in range(5):
        for request, sample in zip(
            requests_of(policy, seed),
            policy.act(requests_of(policy, seed), Sampling(max_new_tokens=2)),
            strict=True,
        ):
            if request.candidates is None:
                assert sample.support is None
                assert len(sample.tokens) <= 2
                continue
            assert sample.text in request.candidates
            assert sample.finished
            assert sample.tokens.tolist() == [*policy.encode(sample.text), policy.end_token]
            assert sample.support is not None
            assert len(sample.support) == len(sample.tokens)
            for j, token in enumerate(sample.tokens):
                allowed = sample.support.ids[slice(*sample.support.offsets[j : j + 2])]
                assert token in allowed
                assert allowed.tolist() == sorted(set(allowed.tolist()))
                if len(allowed) == 1:
                    assert sample.logprobs[j] == 0


def test_candidates_are_drawn_as_often_as_their_probability_says(make_policy):
    policy = make_policy()
    prompt = prompts_of(policy)[0]
    candidates = ["go north", "go south", "go", "take red key"]
    n = 600
    samples = policy.act(
        [Request(prompt, np.random.default_rng(i), candidates) for i in range(n)], Sampling()
    )
    probability = {sample.text: np.exp(sample.logprobs.sum()) for sample in samples}
    assert sum(probability.values()) == pytest.approx(1, abs=1e-5) or len(probability) < 4
    for text, p in probability.items():
        share = sum(sample.text == text for sample in samples) / n
        assert abs(share - p) < 4.5 * np.sqrt(p * (1 - p) / n) + 1 / n


def test_a_free_action_stops_at_the_end_token_or_the_limit(make_policy):
    policy = make_policy()
    samples = policy.act(
        [Request(prompts_of(policy)[0], np.random.default_rng(i)) for i in range(300)],
        Sampling(max_new_tokens=20),
    )
    assert {sample.finished for sample in samples} == {True, False}
    for sample in samples:
        ends = np.flatnonzero(sample.tokens == policy.end_token)
        assert ends.tolist() == ([len(sample.tokens) - 1] if sample.finished else [])
        assert sample.finished or len(sample.tokens) == 20
        assert policy.tokenizer.eos_token not in sample.text


def test_the_longer_distribution_is_the_short_one_continued(make_policy):
    """The same uniform numbers belong to the same places: cutting earlier changes nothing."""
    policy = make_policy()
    prompt = prompts_of(policy)[0]
    long = policy.act([Request(prompt, np.random.default_rng(5))], Sampling(max_new_tokens=9))[0]
    short = policy.act([Request(prompt, np.random.default_rng(5))], Sampling(max_new_tokens=4))[0]
    assert short.tokens.tolist() == long.tokens[:4].tolist()


# The work done.


def test_forced_tokens_cost_no_forward_pass(make_policy):
    policy = make_policy()
    prompt = np.arange(5, 25, dtype=np.int32)
    rng = np.random.default_rng(0)
    policy.act([Request(prompt, rng, ["only this"])], Sampling())
    assert policy.stats.forward_passes == 0
    assert policy.stats.forced_tokens == policy.stats.new_tokens > 0
    policy.stats.reset()
    a, b = "n" + "x" * 9, "s" + "y" * 9
    policy.act([Request(prompt, rng, [a, b])], Sampling())
    assert policy.stats.forward_passes == 1
    assert policy.stats.fed_tokens == len(prompt)
    policy.stats.reset()
    # What both begin with is fed with the prompt, what only the second choice needs after it.
    policy.act([Request(prompt, rng, ["11112345670", "11112345671"])], Sampling())
    assert policy.stats.forward_passes == 1
    assert policy.stats.fed_tokens == len(prompt) + 10


def test_no_work_for_finished_rows(make_policy):
    policy = make_policy(batch_size=64)
    assert policy.layer_shapes  # the probe is not counted
    fed: list[tuple[int, ...]] = []
    policy.model.register_forward_pre_hook(
        lambda module, args, kwargs: fed.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    prompt = np.arange(5, 25, dtype=np.int32)
    requests = [Request(prompt, np.random.default_rng(i)) for i in range(40)]
    samples = policy.act(requests, Sampling(max_new_tokens=20))
    lengths = np.array([len(sample.tokens) for sample in samples])
    assert len(set(lengths)) > 3
    # The prompt is the same in all rows, so all but its last token is computed once.
    expected = [(1, 19)] + [(int((lengths > n).sum()), 1) for n in range(lengths.max())]
    assert fed == expected
    assert policy.stats.padded_tokens == 0


@pytest.mark.parametrize("sampling", [Sampling(temperature=0), Sampling(top_k=3), Sampling()])
def test_no_vocabulary_leaves_the_device(make_policy, monkeypatch, sampling):
    policy = make_policy()
    sizes: list[int] = []
    for name in ("cpu", "numpy", "tolist"):
        method = getattr(torch.Tensor, name)

        def count(tensor, *args, method=method, **kwargs):
            sizes.append(tensor.numel())
            return method(tensor, *args, **kwargs)

        monkeypatch.setattr(torch.Tensor, name, count)
    policy.act(
        [Request(prompt, np.random.default_rng(0)) for prompt in prompts_of(policy)], sampling
    )
    assert sizes
    assert max(sizes) < len(policy.tokenizer) / 2


# Reuse of keys and values.


@pytest.mark.parametrize("kind", KINDS)
def test_a_growing_context_gives_the_same_with_and_without_a_cache(make_policy, kind):
    policy = make_policy(kind)
    sampling = Sampling(max_new_tokens=5)

    def play(cache):
        contexts = prompts_of(policy)
        rngs = [np.random.default_rng([7, i]) for i in range(len(contexts))]
        told = np.random.default_rng(1)
        result, fed = [], []
        for turn in range(4):
            present = [i for i in range(len(contexts)) if (i + turn) % 5]
            policy.stats.reset()
            samples = policy.act(
                [Request(contexts[i], rngs[i], CHOICES[i], slot=i) for i in present],
                sampling,
                cache,
            )
            fed.append(policy.stats.fed_tokens)
            for i, sample in zip(present, samples, strict=True):
                heard = told.integers(2, 200, size=told.integers(1, 30))
                contexts[i] = np.concatenate([contexts[i], sample.tokens, heard]).astype(np.int32)
            result.append(samples)
        return result, fed

    plain, plain_fed = play(None)
    cached, cached_fed = play(policy.session())
    for a, b in zip(chain(*plain), chain(*cached), strict=True):
        assert a.tokens.tolist() == b.tokens.tolist()
        np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-5)
    assert plain_fed[0] == cached_fed[0]
    if policy.blocks:
        assert cached_fed[-1] < plain_fed[-1] / 2
    else:
        assert kind in ("gemma2", "mistral", "mamba")
        assert cached_fed == plain_fed


def test_a_cache_serves_any_common_beginning(make_policy):
    policy = make_policy()
    cache = policy.session()
    prompt = np.arange(5, 45, dtype=np.int32)
    edited = prompt.copy()
    edited[30:] += 50
    for tokens, fed in [(prompt, 40), (prompt, 1), (edited, 10), (edited[:20], 1), (prompt, 20)]:
        policy.stats.reset()
        request = Request(tokens, np.random.default_rng(0), ["+", "-"], slot="a")
        cached = policy.act([request], Sampling(), cache)[0]
        assert policy.stats.fed_tokens == fed
        plain = policy.act([Request(tokens, np.random.default_rng(0), ["+", "-"])], Sampling())[0]
        np.testing.assert_allclose(cached.logprobs, plain.logprobs, atol=1e-5)
    cache.drop("a")
    cache.drop("never seen")
    policy.stats.reset()
    policy.act([Request(prompt, np.random.default_rng(0), ["+", "-"], slot="a")], Sampling(), cache)
    assert policy.stats.cached_tokens == 0


def test_a_new_slot_borrows_what_all_prompts_begin_with(make_policy):
    policy = make_policy()
    cache = policy.session()
    rules = np.arange(5, 45, dtype=np.int32)
    for slot, ending in enumerate(([50, 51, 52], [60], [70, 71])):
        prompt = np.concatenate([rules, ending]).astype(np.int32)
        policy.stats.reset()
        request = Request(prompt, np.random.default_rng(0), ["+", "-"], slot=slot)
        cached = policy.act([request], Sampling(), cache)[0]
        assert policy.stats.cached_tokens == (len(rules) if slot else 0)
        plain = policy.act([Request(prompt, np.random.default_rng(0), ["+", "-"])], Sampling())[0]
        np.testing.assert_allclose(cached.logprobs, plain.logprobs, atol=1e-5)


def test_an_optimiser_step_empties_the_cache(make_policy):
    policy = make_policy()
    cache = policy.session()
    optimiser = torch.optim.AdamW(policy.parameters(), lr=1e-2)
    prompt = np.arange(5, 45, dtype=np.int32)

    def act(cache):
        request = Request(prompt, np.random.default_rng(0), ["+", "-"], slot=0)
        return policy.act([request], Sampling(), cache)[0]

    act(cache)
    policy.model(input_ids=torch.arange(9)[None]).logits.logsumexp(-1).sum().backward()
    optimiser.step()
    policy.stats.reset()
    assert act(cache).logprobs == pytest.approx(act(None).logprobs, abs=1e-5)
    assert policy.stats.cached_tokens == 0
    act(cache)
    assert policy.stats.cached_tokens > 0


# Conduct.


def test_global_generators_are_untouched(make_policy, global_rng_untouched):
    policy = make_policy()
    before = torch.get_rng_state()
    policy.act(requests_of(policy), Sampling(max_new_tokens=4))
    assert torch.equal(torch.get_rng_state(), before)


def test_acting_leaves_no_gradients(make_policy):
    policy = make_policy()
    policy.act(requests_of(policy), Sampling(max_new_tokens=2))
    assert all(parameter.grad is None for parameter in policy.parameters())


@pytest.mark.parametrize(
    ("prompt", "candidates", "message"),
    [
        ([], None, "at least one token"),
        ([5, 6], [], "candidates is empty"),
        ([5] * 505, None, r"505 tokens and an action of up to 10 .* 512"),
        ([5] * 505, ["n" * 300], "505 tokens"),
    ],
)
def test_requests_that_cannot_be_served(make_policy, prompt, candidates, message):
    policy = make_policy()
    request = Request(np.array(prompt, np.int32), np.random.default_rng(0), candidates)
    with pytest.raises(ValueError, match=message):
        policy.act([request], Sampling(max_new_tokens=10))


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -1},
        {"temperature": float("nan")},
        {"top_k": -1},
        {"top_p": 0},
        {"top_p": 1.1},
        {"max_new_tokens": 0},
    ],
)
def test_samplings_that_make_no_sense(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Sampling(**wrong)


def test_nothing_to_do(make_policy):
    assert make_policy().act([], Sampling()) == []


def test_supports_are_in_order(make_policy):
    policy = make_policy()
    for sample in policy.act(requests_of(policy), SAMPLINGS[4]):
        assert sample.support is not None
        assert all(a < b for a, b in pairwise(sample.support.offsets.tolist()))


def test_short_prefixes_of_many_groups_are_computed_in_one_pass(make_policy):
    policy, rng = make_policy("llama"), np.random.default_rng(0)
    rules, alone = rng.integers(2, 200, 50), rng.integers(2, 200, 90)
    groups = [np.concatenate([rules, rng.integers(2, 200, 30 + i)]) for i in range(4)]
    # Rows of a group are apart from each other, and one prompt belongs to no group.
    prompts = [np.append(groups[i % 4], [7, i]).astype(np.int32) for i in range(16)]
    prompts.insert(5, np.concatenate([rules, alone]).astype(np.int32))
    sampling = Sampling(max_new_tokens=4)

    def requests() -> list[Request]:
        return [Request(p, np.random.default_rng(i)) for i, p in enumerate(prompts)]

    together = policy.act(requests(), sampling)
    # Prefixes of groups are cut to one length: 30 tokens and a 7 in the shortest.
    assert policy.stats.cached_tokens == 16 * 50 + 4 * 3 * 31
    passes = policy.stats.forward_passes
    # Of the rules, the groups, what is left of the prompt of no group and of others, new tokens.
    assert passes <= 4 + 4
    for request, sample in zip(requests(), together, strict=True):
        single = policy.act([request], sampling)[0]
        assert sample.tokens.tolist() == single.tokens.tolist()
        np.testing.assert_allclose(sample.logprobs, single.logprobs, atol=1e-5)
