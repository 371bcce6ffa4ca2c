"""Packed rows: common prefixes are computed once, and padding is not."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym.trainers.policy import packing
from agentgym.trainers.policy.candidates import candidate_logprobs
from agentgym.trainers.policy.collate import Collated, collate, segment_rows
from agentgym.trainers.policy.forward import read
from agentgym.trainers.policy.packing import SHORTEST, Packing, can_pack
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Request, Sampling
from benchmarks.speed import packing as benchmark

from ...helpers.architectures import small_model

TEXTS = ["go north", "go south", "go", "take the red key, then wait", "day 17"]
SHARED = np.arange(7, 47, dtype=np.int32)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packs rows wherever this saves a token."""
    monkeypatch.setattr(packing, "LEAST_CPU", 0)
    monkeypatch.setattr(packing, "PROJECTIONS", 1000)


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


def learned(policy: Policy, collated: Collated) -> tuple[list[Any], list[Any], list[int]]:
    """Returns the scores, the gradients of a loss of all of them, and the shape of the tokens."""
    fed: list[list[int]] = []
    handle = policy.model.register_forward_pre_hook(
        lambda module, args, inputs: fed.append(list(inputs["input_ids"].shape)), with_kwargs=True
    )
    policy.zero_grad()
    scores = policy(collated)
    loss = (torch.arange(len(scores.logprobs)) * (scores.logprobs + 0.3 * scores.entropy)).sum()
    (loss + scores.hidden.square().mean() + scores.bootstrap_hidden.sum()).backward()
    handle.remove()
    (shape,) = fed
    return [x.detach() for x in scores], [p.grad for p in policy.parameters()], shape


KINDS: list[tuple[str, dict[str, Any]]] = [
    ("llama", {}),
    ("qwen2", {}),
    ("qwen3", {}),
    ("gpt2", {}),
    ("gemma", {}),
    ("phi3", {}),
]


@pytest.mark.parametrize("normalization", [None, "token"])
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize(("kind", "changes"), KINDS)
def test_scores_and_gradients_are_those_of_whole_rows(
    always, make_policy, as_batch, kind, changes, checkpointing, normalization
):
    policy = make_policy(kind, **changes)
    sampling = Sampling(0.7, max_new_tokens=6, normalization=normalization)
    collated = played(policy, as_batch, [20, 18, 20, 0, 22, 18, 4], sampling)
    for row in range(0, 6, 2):  # a group with a longer prefix
        collated.tokens[row, 40:55] = torch.arange(90, 105)
    if checkpointing:
        policy.checkpoint_layers()
    *found, (one, count) = learned(policy, collated)
    policy.packs = False
    *expected, (rows, width) = learned(policy, collated)
    assert one == 1 and count <= rows * width - 6 * 40
    torch.testing.assert_close(found[0][0], expected[0][0], atol=1e-5, rtol=1e-5)  # log-probs
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


@st.composite
def tries(draw: st.DrawFn) -> list[list[int]]:
    """Rows, each of which begins as one before it or anew."""
    rows: list[list[int]] = [[]]
    for _ in range(draw(st.integers(2, 6))):
        before = draw(st.sampled_from(rows))
        kept = draw(st.integers(0, len(before)))
        rows.append(before[:kept] + draw(st.lists(st.integers(2, 200), min_size=1, max_size=20)))
    return rows[1:]


@pytest.fixture(scope="module")
def exact(make_policy) -> Policy:
    return make_policy("llama").double()


