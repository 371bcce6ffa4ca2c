"""Every architecture of `transformers`: generation, scores and gradients of a plain forward pass.

An architecture that cannot be made small is skipped with its reason, and those that must be refused
are listed. `python -m pytest -m slow -rs` lists the skips.
"""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Container
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import DynamicCache

from agentgym.errors import ConfigError
from agentgym.trainers.policy.collate import collate, segment_rows
from agentgym.trainers.policy.engine import OwnEngine
from agentgym.trainers.policy.lora import LoraSettings
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.probes import cache_argument
from agentgym.trainers.policy.sampling import Request, Sample, Sampling

from ...helpers.architectures import ARCHITECTURES, small_config, small_model

FAST = ("gpt2", "gpt_neo", "llama", "qwen3_moe", "rwkv")
"""Architectures of the fast tests: masks of its own, experts, a cache of its own."""
LENGTHS = (3, 20, 33, 47)
"""Lengths of prompts: shorter and longer than windows and chunks, which have 16 tokens."""
ENCODERS = {
    *("bert", "bert-generation", "big_bird", "camembert", "data2vec-text", "electra", "ernie"),
    *("megatron-bert", "rembert", "roberta", "roberta-prelayernorm", "roc_bert", "roformer"),
    *("xlm", "xlm-roberta", "xlm-roberta-xl", "xmod"),
}
"""Architectures that attend to later tokens by default, and are refused."""
LOOSE = {
    **dict.fromkeys(["nemotron_h", "zamba2"], 0.02),
    **dict.fromkeys(["qwen3_5_moe", "qwen3_5_moe_text", "qwen3_next"], 2e-3),
}
"""Tolerances in nats. The recurrent step of the first two lacks the lower limit of the time step
that the scan of a sequence has (`time_step_min`), in `transformers` itself. In the others, rounding
changes which experts are chosen."""
TOLERANCE = 1e-4
CLOSED = {"emu3", "mllama"}
"""Architectures whose saved configuration `AutoModelForCausalLM` does not open again."""
UNEQUAL = {"moshi"}
"""Architectures whose steps with a cache of `transformers` do not equal their own whole pass: the
cache keeps a window of tokens, and the mask of the whole pass has none."""
ROUNDED = ("mamba", "smollm3", "llama")
"""Architectures of the fast test in bfloat16. Mamba reads the weights of its parts."""


def cases(fast: Container[str]) -> list[Any]:
    """Returns all architectures, of which others than some are slow tests."""
    return [
        pytest.param(kind, marks=[] if kind in fast else pytest.mark.slow) for kind in ARCHITECTURES
    ]


@pytest.fixture
def build(tokenizer):
    """Returns a policy of an architecture, or skips the test with the reason."""

    def make(kind: str) -> Policy:
        try:
            model = small_model(kind)
            with torch.no_grad():
                model(input_ids=torch.arange(2, 22)[None], use_cache=False)
        except Exception as error:  # anything, from configurations that do not fit together
            pytest.skip(f"{kind} cannot be made small: {type(error).__name__} {error!s:.80}")
        if kind in ENCODERS:
            with pytest.raises(ConfigError, match="later tokens"):
                Policy(model, tokenizer)
            pytest.skip(f"{kind} is an encoder and refused")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*over its whole context")
            return Policy(model, tokenizer)

    return make


def plain_logprobs(policy: Policy, prompt: Any, tokens: Any) -> Tensor:
    """Returns the log-probs of an action's tokens by a forward pass over the whole sequence."""
    ids = torch.from_numpy(np.concatenate([prompt, tokens]).astype(np.int64))[None]
    logits = policy.model(input_ids=ids, use_cache=False).logits[0].float().log_softmax(-1)
    places = torch.arange(len(prompt) - 1, ids.shape[1] - 1)
    return logits[places, ids[0, len(prompt) :]]


@torch.no_grad()
def equals_own_steps(model: Any) -> bool:
    """Returns whether steps with the cache of `transformers` equal a whole forward pass."""
    ids, cache = torch.arange(2, 42)[None], DynamicCache(config=model.config)
    name = cache_argument(inspect.signature(model.forward).parameters)
    whole = model(input_ids=ids, use_cache=False).logits[0]
    steps = [
        model(input_ids=ids[:, i : i + 1], **{name: cache}, use_cache=True).logits[0, 0]
        for i in range(ids.shape[1])
    ]
    return torch.allclose(torch.stack(steps), whole, atol=TOLERANCE, rtol=0)


def two_turns(policy: Policy) -> list[tuple[list[Any], list[Sample]]]:
    """Returns prompts and samples of two turns that share a cache."""
    rng, session = np.random.default_rng(0), policy.session()
    prompts = [rng.integers(2, 290, size=length).astype(np.int32) for length in LENGTHS]
    turns = []
    for turn in range(2):
        requests = [
            Request(prompt, np.random.default_rng([turn, i]), slot=i)
            for i, prompt in enumerate(prompts)
        ]
        samples = policy.act(requests, Sampling(max_new_tokens=5), session)
        turns.append((prompts, samples))
        prompts = [
            np.concatenate([p, s.tokens, rng.integers(2, 290, size=11 - 2 * i)]).astype(np.int32)
            for i, (p, s) in enumerate(zip(prompts, samples, strict=True))
        ]
    return turns


