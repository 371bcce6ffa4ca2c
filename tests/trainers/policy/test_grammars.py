"""Calls that a grammar restricts: every sample is well-formed, and scored as it was sampled."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym import action_grammar, tool
from agentgym.errors import ConfigError, MissingExtraError
from agentgym.tools import read_call
from agentgym.trainers.policy.collate import collate, segment_rows
from agentgym.trainers.policy.distribution import allowed_tokens, score, score_gradient
from agentgym.trainers.policy.sampling import Request, Sampling
from agentgym.trainers.policy.scoring import score_actions
from agentgym.trainers.policy.support import listed, support_of

from ...helpers.tokenizer_kinds import KINDS, tokenizer_of


@tool
def move(
    to: Literal["left", "right"], note: str = "", steps: int = 1, fast: bool = False
) -> None: ...


@tool
def wait() -> None: ...


CALL = action_grammar([move, wait]).regex
TAGGED = action_grammar([move, wait], call_format="tool_call").regex
LIMIT = 80


def prompts_of(policy: Any, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(count)
    return [
        rng.integers(2, len(policy.tokenizer), size=5 + 7 * i).astype(np.int32)
        for i in range(count)
    ]


def requests_of(policy: Any, grammars: list[str | None]) -> list[Request]:
    prompts = prompts_of(policy, len(grammars))
    return [
        Request(prompt, np.random.default_rng(i), grammar=grammar)
        for i, (prompt, grammar) in enumerate(zip(prompts, grammars, strict=True))
    ]


def rescored(policy: Any, as_batch: Any, requests: Any, samples: Any, temperature: float) -> Any:
    """The log-probs of samples in a forward pass of training."""
    batch = as_batch([request.prompt for request in requests], samples)
    collated = collate(batch, segment_rows(batch), policy.pad_token, temperature)
    return score_actions(policy, collated).logprobs.detach().numpy(), batch


# Generation.


@pytest.mark.parametrize("kind", ["llama", "gemma2", "mamba"])
@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(max_new_tokens=LIMIT),
        Sampling(temperature=0.7, top_k=20, top_p=0.9, max_new_tokens=LIMIT),
    ],
    ids=["whole", "nucleus"],
)
def test_samples_are_well_formed_and_scored_as_sampled(make_policy, as_batch, kind, sampling):
    policy = make_policy(kind)
    requests = requests_of(policy, [CALL, TAGGED, None, CALL])
    samples = policy.act(requests, sampling)
    for request, sample in zip(requests, samples, strict=True):
        assert len(sample.tokens) <= LIMIT
        if request.grammar is not None and sample.finished:
            assert re.fullmatch(request.grammar, sample.text)
            assert read_call(sample.text) is not None
            assert sample.tokens[-1] == policy.end_token
            assert policy.decode(sample.tokens[:-1]) == sample.text
    assert any(sample.finished for sample in samples)
    found, batch = rescored(policy, as_batch, requests, samples, sampling.temperature)
    np.testing.assert_allclose(found, batch.logprobs, atol=2e-5)
    forced = np.concatenate(
        [
            np.zeros(len(sample.tokens), bool) if sample.support is None else sample.support.forced
            for sample in samples
        ]
    )
    assert forced.any()
    assert (batch.logprobs[forced] == 0).all()
    np.testing.assert_array_equal(batch.free, ~forced)


def test_a_sample_does_not_depend_on_the_others(make_policy):
    policy = make_policy()
    sampling = Sampling(max_new_tokens=60)
    grammars = [CALL, None, TAGGED, CALL]
    together = policy.act(requests_of(policy, grammars), sampling)
    for i in range(len(grammars)):
        [alone] = policy.act(requests_of(policy, grammars)[i : i + 1], sampling)
        assert alone.text == together[i].text
        np.testing.assert_allclose(alone.logprobs, together[i].logprobs, atol=1e-5)


def test_greedy_actions_are_well_formed_and_certain(make_policy):
    policy = make_policy()
    sampling = Sampling(temperature=0, max_new_tokens=LIMIT)
    for sample in policy.act(requests_of(policy, [CALL] * 3), sampling):
        assert (sample.logprobs == 0).all()
        assert not sample.finished or re.fullmatch(CALL, sample.text)


def test_a_grammar_with_one_text_leaves_no_choice(make_policy):
    policy = make_policy()
    [sample] = policy.act(requests_of(policy, ["x"]), Sampling(max_new_tokens=9))
    assert (sample.text, sample.finished) == ("x", True)
    assert sample.logprobs.tolist() == [0, 0]
    assert policy.stats.forced_tokens == 2


def test_a_cut_action_is_not_finished(make_policy):
    policy = make_policy()
    for sample in policy.act(requests_of(policy, [CALL, TAGGED]), Sampling(max_new_tokens=4)):
        assert not sample.finished
        assert len(sample.tokens) == 4


def test_candidates_come_before_a_grammar(make_policy):
    policy = make_policy()
    [request] = requests_of(policy, [CALL])
    request.candidates = ["wait"]
    [sample] = policy.act([request], Sampling())
    assert sample.text == "wait"


def test_copies_of_a_policy_compile_for_themselves(make_policy):
    policy = make_policy()
    policy.grammars.begin(CALL)
    for copied in (copy.deepcopy(policy.grammars), pickle.loads(pickle.dumps(policy.grammars))):
        assert copied.begin(CALL).allowed.tolist() == policy.grammars.begin(CALL).allowed.tolist()


def test_only_tokens_that_can_be_completed_are_allowed(make_policy):
    spelling = make_policy().grammars.begin(CALL)
    with pytest.raises(ValueError, match="does not continue"):
        spelling.step(int((~spelling.allowed).argmax()))


# What cannot be restricted.


def test_an_expression_that_cannot_be_read_is_an_error(make_policy):
    with pytest.raises(ConfigError, match="grammar of an action"):
        make_policy().act(requests_of(make_policy(), ["("]), Sampling())


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_tokenizer_spells_exactly_or_is_refused(kind, make_model):
    from agentgym.trainers.policy.grammars import Grammars

    tokenizer = tokenizer_of(kind, special=True)
    grammars = Grammars(tokenizer, len(tokenizer), tokenizer.eos_token_id)
    try:
        spelling = grammars.begin("go (left|right)!?")
    except ConfigError as error:
        assert "spell it exactly" in str(error)
        assert kind != "bpe"
        return
    rng, tokens = np.random.default_rng(0), []
    while not spelling.closed:
        tokens.append(int(rng.choice(spelling.allowed.nonzero()[0])))
        spelling.step(tokens[-1])
    assert re.fullmatch("go (left|right)!?", tokenizer.decode(tokens[:-1]))


def test_the_extra_is_named(make_policy, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "llguidance", None)
    with pytest.raises(MissingExtraError, match=r"agentgym-suite\[grammar\]"):
        make_policy().grammars.begin(CALL)


# Supports that list the tokens that are not allowed.


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.3, 3.0))
def test_both_forms_of_a_support_mean_the_same(seed, temperature):
    rng = np.random.default_rng(seed)
    count, vocabulary = 5, 11
    masks = rng.random((count, vocabulary)) < rng.choice([0.1, 0.5, 0.9], (count, 1))
    target = rng.integers(vocabulary, size=count)
    masks[np.arange(count), target] = True
    short = [listed(mask) for mask in masks]
    long = [mask.nonzero()[0].tolist() for mask in masks]
    assert all(len(some) <= vocabulary // 2 + 1 for some in short)
    logits = torch.from_numpy(rng.normal(size=(count, vocabulary)).astype(np.float32))
    targets = torch.from_numpy(target)

    def tensors(allowed: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        support = support_of(allowed)
        return torch.from_numpy(support.offsets).long(), torch.from_numpy(support.ids).long()

    np.testing.assert_array_equal(allowed_tokens(*tensors(short), vocabulary).numpy(), masks)
    inputs = logits.clone().requires_grad_()
    plain = (inputs / temperature).masked_fill(~torch.from_numpy(masks), -torch.inf).log_softmax(-1)
    logprob = plain[torch.arange(count), targets]
    p = plain.exp()
    entropy = -(p * torch.where(p > 0, plain, 0.0)).sum(-1)
    weights = torch.from_numpy(rng.normal(size=(2, count)).astype(np.float32))
    [by_logits] = torch.autograd.grad(logprob @ weights[0] + entropy @ weights[1], inputs)
    for allowed in (short, long):
        found = score(logits, targets, tensors(allowed), temperature)
        for expected, actual in zip((logprob, entropy), found, strict=True):
            np.testing.assert_allclose(actual, expected.detach().numpy(), atol=1e-5)
        gradient = score_gradient(
            logits, targets, tensors(allowed), temperature, found[1], weights[0], weights[1]
        )
        np.testing.assert_allclose(gradient, by_logits, atol=1e-5)
    forms = support_of(short), support_of(long)
    for support in forms:
        assert support.counts(vocabulary).tolist() == masks.sum(1).tolist()
        assert support.forced.tolist() == (masks.sum(1) == 1).tolist()


@settings(deadline=None, max_examples=25)
@given(st.lists(st.sampled_from(["one", "some", "all but one", "all"]), min_size=1, max_size=6))
def test_only_a_single_allowed_token_is_forced(make_policy, as_batch, kinds):
    policy = make_policy()
    vocabulary = len(policy.tokenizer)
    lists = {
        "one": [7], "some": [7, 9, 11], "all but one": [~9], "all": [],
    }  # fmt: skip
    [request] = requests_of(policy, [None])
    [sample] = policy.act([request], Sampling(max_new_tokens=1))
    support = support_of([lists[kind] for kind in kinds])
    tokens = np.full(len(kinds), 7, np.int32)
    zeros = np.zeros(len(kinds), np.float32)
    sample = replace(sample, tokens=tokens, logprobs=zeros, support=support)
    batch = as_batch([request.prompt], [sample])
    collated = collate(batch, segment_rows(batch), policy.pad_token, 1.0)
    chosen, left = collated.undecided()
    assert left is not None
    offsets, ids = left
    free = [i for i, kind in enumerate(kinds) if kind != "one"] or [0]
    assert chosen.tolist() == free
    expected = [lists[kinds[i]] for i in free]
    assert [ids[a:b].tolist() for a, b in pairwise(offsets)] == expected
    assert batch.free.tolist() == [kind != "one" for kind in kinds]
    assert support.counts(vocabulary).tolist() == [
        {"one": 1, "some": 3, "all but one": vocabulary - 1, "all": vocabulary}[kind]
        for kind in kinds
    ]