@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=tries(), seed=st.integers(0, 9), restricts=st.booleans())
def test_any_rows(always, exact, rows, seed, restricts):
    exact.restricts = restricts
    rng, width = np.random.default_rng(seed), max(map(len, rows))
    tokens = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    at = [(i, int(j)) for i, row in enumerate(rows) for j in rng.choice(len(row), rng.integers(4))]
    at = at or [(0, 0)]
    row, column = torch.tensor(at).T
    cut = len(at) // 2
    found = []
    for exact.packs in (True, False):
        exact.zero_grad()
        outputs, (states,) = read(
            exact, row[:cut], column[:cut], [(row[cut:], column[cut:])], input_ids=tokens
        )
        (outputs.square().sum() + (states * torch.arange(states.shape[-1])).sum()).backward()
        gradients = [None if p.grad is None else p.grad.clone() for p in exact.parameters()]
        found.append([outputs, states, gradients])
    # Norms are computed in single precision.
    torch.testing.assert_close(*found, atol=1e-4, rtol=1e-5)


def test_rows_with_gaps_between_their_places(always, exact):
    tokens = torch.from_numpy(np.random.default_rng(0).integers(2, 200, (3, 3000)))
    # The first two rows, of which one is read without gaps, attend in the same block.
    row, column = torch.tensor([(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 3), (2, 2999)]).T
    found, exact.restricts = [], True
    with torch.no_grad():
        for exact.packs in (True, False):
            found.append(read(exact, row, column, input_ids=tokens)[0])
    torch.testing.assert_close(*found, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("autocasts", [False, True])
def test_layers_share_a_mask(always, make_policy, autocasts):
    policy = make_policy("qwen2")
    policy.restricts = False
    masks: set[int] = set()

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() == 4 and tensor.shape[-1] == 60:
            masks.add(tensor.data_ptr())
        return tensor

    tokens = torch.arange(3, 63).repeat(4, 1)
    tokens[:, 40:] += torch.arange(4)[:, None]
    row, column = torch.arange(4), torch.full((4,), 59)
    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=autocasts),
    ):
        read(policy, row, column, input_ids=tokens)
    assert policy.model.config.num_hidden_layers > len(masks) == 1


@settings(deadline=None)
@given(rows=tries())
def test_a_token_is_packed_once(rows):
    width = max(map(len, rows))
    tokens = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    packed = Packing.of(tokens, np.array([len(row) for row in rows]), 1 << 20)
    whole = tokens.flatten().numpy()[packed.source]
    nodes: dict[int, set[tuple[int, ...]]] = {}
    for row, place, own in zip(rows, packed.place, packed.own, strict=True):
        assert whole[place[: len(row)]].tolist() == row
        for column in range(len(row)):
            nodes.setdefault(int(place[column]), set()).add(tuple(row[: column + 1]))
        assert len(own) == len(row) or len(row) - len(own) >= SHORTEST
    assert len(nodes) == len(whole) == sum(map(len, packed.own))
    assert all(len(paths) == 1 for paths in nodes.values())
    prefixes = {tuple(row[:n]) for row in rows for n in range(1, len(row) + 1)}
    short = sum(len(row) for row in rows) - len(whole) == 0
    assert len(whole) >= len(prefixes) and (short or len(whole) < sum(map(len, rows)))


def test_candidates_of_prompts_with_a_common_prefix(always, make_policy):
    policy = make_policy()
    prompts = [np.append(SHARED, i).astype(np.int32) for i in (3, 4)] + [SHARED]
    found = candidate_logprobs(policy, prompts, [TEXTS, TEXTS[:2], TEXTS[2:]])
    policy.packs = False
    expected = candidate_logprobs(policy, prompts, [TEXTS, TEXTS[:2], TEXTS[2:]])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    same = [SHARED] * 3, [TEXTS] * 3
    expected = candidate_logprobs(policy, *same)
    policy.packs = True
    torch.testing.assert_close(candidate_logprobs(policy, *same), expected, atol=1e-5, rtol=1e-5)


def test_equal_rows_are_one(always, make_policy, as_batch):
    policy = make_policy()
    collated = played(policy, as_batch, [4], Sampling(max_new_tokens=6))
    expected, _ = policy.hidden(collated)
    tokens, lengths = collated.tokens[:1].repeat(3, 1), np.full(3, collated.tokens.shape[1])
    collated.tokens, collated.row = tokens, collated.row + 2
    assert Packing.of(tokens, lengths, 32).source.tolist() == list(range(tokens.shape[1]))
    torch.testing.assert_close(policy.hidden(collated)[0], expected, atol=1e-5, rtol=1e-5)