def gradients(policy: Policy, loss: Tensor) -> dict[str, Tensor]:
    """Returns the gradients of a loss by name."""
    policy.zero_grad()
    loss.backward()
    return {n: p.grad.clone() for n, p in policy.named_parameters() if p.grad is not None}


def distance(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """Returns the distance of gradients, as a share of the norm of the first."""
    assert one.keys() == other.keys()
    gap = sum(float((one[name] - other[name]).square().sum()) for name in one)
    return (gap / sum(float(gradient.square().sum()) for gradient in one.values())) ** 0.5


def check(policy: Policy, as_batch: Any, tolerance: float) -> None:
    """Checks generation, scores and gradients against plain forward passes."""
    for prompts, samples in (turns := two_turns(policy)):
        for prompt, sample in zip(prompts, samples, strict=True):
            with torch.no_grad():
                expected = plain_logprobs(policy, prompt, sample.tokens).numpy()
            np.testing.assert_allclose(sample.logprobs, expected, atol=tolerance, rtol=0)
    if policy.blocks:
        check_graphs(policy, turns)
    prompts, samples = turns[1]
    batch = as_batch(prompts, samples)
    collated = collate(batch, segment_rows(batch), policy.pad_token)
    weights = torch.linspace(-1, 1, len(collated.target))
    pairs = zip(prompts, samples, strict=True)
    plain = torch.cat([plain_logprobs(policy, p, s.tokens) for p, s in pairs])
    scores = policy(collated).logprobs
    torch.testing.assert_close(scores, plain, atol=TOLERANCE, rtol=0)
    expected = gradients(policy, (weights * plain).sum())
    assert distance(expected, gradients(policy, (weights * scores).sum())) < 1e-3
    if policy.supports_checkpointing:
        policy.checkpoint_layers()
        found = gradients(policy, (weights * policy(collated).logprobs).sum())
        assert distance(expected, found) < 1e-3
        policy.gradient_checkpointing = False


def check_graphs(policy: Policy, turns: list[tuple[list[Any], list[Sample]]]) -> None:
    """Checks that decode steps can be captured and generate the same."""
    policy.use(OwnEngine(policy, graphs=True))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*without CUDA graphs")
        again = two_turns(policy)
    policy.use(None)
    for (_, expected), (_, found) in zip(turns, again, strict=True):
        for one, other in zip(expected, found, strict=True):
            assert one.tokens.tolist() == other.tokens.tolist()
            np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-5, rtol=0)


def check_files(policy: Policy, folder: Path) -> None:
    """Checks an adapter of the default targets, and files of the model and of the adapter."""
    policy.save(folder / "model")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*over its whole context")
        adapted = Policy.load(folder / "model", lora=LoraSettings(rank=2))
        generator = torch.Generator().manual_seed(1)
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.data.normal_(0, 0.1, generator=generator)
        adapted.save(folder / "adapter")
        resumed = Policy.load(folder / "adapter")
    prompt, tokens = np.arange(2, 22), np.arange(30, 36)
    with torch.no_grad():
        first, again = (plain_logprobs(each, prompt, tokens) for each in (adapted, resumed))
        base = plain_logprobs(policy, prompt, tokens)
    torch.testing.assert_close(again, first, atol=1e-5, rtol=0)
    assert not torch.allclose(first, base, atol=1e-6), "the adapter has no effect"
    config = json.loads((folder / "adapter" / "adapter_config.json").read_text())
    assert Path(config["base_model_name_or_path"]) == (folder / "model").resolve()


@pytest.mark.parametrize("kind", cases(FAST))
def test_an_architecture_agrees_with_a_plain_forward_pass(build, as_batch, kind, tmp_path):
    policy = build(kind)
    if kind in UNEQUAL:
        assert not equals_own_steps(policy.model), "mended in transformers: check it as the others"
    else:
        check(policy, as_batch, LOOSE.get(kind, TOLERANCE))
    if kind not in CLOSED:
        check_files(policy, tmp_path)


@pytest.mark.filterwarnings("ignore:.*over its whole context")
@pytest.mark.parametrize("kind", cases(ROUNDED))
def test_an_architecture_is_as_known_in_bfloat16(build, kind):
    exact = build(kind)
    try:
        with torch.no_grad():
            exact.model.to(torch.bfloat16)(input_ids=torch.arange(2, 22)[None], use_cache=False)
    except RuntimeError as error:
        pytest.skip(f"{kind} does not compute in bfloat16: {error!s:.80}")
    before = {name: each.clone() for name, each in exact.model.state_dict().items()}
    rounded = Policy(exact.model, exact.tokenizer)
    for name in ("padding", "blocks", "cache_name", "restricts", "packs"):
        assert getattr(rounded, name) == getattr(exact, name), name
    after = rounded.model.state_dict()
    assert all(torch.equal(after[name], each) for name, each in before.items())
    assert all(after[name].dtype == each.dtype for name, each in before.items())


@pytest.mark.slow
def test_few_architectures_are_left_out():
    reasons: dict[str, str] = {}
    for kind in ARCHITECTURES:
        try:
            small_config(kind)
        except Exception as error:
            reasons[kind] = f"{type(error).__name__} {error!s:.80}"
    assert len(reasons) < 0.15 * len(ARCHITECTURES), reasons
