"""Prompts that recur are remembered: the same actions, from fewer tokens that are read."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.trainers.policy.lora import LoraSettings
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.prefix_cache import PrefixCache
from agentgym.trainers.policy.sampling import Request, Sampling
from agentgym.trainers.policy_agent.agent import make_context
from agentgym.trainers.rollout.collector import collect
from agentgym.trainers.rollout.context import ContextSettings
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.episode import EpisodeSpec

CHOICES = [None, ["go north", "go south", "go"], ["wait"], ["+", "-"]]
RULES = np.arange(30, 60, dtype=np.int32)


class Visits:
    """Episodes that visit a few states. A prompt is a state, after the rules if there are any."""

    def __init__(self, count, turns, states, rules, late=0):
        self.left = {slot: turns for slot in range(count)}
        self.rngs = {slot: np.random.default_rng(slot) for slot in range(count)}
        self.log: dict[int, list] = {slot: [] for slot in range(count)}
        self.states, self.rules, self.late = states, rules, late
        self.held: list[Request] = []

    def request(self, slot):
        self.left[slot] -= 1
        # The slots of a group go the same way.
        state = (slot % 3 + 5 * self.left[slot]) % self.states
        own = np.random.default_rng(state).integers(2, 250, 3 + 7 * (state % 5)).astype(np.int32)
        prompt = np.concatenate([self.rules, own])
        return Request(prompt, self.rngs[slot], CHOICES[state % len(CHOICES)], slot)

    def first(self):
        return [self.request(slot) for slot in self.left]

    def answer(self, done, busy):
        """Returns the next requests, but holds `late` of them back while others are in progress."""
        for request, sample in done:
            self.log[request.slot].append(sample)
            if self.left[request.slot]:
                self.held.append(self.request(request.slot))
        kept = self.late if busy else 0
        begun, self.held = self.held[kept:], self.held[:kept]
        return begun

    def alone(self, policy, sampling):
        """Plays all episodes without a cache, one action at a time."""
        requests = self.first()
        while requests:
            requests = [
                new
                for request in requests
                for new in self.answer([(request, policy.act([request], sampling)[0])], False)
            ]
        return self.log


def assert_same(some, others):
    for slot, expected in others.items():
        for one, other in zip(some[slot], expected, strict=True):
            assert one.tokens.tolist() == other.tokens.tolist()
            np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-5)


@pytest.fixture(scope="module")
def policies(make_policy):
    return [make_policy("llama", 3), make_policy("qwen2", 64), make_policy("gpt2", 2)]


@settings(deadline=None, max_examples=25, phases=[Phase.generate])
@given(data=st.data())
def test_remembered_prompts_change_no_action(policies, data):
    policy = data.draw(st.sampled_from(policies))
    count, turns = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 5))
    rules = data.draw(st.sampled_from([RULES, RULES[:0]]))
    states = data.draw(st.integers(1, 6))
    sampling = Sampling(max_new_tokens=data.draw(st.sampled_from([1, 4])))
    per_token = sum(shape.bytes for shape in policy.layer_shapes)
    session = PrefixCache(
        max_bytes=data.draw(st.integers(1, 40)) * 128 * per_token,
        by_slot=data.draw(st.booleans()),
        recurring=True,
    )
    expected = Visits(count, turns, states, rules).alone(policy, sampling)
    episodes = Visits(count, turns, states, rules, late=data.draw(st.integers(0, 3)))
    eager = data.draw(st.booleans())
    policy.serve(episodes.first(), sampling, session, episodes.answer, eager=eager)
    assert_same(episodes.log, expected)


def read(policy, session):
    """Returns the number of tokens that are read for six prompts of three states."""
    before = policy.stats.fed_tokens + policy.stats.padded_tokens
    policy.act(Visits(6, 1, 6, RULES[:0]).first(), Sampling(max_new_tokens=1), session)
    return policy.stats.fed_tokens + policy.stats.padded_tokens - before


def test_a_prompt_that_recurs_costs_one_token(make_policy):
    policy = make_policy("llama")
    session = policy.session(by_slot=False, recurring=True)
    assert read(policy, session) > 20
    assert read(policy, session) <= 6
    session.clear()
    assert read(policy, session) > 20
    plain = policy.session(by_slot=False)
    assert read(policy, plain) == read(policy, plain)


def test_other_weights_forget_all_prompts(make_policy):
    policy = make_policy("llama").clone()
    session = policy.session(by_slot=False, recurring=True)
    sampling = Sampling(max_new_tokens=4)
    policy.act(Visits(6, 1, 6, RULES).first(), sampling, session)
    with torch.no_grad():
        for weights in policy.parameters():
            weights += 0.3 * torch.randn_like(weights)
    expected = policy.act(Visits(6, 1, 6, RULES).first(), sampling)
    found = policy.act(Visits(6, 1, 6, RULES).first(), sampling, session)
    assert_same({0: found}, {0: expected})


def test_another_adapter_forgets_all_prompts(tmp_path, make_policy):
    make_policy("llama").save(tmp_path)
    policy = Policy.load(tmp_path, lora=LoraSettings(rank=2))
    policy.model.add_adapter("other", policy.model.peft_config["default"])
    with torch.no_grad():
        for name, weights in policy.named_parameters():
            if "lora" in name:
                weights += torch.randn_like(weights)
    session = policy.session(by_slot=False, recurring=True)
    for adapter in ("default", "other", "default"):
        policy.model.set_adapter(adapter)
        expected = policy.act(Visits(6, 1, 6, RULES).first(), Sampling(max_new_tokens=4))
        found = policy.act(Visits(6, 1, 6, RULES).first(), Sampling(max_new_tokens=4), session)
        assert_same({0: found}, {0: expected})


@pytest.mark.parametrize("lengths", [[60] * 28 + [5] * 4, [40] * 26 + [10] * 6])
def test_short_prompts_do_not_wait_until_long_ones_have_ended(make_policy, lengths):
    policy = make_policy("llama", 32).clone()
    rng = np.random.default_rng(0)
    prompts = [rng.integers(2, 250, length).astype(np.int32) for length in lengths]
    requests = [Request(each, np.random.default_rng(i)) for i, each in enumerate(prompts)]
    sampling = Sampling(max_new_tokens=12)
    samples = policy.act(requests, sampling)
    assert max(len(sample.tokens) for sample in samples) == 12
    # One more for the short ones, in parts of 2,048 tokens.
    assert policy.stats.forward_passes <= 12 + 2


@pytest.mark.parametrize("instructions", [True, False])
def test_rollouts_read_the_states_of_a_small_environment_once(make_policy, instructions):
    policy = make_policy("llama").clone()
    context = make_context(policy, ContextSettings(mode="current", instructions=instructions))
    pool = EnvPool(lambda: NumberLine(size=9, max_turns=30), 4)
    episodes = [EpisodeSpec("train/1", 0, (i,)) for i in range(16)]
    collect(policy, pool, episodes, context, Sampling(max_new_tokens=2), constrain=True)
    assert policy.stats.requests > 40
    assert policy.stats.fed_tokens < policy.stats.prompt_tokens / 3