def test_rows_are_packed_only_if_this_is_faster():
    def saves(rows: torch.Tensor, lengths: list[int] | None = None) -> bool:
        ends = lengths or [rows.shape[1]] * len(rows)
        return Packing.of(rows, np.array(ends), 32).saves

    rows = torch.arange(3, 103).repeat(8, 1)
    rows[:, 80:] += torch.arange(8)[:, None]
    assert saves(rows)
    assert not saves(rows[:2])  # too little
    assert not saves(rows[:, 80:])
    assert saves(rows[:, 80:].repeat(1, 4), [80] + [20] * 7)  # padding
    # The masked attention of many other tokens costs more than the prefix.
    others = torch.arange(8 * 4000).reshape(8, 4000)
    assert not saves(torch.cat([rows[:, :80], others], 1))
    assert not saves(rows, [0] * 8)  # nothing is read


def test_models_with_other_attention_are_not_packed(make_policy):
    for kind, changes in [
        ("mistral", {}),  # a sliding window
        ("mamba", {}),
        ("qwen2", {"attn_implementation": "eager"}),
        ("gemma2", {"layer_types": ["full_attention"] * 2}),  # capped scores
    ]:
        assert not make_policy(kind, **changes).packs, kind
    policy = make_policy("llama")
    assert policy.packs
    layer = policy.model.get_decoder().layers[-1]
    layer.register_forward_hook(lambda module, args, out: out + out.roll(1, 1))
    assert not can_pack(policy.model, policy.end_token)


def test_models_with_masks_of_their_own_are_not_packed(make_policy):
    policy = make_policy("llama")

    def mask(module: Any, args: Any, inputs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        count = inputs["hidden_states"].shape[1]
        return args, {**inputs, "attention_mask": torch.ones(1, 1, count, count).tril().bool()}

    attention = policy.model.get_decoder().layers[-1].self_attn
    attention.register_forward_pre_hook(mask, with_kwargs=True)
    assert not can_pack(policy.model, policy.end_token)


def test_the_benchmark_compares_packed_and_whole_rows(monkeypatch, tmp_path):
    monkeypatch.setattr(packing, "LEAST_CPU", 0)
    settings = benchmark.Settings(
        layers=1, hidden=64, dtypes=("float32",), scale=0.25, repeats=1, out=tmp_path / "out.json"
    )
    benchmark.main(settings)
    rows = json.loads(settings.out.read_text())["rows"]
    assert [row["case"] for row in rows] == list(benchmark.CASES)
    assert all(row["difference"] < 1e-4 and row["faster"] > 0 for row in rows)
    *some, alike = [row["tokens"] for row in rows]
    assert all(tokens["packed"] < tokens["whole"] for tokens in some)
    assert alike["packed"] == alike["whole"] - 32  # the last token of a row is not read


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("kind", ["deepseek_v3", "qwen3_moe", "jetmoe"])
def test_other_kinds_of_layers(always, tokenizer, kind, checkpointing):
    """Keys and values of latent states, and layers with experts."""
    policy = Policy(small_model(kind), tokenizer)
    assert policy.packs
    policy.gradient_checkpointing = checkpointing
    tokens = torch.from_numpy(np.random.default_rng(0).integers(2, 200, (3, 40)))
    tokens[1, :30] = tokens[0, :30]
    row, column = torch.tensor([0, 0, 1, 2]), torch.tensor([39, 20, 35, 9])
    found = []
    for policy.packs in (True, False):
        policy.zero_grad()
        outputs, _ = read(policy, row, column, input_ids=tokens)
        (outputs * torch.linspace(-1, 1, outputs.numel()).view_as(outputs)).sum().backward()
        found.append([outputs, [p.grad for p in policy.parameters()]])
    torch.testing.assert_close(*found, atol=1e-4, rtol=1e-3)
