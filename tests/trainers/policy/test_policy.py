from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, BertConfig, BertModel

from agentgym.errors import ConfigError
from agentgym.trainers.policy.adapters import add_adapter
from agentgym.trainers.policy.candidates import candidate_logprobs
from agentgym.trainers.policy.collate import collate, segment_rows
from agentgym.trainers.policy.lora import LoraSettings
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Request, Sampling

KINDS = ["llama", "gpt2", "qwen2", "gemma2", "mistral", "mamba"]
CANDIDATES = ["go north", "go south", "go", "take the red key, then wait", "day 17"]
CHOICES = [CANDIDATES, None, ["wait"], CANDIDATES[:3], None]


def acted(policy, as_batch, sampling=None, choices=CHOICES, seed=0):
    """Lets a policy act; returns what it did as a batch, collated."""
    sampling = sampling or Sampling(max_new_tokens=6)
    rng = np.random.default_rng(seed)
    prompts = [rng.integers(2, 250, size=n).astype(np.int32) for n in (30, 3, 12, 21, 17)]
    requests = [
        Request(prompt, np.random.default_rng([seed, i]), choices[i])
        for i, prompt in enumerate(prompts)
    ]
    batch = as_batch(prompts, policy.act(requests, sampling))
    return batch, collate(batch, segment_rows(batch), policy.pad_token, sampling.temperature)


def with_adapter(model, tokenizer, **settings):
    policy = Policy(add_adapter(model, LoraSettings(rank=4, **settings)), tokenizer)
    generator = torch.Generator().manual_seed(5)
    for name, parameter in policy.named_parameters():
        if "lora_B" in name:
            parameter.data.normal_(0, 0.3, generator=generator)
    return policy


# Scores.


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_the_plain_model(make_policy, as_batch, kind):
    policy = make_policy(kind)
    batch, collated = acted(policy, as_batch, Sampling(temperature=0.7, max_new_tokens=6))
    scores = policy(collated)
    expected_logprobs, expected_entropy = [], []
    for trajectory in batch.trajectories:
        turn, tokens = trajectory.turns[0], trajectory.segments[0].tokens
        logits = policy.model(torch.from_numpy(tokens).long()[None]).logits[0].float() / 0.7
        for j, position in enumerate(range(turn.start, turn.stop)):
            allowed = torch.arange(logits.shape[1])
            if turn.support is not None:
                offsets = turn.support.offsets
                allowed = torch.from_numpy(turn.support.ids[offsets[j] : offsets[j + 1]]).long()
            at = (allowed == int(tokens[position])).nonzero()[0, 0]
            over = torch.distributions.Categorical(logits=logits[position - 1, allowed])
            expected_logprobs.append(over.log_prob(at))
            expected_entropy.append(over.entropy())
    torch.testing.assert_close(scores.logprobs, torch.stack(expected_logprobs), atol=2e-5, rtol=0)
    torch.testing.assert_close(scores.entropy, torch.stack(expected_entropy), atol=2e-5, rtol=0)


@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma2"])
def test_gradients_are_those_of_the_plain_model(make_policy, as_batch, kind):
    policy = make_policy(kind)
    _, collated = acted(policy, as_batch)
    scores = policy(collated)
    weights = torch.randn(len(scores.logprobs), generator=torch.Generator().manual_seed(0))
    (weights * (scores.logprobs + 0.3 * scores.entropy)).sum().backward()
    got = {name: p.grad.clone() for name, p in policy.named_parameters()}
    policy.zero_grad()
    logits = policy.model(collated.tokens, attention_mask=collated.attention_mask).logits
    at = logits[collated.row, collated.column]
    offsets, ids = collated.support_offsets, collated.support_ids
    assert offsets is not None and ids is not None
    total = torch.zeros(())
    for i in range(len(weights)):
        allowed = ids[offsets[i] : offsets[i + 1]]
        allowed = allowed if len(allowed) else torch.arange(logits.shape[-1])
        over = torch.distributions.Categorical(logits=at[i, allowed])
        place = (allowed == collated.target[i]).nonzero()[0, 0]
        total = total + weights[i] * (over.log_prob(place) + 0.3 * over.entropy())
    total.backward()
    for name, parameter in policy.named_parameters():
        torch.testing.assert_close(got[name], parameter.grad, atol=2e-5, rtol=1e-4)


