"""Logits in parts, and layers that are computed again in the backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from agentgym.errors import ConfigError
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.policy.adapters import add_adapter
from agentgym.trainers.policy.candidates import candidate_logprobs
from agentgym.trainers.policy.collate import collate, segment_rows
from agentgym.trainers.policy.lm_head import Head, HeadOutput, scores_in_parts
from agentgym.trainers.policy.lora import LoraSettings
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Request, Sampling

TEXTS = ["go north", "go south", "go", "take the red key, then wait", "day 17"]
SMALL = {"num_key_value_heads": 2, "head_dim": 8}
# After the head: nothing, a cap, a factor, a divisor.
KINDS: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen3": SMALL,
    "phi": {},
    "gemma2": {},
    "gemma3_text": {**SMALL, "sliding_window": 8, "final_logit_softcapping": 2.0},
    "cohere": {**SMALL, "logit_scale": 0.3},
    "granite": {**SMALL, "logits_scaling": 3.0},
}


@pytest.fixture
def make(make_policy: Callable[..., Policy], monkeypatch: pytest.MonkeyPatch) -> Any:
    from ..conftest import LLAMA_LIKE, MODELS

    for kind in KINDS:
        monkeypatch.setitem(MODELS, kind, MODELS.get(kind, LLAMA_LIKE))
    return lambda kind, **changes: make_policy(kind, **KINDS[kind], **changes)


def played(
    policy: Policy, as_batch: Any, candidates: Any, sampling: Sampling | None = None, times: int = 1
) -> Any:
    """Lets a policy act and returns the actions, collated, each as often as asked for."""
    rng = np.random.default_rng(0)
    prompts = [rng.integers(2, 250, size=n).astype(np.int32) for n in (30, 3, 12)]
    requests = [Request(p, np.random.default_rng(i), candidates) for i, p in enumerate(prompts)]
    sampling = sampling or Sampling(max_new_tokens=6)
    samples = policy.act(requests, sampling)
    batch = as_batch(prompts, samples)
    for trajectory, sample in zip(batch.trajectories, samples, strict=True):
        turn = trajectory.turns[0]
        turn.choice, turn.admissible = sample.choice, tuple(candidates or ())
    batch = Batch.of([*batch.trajectories] * times)
    rows = segment_rows(batch)
    return collate(batch, rows, policy.pad_token, sampling.temperature, sampling.normalization)


def learned(policy: Policy, collated: Any) -> tuple[list[Tensor], list[Tensor | None]]:
    """Returns the scores and the gradients of a loss of all of them."""
    policy.zero_grad()
    scores = policy(collated)
    weights = torch.randn(len(scores.logprobs), generator=torch.Generator().manual_seed(0))
    loss = (weights * (scores.logprobs + 0.3 * scores.entropy)).sum()
    (loss + scores.hidden.square().mean() + scores.bootstrap_hidden.mean()).backward()
    return [x.detach() for x in scores], [parameter.grad for parameter in policy.parameters()]


# The head by hand.


@settings(deadline=None, max_examples=60)
@example(
    seed=883, counts=[2], size=1, temperature=0.5, output=HeadOutput(), bias=False, frozen=False,
    bonus=True,
)  # fmt: skip
@given(
    seed=st.integers(0, 2**20),
    counts=st.lists(st.integers(0, 7), min_size=0, max_size=9),
    size=st.integers(1, 10),
    temperature=st.just(1.0) | st.floats(0.3, 3.0),
    output=st.sampled_from(
        [HeadOutput(), HeadOutput(cap=2.0), HeadOutput(factor=0.3), HeadOutput(divisor=2.5)]
    ),
    bias=st.booleans(),
    frozen=st.booleans(),
    bonus=st.booleans(),
)
def test_the_head_by_hand_is_the_plain_computation(
    seed: int,
    counts: list[int],
    size: int,
    temperature: float,
    output: HeadOutput,
    bias: bool,
    frozen: bool,
    bonus: bool,
):
    generator, k = torch.Generator().manual_seed(seed), len(counts)
    module = nn.Linear(5, 7, bias=bias).requires_grad_(not frozen)
    for parameter in module.parameters():
        parameter.data.normal_(generator=generator)
    hidden = torch.randn(k, 5, generator=generator).requires_grad_()
    orders = [torch.randperm(7, generator=generator)[: n or 7] for n in counts]
    target = torch.tensor([int(order[0]) for order in orders], dtype=torch.int64)
    ids = torch.tensor([int(i) for n, o in zip(counts, orders, strict=True) for i in o[:n]])
    support = torch.tensor([0, *np.cumsum(counts)], dtype=torch.int64), ids.long()
    up = torch.randn(2, k, generator=generator)
    weights = tuple(weight for weight in module.parameters() if weight.requires_grad)

    head = Head(lambda some: output(module(some)), weights)
    scores = scores_in_parts(head, hidden, target, support, temperature, size)
    loss = (up[0] * scores[0]).sum()
    if bonus:
        loss = loss + (up[1] * scores[1]).sum()
    got = torch.autograd.grad(loss, [hidden, *weights])
    scores, up = torch.stack(scores), up * torch.tensor([[1.0], [float(bonus)]])

    # The plain computation, in float64.
    module, hidden, up = module.double(), hidden.detach().double().requires_grad_(), up.double()
    logits = output(module(hidden)) / temperature
    plain = torch.zeros(2, 0).double()
    for row, order, aim in zip(logits, orders, target, strict=True):
        over = torch.distributions.Categorical(logits=row[order])
        at = (order == aim).nonzero()[0, 0]
        plain = torch.cat([plain, torch.stack([over.log_prob(at), over.entropy()])[:, None]], 1)
    weights = [weight for weight in module.parameters() if weight.requires_grad]
    expected = torch.autograd.grad((up * plain).sum() + 0 * logits.sum(), [hidden, *weights])
    for found, exact in zip((scores, *got), (plain, *expected), strict=True):
        # Rounding is relative to the largest number, and that of logits enters all results.
        sizes = [float(each.detach().abs().max()) for each in (exact, logits) if each.numel()]
        bound = 1e-6 * max([1.0, *sizes]) / min(1.0, temperature)
        torch.testing.assert_close(found.double(), exact, atol=bound, rtol=0)


def test_tokens_that_cannot_occur_have_no_gradient():
    logits = torch.tensor([[0.0, 1.0, -torch.inf]], requires_grad=True)
    head = Head(lambda some: some)
    logprob, entropy = scores_in_parts(head, logits, torch.tensor([1]), None, 1.0, 4)
    (logprob + 50 * entropy).sum().backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert logits.grad[0, 2] == 0


@pytest.mark.parametrize("normalization", [None, "token"])
@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_never_whole(make, as_batch, kind, normalization):
    policy = make(kind)
    collated = played(policy, as_batch, TEXTS, Sampling(0.7, normalization=normalization))
    free = played(policy, as_batch, None)
    whole = learned(policy, collated), learned(policy, free)
    read: list[int] = []
    policy.model.get_output_embeddings().register_forward_hook(
        lambda module, args, output: read.append(output.shape[:-1].numel())
    )
    policy.logits_at_once = 2 * len(policy.tokenizer) + 1
    parts = learned(policy, collated), learned(policy, free)
    assert policy.head_output is not None
    assert max(read) == 2
    torch.testing.assert_close(whole, parts, atol=1e-5, rtol=1e-4)


def test_operations_after_the_head_that_are_unknown(make, make_model, tokenizer, as_batch):
    model, plain = make_model(), make("llama")
    forward = model.forward

    def bent(*args: Any, **kwargs: Any) -> Any:
        found = forward(*args, **kwargs)
        found.logits = found.logits.sin()
        return found

    model.forward = bent
    policy = Policy(model, tokenizer)
    policy.blocks = plain.blocks = False
    assert policy.head_output is None
    collated = played(policy, as_batch, None)
    policy.logits_at_once = 1
    plain.head_output = torch.sin
    torch.testing.assert_close(learned(policy, collated), learned(plain, collated))


@pytest.mark.parametrize("kind", ["llama", "mamba"])
@pytest.mark.parametrize("normalization", [None, "sum", "word"])
def test_equal_rows_are_read_once_and_learned_from_as_often_as_they_occur(
    make_policy, as_batch, kind: str, normalization: Any
):
    policy, candidates = make_policy(kind), None if normalization is None else TEXTS
    sampling = Sampling(0.7, max_new_tokens=6, normalization=normalization)
    once, often = (played(policy, as_batch, candidates, sampling, times) for times in (1, 3))
    assert torch.equal(often.tokens, once.tokens)
    fed: list[int] = []
    policy.model.register_forward_pre_hook(
        lambda module, args, inputs: fed.append(inputs["input_ids"].numel()), with_kwargs=True
    )
    found, gradients = [], []
    for collated in (once, often):
        policy.zero_grad()
        scores = policy(collated)
        torch.cat([x.flatten() for x in scores]).square().sum().backward()
        found.append([x.detach() for x in scores])
        gradients.append([parameter.grad for parameter in policy.parameters()])
    assert fed[: len(fed) // 2] == fed[len(fed) // 2 :]
    repeated = [torch.cat([x, x, x]) for x in found[0]]
    torch.testing.assert_close(found[1], repeated)
    # Sums are in another order: they differ by the rounding of the largest terms, here about 100.
    largest = max(float(each.abs().max()) for each in gradients[1] if each is not None)
    for one, three in zip(*gradients, strict=True):
        assert (one is None) == (three is None)
        if one is not None and three is not None:
            torch.testing.assert_close(three, 3 * one, atol=5e-6 * largest, rtol=1e-4)


def test_gradients_of_equal_rows_are_added_up_in_float32(make_model, tokenizer, as_batch):
    """In bfloat16, a sum of equal terms is off by several percent after a few dozen."""
    policy = Policy(make_model().to(torch.bfloat16), tokenizer)
    found = []
    for times in (1, 100):
        policy.zero_grad()
        scores = policy(played(policy, as_batch, None, times=times))
        ((scores.logprobs.sum() + scores.hidden.float().sum()) / times).backward()
        found.append([parameter.grad for parameter in policy.parameters()])
    for one, many in zip(*found, strict=True):
        assert (many - one).norm() <= 0.01 * one.norm()


def test_choices_read_each_prompt_once(make, as_batch):
    policy = make("llama")
    collated = played(policy, as_batch, TEXTS, Sampling(normalization="sum"))
    fed: list[int] = []
    policy.model.register_forward_pre_hook(
        lambda module, args, inputs: fed.append(inputs["input_ids"].numel()), with_kwargs=True
    )
    policy(collated)
    nodes = len(policy.trie(TEXTS)[0]) - 1
    assert fed == [collated.tokens.numel() + nodes * len(collated.tokens)]


# Gradient checkpointing.


def passes(policy: Policy) -> list[int]:
    """Returns a list that grows by an entry whenever a layer's attention is computed."""
    seen: list[int] = []
    for module in policy.model.modules():
        if type(module).__name__.endswith("Attention"):
            module.register_forward_pre_hook(lambda *_: seen.append(1))
    return seen


