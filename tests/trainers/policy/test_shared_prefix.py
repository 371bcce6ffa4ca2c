"""The common prefix of rows, computed once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from agentgym.trainers.policy import shared_prefix
from agentgym.trainers.policy.candidates import candidate_logprobs
from agentgym.trainers.policy.collate import Collated, collate, segment_rows
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Request, Sampling
from agentgym.trainers.policy.shared_prefix import shared_parts

TEXTS = ["go north", "go south", "go", "take the red key, then wait", "day 17"]
SHARED = np.arange(7, 47, dtype=np.int32)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shares prefixes of any length."""
    monkeypatch.setattr(shared_prefix, "LEAST", 0)
    monkeypatch.setattr(shared_prefix, "PROJECTIONS", 1000)


def played(policy: Policy, as_batch: Any, tails: list[int], sampling: Sampling) -> Collated:
    """Lets a policy act after prompts that begin with `SHARED`."""
    prompts = [np.concatenate([SHARED, np.arange(60 + i, 60 + i + n)]) for i, n in enumerate(tails)]
    candidates = TEXTS if sampling.normalization else None
    rngs = [np.random.default_rng(i) for i in range(len(prompts))]
    requests = [
        Request(p.astype(np.int32), r, candidates) for p, r in zip(prompts, rngs, strict=True)
    ]
    samples = policy.act(requests, sampling)
    batch = as_batch(prompts, samples)
    for trajectory, sample in zip(batch.trajectories, samples, strict=True):
        turn = trajectory.turns[0]
        turn.choice, turn.admissible = sample.choice, tuple(TEXTS)
    rows = segment_rows(batch)
    return collate(batch, rows, policy.pad_token, sampling.temperature, sampling.normalization)


def stops(policy: Policy, tokens: Tensor) -> list[int]:
    """Returns where the parts of rows that are computed once stop."""
    return [part.stop for part in shared_parts(policy, tokens)]


def learned(policy: Policy, collated: Collated) -> tuple[list[Tensor], list[Tensor | None], int]:
    """Returns the scores, the gradients of a loss of all of them, and the number of tokens fed."""
    fed: list[int] = []
    handle = policy.model.register_forward_pre_hook(
        lambda module, args, inputs: fed.append(inputs["input_ids"].numel()), with_kwargs=True
    )
    policy.zero_grad()
    scores = policy(collated)
    loss = (torch.arange(len(scores.logprobs)) * (scores.logprobs + 0.3 * scores.entropy)).sum()
    (loss + scores.hidden.square().mean() + scores.bootstrap_hidden.sum()).backward()
    handle.remove()
    return [x.detach() for x in scores], [p.grad for p in policy.parameters()], sum(fed)


@pytest.mark.parametrize("normalization", [None, "token"])
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize(
    ("kind", "changes"),
    [("llama", {}), ("qwen2", {}), ("qwen2", {"attn_implementation": "eager"}), ("gpt2", {})],
)
def test_scores_and_gradients_are_those_of_whole_rows(
    always, make_policy, as_batch, kind, changes, checkpointing, normalization
):
    policy = make_policy(kind, **changes)
    sampling = Sampling(0.7, max_new_tokens=6, normalization=normalization)
    collated = played(policy, as_batch, [5, 0, 9], sampling)
    if checkpointing:
        policy.checkpoint_layers()
    *found, fed = learned(policy, collated)
    policy.shares_prefixes = False
    *expected, whole = learned(policy, collated)
    assert fed <= whole - len(SHARED) * (len(collated.tokens) - 1)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


GROUPS = [
    ("qwen2", {}, 40),
    ("qwen2", {}, 0),
    ("gpt2", {}, 40),
    ("qwen3", {}, 40),
    ("gemma", {}, 40),
    ("gemma2", {"layer_types": ["full_attention"] * 2}, 40),  # attention scores are capped
    ("phi3", {}, 40),
]


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize(("kind", "changes", "common"), GROUPS)
def test_groups_of_rows_share_prefixes(
    always, make_policy, as_batch, kind, changes, common, checkpointing
):
    policy = make_policy(kind, **changes)
    collated = played(policy, as_batch, [20, 18, 20, 19, 22, 18, 4], Sampling(max_new_tokens=6))
    for row in range(len(collated.tokens)):
        begin = 60 + row % 3
        collated.tokens[row, common:48] = torch.arange(begin, begin + 48 - common)
    if checkpointing:
        policy.checkpoint_layers()
    parts = shared_parts(policy, collated.tokens)
    assert (len(parts), parts[0].stop) == ((2, 40) if common else (1, parts[-1].stop))
    assert 3 <= len(parts[-1].leaders) < len(collated.tokens) and parts[-1].stop >= 48
    *found, _ = learned(policy, collated)
    policy.shares_prefixes = False
    *expected, _ = learned(policy, collated)
    torch.testing.assert_close(found[0][0], expected[0][0], atol=1e-5, rtol=1e-5)  # log-probs
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_equal_rows_share_all_but_a_token(always, make_policy, as_batch):
    policy = make_policy()
    collated = played(policy, as_batch, [4], Sampling(max_new_tokens=6))
    expected, _ = policy.hidden(collated)
    collated.tokens, collated.row = collated.tokens[:1].repeat(3, 1), collated.row + 2
    assert stops(policy, collated.tokens) == [collated.tokens.shape[1] - 1]
    torch.testing.assert_close(policy.hidden(collated)[0], expected, atol=1e-5, rtol=1e-5)


def test_candidates_of_prompts_with_a_common_prefix(always, make_policy):
    policy = make_policy()
    prompts = [np.append(SHARED, i).astype(np.int32) for i in (3, 4)] + [SHARED]
    found = candidate_logprobs(policy, prompts, [TEXTS, TEXTS[:2], TEXTS[2:]])
    policy.shares_prefixes = False
    expected = candidate_logprobs(policy, prompts, [TEXTS, TEXTS[:2], TEXTS[2:]])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    same = [SHARED] * 3, [TEXTS] * 3
    expected = candidate_logprobs(policy, *same)
    policy.shares_prefixes = True
    torch.testing.assert_close(candidate_logprobs(policy, *same), expected, atol=1e-5, rtol=1e-5)


def test_a_prefix_is_shared_only_if_this_is_faster(make_policy):
    policy = make_policy()
    rows = torch.arange(3, 103).repeat(8, 1)
    rows[:, 80:] += torch.arange(8)[:, None]
    assert stops(policy, rows) == [80]
    assert stops(policy, rows[:2]) == []  # saves too little
    assert stops(policy, rows[:1]) == []
    assert stops(policy, rows[:, 80:]) == []
    # The masked attention of many other tokens costs more than the prefix.
    others = torch.arange(8 * 4000).reshape(8, 4000)
    assert stops(policy, torch.cat([rows[:, :80], others], 1)) == []
    policy.blocks = False  # such as with sliding windows
    assert stops(policy, rows) == []