def test_hidden_states_are_what_the_head_reads(make_policy, as_batch):
    policy = make_policy("qwen2")
    _, collated = acted(policy, as_batch)
    scores = policy(collated)
    tokens, bootstrap = policy.hidden(collated)
    torch.testing.assert_close(tokens, scores.hidden)
    torch.testing.assert_close(bootstrap, scores.bootstrap_hidden)
    assert tokens.shape == (len(collated.target), policy.hidden_size)
    logits = policy.model(collated.tokens, attention_mask=collated.attention_mask).logits
    head = policy.model.get_output_embeddings()
    torch.testing.assert_close(head(tokens), logits[collated.row, collated.column])
    # A bootstrap segment is the prompt alone: its end is where the first action token is predicted.
    first = [int((collated.index == i).nonzero()) for i in np.unique(collated.index)[:1]]
    torch.testing.assert_close(bootstrap[0], tokens[first[0]], atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_do_not_depend_on_padding_or_company(make_policy, as_batch, kind):
    policy = make_policy(kind)
    batch, together = acted(policy, as_batch)
    whole = policy(together)
    for row in segment_rows(batch):
        alone = collate(batch, [row], policy.pad_token)
        scores = policy(alone)
        places = torch.isin(together.index, alone.index) if len(alone.index) else slice(0, 0)
        torch.testing.assert_close(whole.logprobs[places], scores.logprobs, atol=1e-5, rtol=0)
        torch.testing.assert_close(whole.hidden[places], scores.hidden, atol=2e-5, rtol=0)
        of = torch.isin(together.bootstrap_trajectory, alone.bootstrap_trajectory)
        torch.testing.assert_close(
            whole.bootstrap_hidden[of], scores.bootstrap_hidden, atol=2e-5, rtol=0
        )


def test_only_action_positions_reach_the_head(make_policy, as_batch):
    policy = make_policy()
    read: list[int] = []
    policy.model.get_output_embeddings().register_forward_hook(
        lambda module, args, output: read.append(output.shape[:-1].numel())
    )
    _, collated = acted(policy, as_batch)
    assert collated.support_offsets is not None
    read.clear()
    policy(collated)
    assert sum(read) == int((collated.support_offsets.diff() != 1).sum())
    read.clear()
    policy.hidden(collated)
    assert sum(read) == 0


def test_actions_that_were_all_forced(make_policy, as_batch):
    policy = make_policy()
    _, collated = acted(policy, as_batch, choices=[["wait"]] * 5)
    scores = policy(collated)
    assert not scores.logprobs.any()
    assert not scores.entropy.any()
    scores.logprobs.sum().backward()
    assert all(p.grad is not None and not p.grad.any() for p in policy.parameters())


def test_rows_without_actions(make_policy, as_batch):
    policy = make_policy()
    batch, _ = acted(policy, as_batch)
    scores = policy(collate(batch, [(1, 1), (0, 1)], policy.pad_token))
    assert scores.logprobs.shape == scores.entropy.shape == (0,)
    assert scores.hidden.shape == (0, policy.hidden_size)
    assert scores.bootstrap_hidden.shape == (2, policy.hidden_size)


# Types, adapters, references.


@pytest.mark.parametrize("kind", ["llama", "gpt2", "qwen2"])
def test_first_ratio_is_one_with_an_adapter(make_model, tokenizer, as_batch, kind):
    policy = with_adapter(make_model(kind), tokenizer)
    for sampling in (Sampling(max_new_tokens=6), Sampling(0.7, 9, 0.9, 6)):
        batch, collated = acted(policy, as_batch, sampling)
        error = policy(collated).logprobs - torch.from_numpy(batch.logprobs)[collated.index]
        assert error.abs().max() < 1e-5


@pytest.mark.parametrize("kind", ["llama", "gpt2", "qwen2"])
def test_first_ratio_in_bfloat16(make_model, tokenizer, as_batch, kind):
    """The bound: bfloat16 keeps 8 bits, logits are a few units, so a few hundredths."""
    policy = Policy(make_model(kind).to(torch.bfloat16), tokenizer)
    for seed in range(4):
        batch, collated = acted(policy, as_batch, Sampling(max_new_tokens=8), seed=seed)
        scores = policy(collated)
        assert scores.logprobs.dtype == torch.float32
        error = (scores.logprobs - torch.from_numpy(batch.logprobs)[collated.index]).abs()
        assert error.max() < 0.1
        assert error.mean() < 0.02


@pytest.mark.parametrize("kind", ["llama", "gpt2", "qwen2"])
def test_the_reference_of_an_adapter_is_its_copy(make_model, tokenizer, as_batch, kind):
    policy = with_adapter(make_model(kind), tokenizer)
    assert policy.has_adapter
    _, collated = acted(policy, as_batch)
    with pytest.raises(ConfigError, match="freeze_reference"):
        policy.reference_logprobs(collated)
    names = policy.state_dict().keys()
    trained = {name for name, p in policy.named_parameters() if p.requires_grad}
    before, state = policy(collated).logprobs.detach(), torch.get_rng_state()
    policy.freeze_reference()
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(policy.reference_logprobs(collated), before)
    assert {name for name, p in policy.named_parameters() if p.requires_grad} == trained
    assert torch.equal(policy(collated).logprobs, before)

    optimiser = torch.optim.SGD([p for p in policy.parameters() if p.requires_grad], lr=0.5)
    version = policy.weights_version()
    policy(collated).logprobs.sum().backward()
    optimiser.step()
    assert policy.weights_version() != version
    after = policy(collated).logprobs
    assert not torch.allclose(after, before, atol=1e-3)
    for copied in (policy.clone(), policy.frozen_copy()):  # copies have no reference
        assert copied.state_dict().keys() == names
        assert torch.equal(copied(collated).logprobs, after)
        with pytest.raises(ConfigError, match="freeze_reference"):
            copied.reference_logprobs(collated)
    reference = policy.reference_logprobs(collated)
    assert torch.equal(reference, before)
    assert not reference.requires_grad
    assert torch.equal(policy(collated).logprobs, after)
    assert {name for name, p in policy.named_parameters() if p.requires_grad} == trained
    assert {n for n, p in policy.clone().named_parameters() if p.requires_grad} == trained
    assert not any(p.requires_grad for p in policy.frozen_copy().parameters())
    policy.freeze_reference()
    assert torch.equal(policy.reference_logprobs(collated), after)


def test_copies_hold_an_adapter_and_share_its_base(make_model, tokenizer):
    policy = with_adapter(make_model(), tokenizer)
    trained = {name for name, p in policy.named_parameters() if p.requires_grad}

    def storages(copied: Policy) -> dict[str, int]:
        return {name: p.untyped_storage().data_ptr() for name, p in copied.named_parameters()}

    own = storages(policy)
    for copied in (policy.clone(), policy.frozen_copy()):
        new = {name for name, place in storages(copied).items() if place != own[name]}
        assert new == trained
    policy.freeze_reference()
    shared = storages(policy).values()
    assert len(set(shared)) == len(set(own.values())) + len(trained)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_reference_of_an_adapter_in_low_precision(make_model, tokenizer, as_batch, dtype):
    policy = with_adapter(make_model().to(dtype), tokenizer)
    _, collated = acted(policy, as_batch)
    policy.freeze_reference()
    optimiser = torch.optim.SGD([p for p in policy.parameters() if p.requires_grad], lr=0.5)
    with torch.autocast("cpu", torch.bfloat16):
        before = policy(collated).logprobs
        assert torch.equal(policy.reference_logprobs(collated), before)
    before.sum().backward()
    optimiser.step()
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        # Autocast keeps the weights of the policy that it has cast.
        assert not torch.allclose(policy(collated).logprobs, before, atol=1e-2)
        assert torch.equal(policy.reference_logprobs(collated), before)


def test_the_reference_of_an_adapter_is_saved_apart_from_it(make_policy, as_batch, tmp_path):
    make_policy("llama").save(tmp_path / "base")
    policy = Policy.load(tmp_path / "base", lora=LoraSettings(rank=4))
    _, collated = acted(policy, as_batch)
    policy.freeze_reference()
    policy.save(tmp_path / "reference")
    before = policy(collated).logprobs.detach()
    optimiser = torch.optim.SGD([p for p in policy.parameters() if p.requires_grad], lr=1.0)
    policy(collated).logprobs.sum().backward()
    optimiser.step()
    policy.save(tmp_path / "adapter")
    files = {file.name for file in (tmp_path / "adapter").iterdir()}
    assert files == {file.name for file in (tmp_path / "reference").iterdir()}
    loaded = Policy.load(tmp_path / "adapter")
    assert len(loaded.state_dict()) < len(policy.state_dict())
    loaded.load_reference(tmp_path / "reference")
    assert torch.equal(loaded.reference_logprobs(collated), before)
    assert torch.equal(loaded(collated).logprobs, policy(collated).logprobs)
    names = {name for name, p in policy.named_parameters() if p.requires_grad}
    assert {name for name, p in loaded.named_parameters() if p.requires_grad} == names


@pytest.mark.parametrize("adapter", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_reference_follows_the_policy_slowly(make_model, tokenizer, as_batch, adapter, dtype):
    model = make_model().to(dtype)
    policy = with_adapter(model, tokenizer) if adapter else Policy(model, tokenizer)
    policy.freeze_reference(0.25)
    start = {name: w.float().clone() for name, w in policy.own_weights().items()}
    for weight in policy.parameters():
        weight.data += 0.5 * weight.requires_grad
    for _ in range(2):
        policy.freeze_reference(0.25)
    moved = policy.own_weights()
    expected = {name: start[name].lerp(moved[name].float(), 1 - 0.75**2) for name in start}
    torch.testing.assert_close(policy.reference_weights(), expected)
    _, collated = acted(policy, as_batch)
    found = policy.reference_logprobs(collated)
    assert not torch.equal(found, policy(collated).logprobs)

    again = policy.clone()
    again.load_reference_weights(dict(policy.reference_weights()))
    assert torch.equal(again.reference_logprobs(collated), found)
    for each in (policy, again):
        each.freeze_reference(0.25)
    for name, weight in policy.reference_weights().items():
        assert torch.equal(weight, again.reference_weights()[name])
    policy.freeze_reference()
    assert torch.equal(policy.reference_logprobs(collated), policy(collated).logprobs)


@pytest.mark.parametrize("adapter", [False, True])
def test_a_reference_of_the_same_precision_is_kept_once(make_model, tokenizer, adapter):
    """As after an exchange of references between roles."""

    def made() -> Policy:
        model = make_model()
        return with_adapter(model, tokenizer) if adapter else Policy(model, tokenizer)

    policy, other = made(), made()
    other.freeze_reference()
    given = copy.deepcopy(other.reference_weights())
    policy.load_reference_weights(given)
    kept = policy.reference_weights()
    assert kept.keys() == given.keys()
    for name, weight in kept.items():
        assert torch.equal(weight, given[name])
        assert weight.data_ptr() != given[name].data_ptr()


def test_a_reference_in_low_precision_moves_by_small_steps(make_model, tokenizer):
    """Each step alone would be rounded away."""
    policy = Policy(make_model().to(torch.bfloat16), tokenizer)
    policy.freeze_reference(0.01)
    for weight in policy.parameters():
        weight.data *= 1 + 2**-6
    for _ in range(500):
        policy.freeze_reference(0.01)
    found = policy.reference_weights()
    for name, weight in policy.own_weights().items():
        torch.testing.assert_close(found[name], weight.float(), rtol=1e-3, atol=0)


def test_the_reference_of_an_adapter_with_dropout_drops_nothing(
    make_model, tokenizer, as_batch, tmp_path
):
    import peft

    settings = peft.LoraConfig(
        r=4, lora_dropout=0.5, task_type="CAUSAL_LM", init_lora_weights=False
    )
    policy = Policy(peft.get_peft_model(make_model(), settings), tokenizer)
    _, collated = acted(policy, as_batch)
    expected = policy(collated).logprobs.detach()
    policy.freeze_reference()
    torch.testing.assert_close(policy.reference_logprobs(collated), expected)
    policy.save(tmp_path)
    policy.model.delete_adapter("reference")
    policy.load_reference(tmp_path)
    torch.testing.assert_close(policy.reference_logprobs(collated), expected)


def test_an_adapter_with_biases_has_no_reference(make_model, tokenizer):
    import peft

    settings = peft.LoraConfig(r=4, bias="all", task_type="CAUSAL_LM")
    policy = Policy(peft.get_peft_model(make_model("qwen2"), settings), tokenizer)
    with pytest.raises(ConfigError, match=r"needs bias = 'none', got 'all'"):
        policy.freeze_reference()


def test_only_the_adapter_is_trained(make_model, tokenizer, as_batch):
    policy = with_adapter(make_model("qwen2"), tokenizer)
    _, collated = acted(policy, as_batch)
    policy(collated).logprobs.sum().backward()
    for name, parameter in policy.named_parameters():
        assert parameter.requires_grad == ("lora_" in name)
        assert (parameter.grad is not None) == ("lora_" in name)


def test_a_frozen_reference_stays_and_is_no_part_of_the_policy(make_policy, as_batch):
    policy = make_policy()
    _, collated = acted(policy, as_batch)
    with pytest.raises(ConfigError, match="freeze_reference"):
        policy.reference_logprobs(collated)
    names = {name for name, _ in policy.named_parameters()}
    before = policy(collated).logprobs.detach()
    policy.freeze_reference()
    optimiser = torch.optim.SGD(policy.parameters(), lr=0.1)
    policy(collated).logprobs.sum().backward()
    optimiser.step()
    assert not torch.allclose(policy(collated).logprobs, before, atol=1e-3)
    torch.testing.assert_close(policy.reference_logprobs(collated), before)
    assert {name for name, _ in policy.named_parameters()} == names
    assert len(policy.state_dict()) == len(policy.model.state_dict())


def test_training_mode_changes_nothing(make_policy, as_batch):
    """GPT-2 has dropout by default."""
    policy = make_policy("gpt2")
    _, collated = acted(policy, as_batch)
    expected = policy.eval()(collated).logprobs
    torch.testing.assert_close(policy.train()(collated).logprobs, expected)


# Listed actions.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("normalization", ["sum", "token", "word"])
def test_candidate_scores_follow_their_definition(make_policy, kind, normalization):
    policy = make_policy(kind)
    prompts = [np.arange(5, n, dtype=np.int32) for n in (9, 40, 20)]
    lists = [CANDIDATES, ["north", "north", "日本 の"], ["only"]]
    got = policy.score_candidates_batch(prompts, lists, normalization)
    for prompt, texts, result in zip(prompts, lists, got, strict=True):
        scores = []
        for text in texts:
            action = [*policy.encode(text), policy.end_token]
            sequence = torch.tensor([[*prompt.tolist(), *action]])
            with torch.no_grad():
                logprobs = policy.model(sequence).logits[0].log_softmax(-1)
            total = sum(logprobs[len(prompt) - 1 + j, token] for j, token in enumerate(action))
            words = max(1, len(text.split()))
            scores.append(total / {"sum": 1, "token": len(action), "word": words}[normalization])
        expected = torch.stack(scores).log_softmax(-1).numpy()
        np.testing.assert_allclose(result, expected, atol=2e-5)
        assert result.dtype == np.float32
    alone = policy.score_candidates(prompts[1], lists[1], normalization)
    np.testing.assert_allclose(alone, got[1], atol=2e-5)


@pytest.mark.parametrize("kind", ["llama", "mistral"])
def test_candidate_scores_have_gradients(make_policy, kind):
    policy = make_policy(kind)
    prompt = np.arange(5, 25, dtype=np.int32)
    candidate_logprobs(policy, [prompt], [CANDIDATES])[0][2].backward()
    got = [parameter.grad.clone() for parameter in policy.parameters()]
    policy.zero_grad()
    totals = []
    for text in CANDIDATES:
        action = [*policy.encode(text), policy.end_token]
        logits = policy.model(torch.tensor([[*prompt.tolist(), *action]])).logits[0]
        at = torch.arange(len(prompt) - 1, len(prompt) - 1 + len(action))
        totals.append(logits.log_softmax(-1)[at, torch.tensor(action)].sum())
    torch.stack(totals).log_softmax(-1)[2].backward()
    expected = [parameter.grad for parameter in policy.parameters()]
    torch.testing.assert_close(got, expected, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ["llama", "mamba"])
def test_equal_prompts_are_scored_once_and_as_if_alone(make_policy, kind):
    policy = make_policy(kind)
    rng = np.random.default_rng(0)
    prompts = [rng.integers(2, 250, size=n).astype(np.int32) for n in (9, 4)]
    asked = [(0, CANDIDATES), (1, CANDIDATES), (0, CANDIDATES), (0, CANDIDATES[:2])] * 3
    passes: list[int] = []
    hook = policy.model.register_forward_hook(lambda *_: passes.append(1))
    scores = policy.score_candidates_batch([prompts[i] for i, _ in asked], [c for _, c in asked])
    found, alone = len(passes), [policy.score_candidates(prompts[i], c) for i, c in asked[:4]]
    hook.remove()
    assert found <= (1 if policy.blocks else 3)
    for score, expected in zip(scores, alone * 3, strict=True):
        np.testing.assert_allclose(score, expected, atol=1e-5)
    scores[0][:] = 0.0  # each result is its own
    np.testing.assert_allclose(scores[2], alone[0], atol=1e-5)


def test_passes_over_trees_of_all_sizes_are_bounded(make_policy):
    """The longest prompt may have the fewest candidates."""
    policy = make_policy("llama")
    rng = np.random.default_rng(0)
    prompts = [rng.integers(2, 250, size=n).astype(np.int32) for n in (9, *[4] * 60)]
    lists = [
        CANDIDATES[:1],
        *([*CANDIDATES, *(f"go to {i}" for i in range(40))] for _ in range(60)),
    ]
    passes: list[tuple[int, int]] = []
    policy.model.register_forward_pre_hook(
        lambda module, args, inputs: passes.append(tuple(inputs["input_ids"].shape)),
        with_kwargs=True,
    )
    scores = policy.score_candidates_batch(prompts, lists)
    assert len(passes) > 1
    assert all(rows <= policy.rows_at_once(width=width) for rows, width in passes)
    for i in (0, 1, 60):
        expected = policy.score_candidates(prompts[i], lists[i])
        np.testing.assert_allclose(scores[i], expected, atol=1e-5)


def test_small_models_read_more_rows_at_once_on_a_cpu(make_policy):
    policy = make_policy("llama")
    assert policy.rows_at_once() == 8 < policy.rows_at_once(width=16)
    assert policy.rows_at_once(width=16) > policy.rows_at_once(width=64)
    policy.hidden_size = 4096
    assert policy.rows_at_once(width=64) == 8


@pytest.mark.parametrize(
    ("prompt", "texts", "normalization", "message"),
    [
        ([5], [], "sum", "at least one candidate"),
        ([], ["a"], "sum", "at least one token"),
        ([5], ["a"], "letter", "sum, token or word"),
        ([5] * 511, ["north"], "sum", "Shorten"),
    ],
)
def test_candidates_that_cannot_be_scored(make_policy, prompt, texts, normalization, message):
    with pytest.raises(ValueError, match=message):
        make_policy().score_candidates(np.array(prompt, np.int32), texts, normalization)


# Text.


@pytest.mark.parametrize(
    "text", ["", "plain", "naïve 日本 🎉\n\t\0", "a <|end|> b <|pad|>", "3141"]
)
def test_any_text_comes_back(make_policy, text):
    policy = make_policy()
    tokens = policy.encode(text)
    assert policy.decode(tokens) == text
    assert policy.end_token not in tokens
    tokens.append(1)
    assert policy.encode(text) == tokens[:-1]


def test_lone_surrogates_are_no_error(make_policy):
    assert make_policy().decode(make_policy().encode("a\ud800b")) == "a?b"


# Files.


def test_save_and_load(make_policy, as_batch, tmp_path):
    policy = make_policy("gpt2")
    _, collated = acted(policy, as_batch)
    policy.save(tmp_path)
    assert AutoModelForCausalLM.from_pretrained(tmp_path) is not None
    assert AutoTokenizer.from_pretrained(tmp_path).eos_token_id == policy.end_token
    loaded = Policy.load(tmp_path)
    # Of a mapped file, addresses depend on its header, and the last bits of products on them.
    assert not any(tensor.data_ptr() % 64 for tensor in loaded.parameters())
    torch.testing.assert_close(loaded(collated), policy(collated))
    assert loaded.encode("go <|end|> north 12") == policy.encode("go <|end|> north 12")
    assert loaded.model.config.resid_pdrop == 0.0
    half = Policy.load(tmp_path, dtype="bfloat16")
    assert next(half.parameters()).dtype == torch.bfloat16


def test_an_adapter_is_saved_and_loaded(make_policy, as_batch, tmp_path):
    make_policy("llama").save(tmp_path / "base")
    policy = Policy.load(tmp_path / "base", lora=LoraSettings(rank=4, targets=("q_proj", "o_proj")))
    _, collated = acted(policy, as_batch)
    optimiser = torch.optim.SGD([p for p in policy.parameters() if p.requires_grad], lr=1.0)
    for _ in range(2):
        policy(collated).logprobs.sum().backward()
        optimiser.step()
    policy.save(tmp_path / "adapter")
    loaded = Policy.load(tmp_path / "adapter")
    assert loaded.has_adapter
    torch.testing.assert_close(loaded(collated).logprobs, policy(collated).logprobs)
    trained = {name for name, p in loaded.named_parameters() if p.requires_grad}
    assert trained == {name for name, p in policy.named_parameters() if p.requires_grad}
    with pytest.raises(ConfigError, match="adapter already"):
        Policy.load(tmp_path / "adapter", lora=LoraSettings())


def test_adapter_weights_come_from_the_seed(make_policy, tmp_path):
    make_policy("llama").save(tmp_path)
    state = torch.get_rng_state()
    one, same, other = (
        Policy.load(tmp_path, lora=LoraSettings(rank=2), seed=seed).state_dict()
        for seed in (1, 1, 2)
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_models_that_cannot_be_opened(make_model, make_policy, tokenizer, tmp_path):
    with pytest.raises(ConfigError, match=r"expected a config\.json"):
        Policy.load(tmp_path)
    make_model().save_pretrained(tmp_path / "bare")
    with pytest.raises(ConfigError, match="no tokenizer"):
        Policy.load(tmp_path / "bare")
    with pytest.raises(ConfigError, match="dtype"):
        Policy.load(tmp_path / "bare", dtype="int8")  # type: ignore[arg-type]
    make_policy().save(tmp_path / "good")
    with pytest.raises(ConfigError, match=r"no_such_layer.*not found"):
        Policy.load(tmp_path / "good", lora=LoraSettings(targets=("no_such_layer",)))
    with pytest.raises(ConfigError, match="rank"):
        Policy.load(tmp_path / "good", lora=LoraSettings(rank=0))
    with torch.random.fork_rng():
        bert = BertModel(
            BertConfig(
                vocab_size=300, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                intermediate_size=16,
            )
        )  # fmt: skip
    with pytest.raises(ConfigError, match="no output head"):
        Policy(bert, tokenizer)


REFUSED = {
    "no model folder {}": ("runs/none/policy", "./none", "/none", "~/none"),
    "no model '{}'. Did you mean: ": "nanoo Tiny smalll raeder nano-1 tiny-v0 Small-2".split(),
    r"'{}' is a size of new models.*tiny_policy\(": ("nano", "tiny", "small", "reader"),
}
"""Names of models that are refused, by the error."""


@pytest.mark.parametrize(
    ("error", "name"), [(error, name) for error, names in REFUSED.items() for name in names]
)
def test_a_name_that_is_refused_is_not_looked_for_on_the_hub(error, name, monkeypatch):
    monkeypatch.setattr(AutoConfig, "from_pretrained", lambda *_, **__: pytest.fail("asked"))
    with pytest.raises(ConfigError, match=error.format(name)):
        Policy.load(name)


@pytest.mark.parametrize(
    "name",
    [
        *("gpt2", "distilgpt2", "gpt2-medium", "openai-gpt", "ctrl", "t5-small", "t5-base"),
        *("roberta-base", "albert-base-v2", "xlnet-base-cased", "camembert-base", "me/nano-1"),
    ],
)
def test_other_names_are_ids_of_the_hub(name, monkeypatch):
    def asked(name: str, **_: Any) -> None:
        raise OSError(f"asked for {name}")

    monkeypatch.setattr(AutoConfig, "from_pretrained", asked)
    with pytest.raises(ConfigError, match=f"asked for {name}"):
        Policy.load(name)


def test_a_folder_may_have_the_name_of_a_misspelt_size(make_policy, tmp_path, monkeypatch):
    make_policy().save(tmp_path / "nanoo")
    monkeypatch.chdir(tmp_path)
    assert Policy.load("nanoo")


@pytest.mark.parametrize("file", ["config.json", "adapter_config.json"])
def test_the_folder_of_a_run_is_answered_with_that_of_its_policy(file, tmp_path):
    (tmp_path / "policy").mkdir()
    for path in (tmp_path / "config.json", tmp_path / "policy" / file):
        path.write_text("{}")
    with pytest.raises(ConfigError, match=f"Its model is in {tmp_path / 'policy'}"):
        Policy.load(tmp_path)


def test_a_tokenizer_of_another_model(make_model, tokenizer, tmp_path):
    make_model(vocab_size=100, pad_token_id=0, eos_token_id=1).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="do not belong together"):
        Policy.load(tmp_path)


def test_a_tokenizer_without_an_end(make_model, tokenizer):
    class Endless:
        eos_token_id = None

    with pytest.raises(ConfigError, match="eos_token"):
        Policy(make_model(), Endless())


def test_collated_moves_as_a_whole(make_policy, as_batch):
    _, collated = acted(make_policy(), as_batch)
    moved = collated.to("meta")
    for field in dataclasses.fields(moved):
        value = getattr(moved, field.name)
        assert not isinstance(value, torch.Tensor) or value.device.type == "meta"


# Code in a model folder.

EVIL_MODEL = """
from pathlib import Path
Path({marker!r}).touch()
from transformers import PreTrainedTokenizerFast, {base}Config, {base}ForCausalLM
class CustomConfig({base}Config): model_type = "custom"
class CustomModel({base}ForCausalLM): config_class = CustomConfig
class CustomTokenizer(PreTrainedTokenizerFast): pass
"""


@pytest.fixture
def custom(make_policy, tmp_path, monkeypatch):
    """Returns a function that adds code to a saved model, and the file that the code creates."""
    marker = tmp_path / "marker"
    modules = str(tmp_path / "modules")
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", modules)
    monkeypatch.syspath_prepend(modules)
    # A person, or `yes |`, who answers the question of transformers.
    monkeypatch.setattr("builtins.input", lambda *_: "y")

    def make(place: str):
        folder = tmp_path / f"custom-{place}"
        make_policy("llama").save(folder)
        (folder / "evil.py").write_text(EVIL_MODEL.format(marker=str(marker), base="Llama"))
        if place == "tokenizer":
            file, entries = (
                "tokenizer_config.json",
                {"AutoTokenizer": [None, "evil.CustomTokenizer"]},
            )
        else:
            file = "config.json"
            entries = {
                "AutoConfig": "evil.CustomConfig",
                "AutoModelForCausalLM": "evil.CustomModel",
            }
        settings = json.loads((folder / file).read_text()) | {"auto_map": entries}
        if place == "tokenizer":
            settings["tokenizer_class"] = "CustomTokenizer"
        else:
            settings["model_type"] = "custom"
        (folder / file).write_text(json.dumps(settings))
        return folder

    return make, marker


@pytest.mark.parametrize("place", ["model", "tokenizer"])
def test_the_code_of_a_model_folder_does_not_run(custom, place):
    make, marker = custom
    with pytest.raises(ConfigError, match="trust_remote_code"):
        Policy.load(make(place))
    assert not marker.exists()


def test_the_code_of_an_adapters_base_does_not_run(custom, make_policy, tmp_path):
    make, marker = custom
    make_policy("llama").save(tmp_path / "base")
    Policy.load(tmp_path / "base", lora=LoraSettings(targets=("q_proj",))).save(
        tmp_path / "adapter"
    )
    file = tmp_path / "adapter" / "adapter_config.json"
    settings = json.loads(file.read_text()) | {"base_model_name_or_path": str(make("model"))}
    file.write_text(json.dumps(settings))
    with pytest.raises(ConfigError, match="trust_remote_code"):
        Policy.load(tmp_path / "adapter")
    assert not marker.exists()


@pytest.mark.parametrize("place", ["model", "tokenizer"])
def test_the_code_of_a_model_folder_runs_if_it_is_trusted(custom, place):
    make, marker = custom
    Policy.load(make(place), trust_remote_code=True)
    assert marker.exists()


@pytest.mark.parametrize("damage", ["empty", "cut", "pickle"])
def test_damaged_weights_are_named(make_policy, tmp_path, damage):
    make_policy("llama").save(tmp_path)
    weights = tmp_path / "model.safetensors"
    data = weights.read_bytes()
    weights.write_bytes(b"" if damage == "empty" else data[: len(data) // 2])
    if damage == "pickle":
        weights.unlink()
        (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps(tmp_path, protocol=2))
    with pytest.raises(ConfigError, match="Cannot open"):
        Policy.load(tmp_path)