def adapted(policy: Policy, dtype: torch.dtype = torch.float32) -> Policy:
    model = add_adapter(policy.model.to(dtype), LoraSettings(rank=2, targets=("q_proj", "v_proj")))
    generator = torch.Generator().manual_seed(5)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data.normal_(0, 0.3, generator=generator)
    return Policy(model, policy.tokenizer)


@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_layers_are_computed_again(make, as_batch, kind, lora):
    policy = adapted(make(kind)) if lora else make(kind)
    policy.restricts = False  # of other shapes, so rounding differs
    collated = played(policy, as_batch, None)
    seen, layers = passes(policy), policy.model.config.num_hidden_layers
    plain, once = learned(policy, collated), len(seen)
    assert once == layers
    policy.checkpoint_layers()
    seen.clear()
    policy(collated)
    assert len(seen) == layers
    seen.clear()
    again = learned(policy, collated)
    assert len(seen) == 2 * layers
    torch.testing.assert_close(again, plain, atol=1e-6, rtol=1e-5)
    assert not any(module.training for module in policy.modules())


def test_checkpointing_in_bfloat16(make, as_batch):
    policy = adapted(make("qwen3"), torch.bfloat16)
    policy.restricts = False  # of other shapes, so rounding differs
    collated = played(policy, as_batch, None)
    with torch.autocast("cpu", torch.bfloat16):
        plain = learned(policy, collated)
        policy.checkpoint_layers()
        torch.testing.assert_close(learned(policy, collated), plain)


@pytest.mark.parametrize("normalization", [None, "sum"])
def test_acting_and_candidates_do_not_notice_checkpointing(make, as_batch, normalization):
    plain, policy = make("llama"), make("llama")
    policy.checkpoint_layers()
    sampling = Sampling(normalization=normalization)
    one, other = (played(p, as_batch, TEXTS, sampling) for p in (plain, policy))
    assert torch.equal(one.tokens, other.tokens)
    assert policy.stats == plain.stats
    torch.testing.assert_close(learned(policy, other), learned(plain, one), atol=1e-6, rtol=1e-5)
    prompt = np.arange(5, 25, dtype=np.int32)
    grads = []
    for each in (plain, policy):
        each.zero_grad()
        candidate_logprobs(each, [prompt], [TEXTS])[0][2].backward()
        grads.append([parameter.grad for parameter in each.parameters()])
    torch.testing.assert_close(grads[1], grads[0], atol=1e-6, rtol=1e-5)


def test_checkpointing_keeps_the_inputs_of_layers_only(make, as_batch):
    policy = make("llama")
    collated = played(policy, as_batch, None)

    def kept() -> int:
        saved: dict[int, int] = {}

        def pack(tensor: Tensor) -> Tensor:
            saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            policy(collated)
        owned = {p.untyped_storage().data_ptr() for p in policy.parameters()}
        return sum(size for pointer, size in saved.items() if pointer not in owned)

    before = kept()
    policy.checkpoint_layers()
    assert kept() < before / 3


def test_a_model_that_cannot_be_checkpointed(make, monkeypatch):
    policy = make("llama")
    monkeypatch.setattr(
        "agentgym.trainers.policy.language_model.layers_to_checkpoint", lambda model: []
    )
    with pytest.raises(ConfigError, match="does not support gradient checkpointing"):
        policy.checkpoint_layers()
