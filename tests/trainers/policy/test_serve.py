"""Continuous batching across turns: the same actions, in fewer forward passes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.trainers.policy.collate import collate, segment_rows
from agentgym.trainers.policy.prefix_cache import PrefixCache
from agentgym.trainers.policy.sampling import Request, Sampling
from agentgym.trainers.policy_agent.agent import make_context
from agentgym.trainers.rollout.collector import collect
from agentgym.trainers.rollout.context import ContextSettings
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.rollout.ray_executor import Weights
from agentgym.trainers.update.mismatch import staleness

CHOICES = [None, ["go north", "go south", "go"], None, ["wait"]]


class Episodes:
    """Contexts that grow by each action. Some turns allow a few actions or a single one only."""

    def __init__(self, count, turns, late=0):
        self.turns, self.late = turns, late
        self.log: dict[int, list] = {slot: [] for slot in range(count)}
        self.rngs = {slot: np.random.default_rng(slot) for slot in range(count)}
        self.contexts = {slot: np.arange(5, 30 + slot % 3, dtype=np.int32) for slot in range(count)}
        self.held: list[Request] = []
        self.calls: list[tuple[int, bool]] = []

    def request(self, slot):
        candidates = CHOICES[(slot + len(self.log[slot])) % len(CHOICES)]
        return Request(self.contexts[slot], self.rngs[slot], candidates, slot)

    def first(self):
        return [self.request(slot) for slot in self.log]

    def answer(self, done, busy):
        """Returns the next requests, but holds `late` of them back while others are in progress."""
        self.calls.append((len(done), busy))
        for request, sample in done:
            slot = request.slot
            self.log[slot].append(sample)
            more = np.arange(40, 43 + len(sample.tokens) % 4, dtype=np.int32)
            self.contexts[slot] = np.concatenate([request.prompt, sample.tokens, more])
            if len(self.log[slot]) < self.turns:
                self.held.append(self.request(slot))
        kept = self.late if busy else 0
        begun, self.held = self.held[kept:], self.held[:kept]
        return begun


@pytest.fixture(scope="module")
def policies(make_policy):
    return [make_policy("llama", 3), make_policy("qwen2", 64), make_policy("mistral", 3)]


@settings(deadline=None, max_examples=10, phases=[Phase.generate])
@given(data=st.data())
def test_serving_generates_the_actions_of_acting(policies, data):
    policy = data.draw(st.sampled_from(policies))
    count, turns = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 3))
    sampling = Sampling(max_new_tokens=data.draw(st.sampled_from([1, 4, 12])))
    served = Episodes(count, turns, late=data.draw(st.integers(0, 3)))
    session = None
    if policy.blocks:
        per_token = sum(shape.bytes for shape in policy.layer_shapes)
        session = PrefixCache(max_bytes=data.draw(st.integers(1, 9)) * 128 * per_token)
    eager = data.draw(st.booleans())
    policy.serve(served.first(), sampling, session, served.answer, eager=eager)
    alone = Episodes(count, turns)
    requests = alone.first()
    while requests:
        samples = policy.act(requests, sampling)
        requests = alone.answer(list(zip(requests, samples, strict=True)), False)
    for slot, expected in alone.log.items():
        assert len(served.log[slot]) == turns
        for a, b in zip(served.log[slot], expected, strict=True):
            assert a.tokens.tolist() == b.tokens.tolist()
            np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-5)
    assert not served.calls[-1][1]


def test_episodes_go_on_while_other_actions_are_generated(make_policy):
    """Rows that wait for the slowest action of every turn need more forward passes."""
    policy, passes = make_policy(batch_size=8), {}
    for served in (True, False):
        episodes = Episodes(8, turns=6)
        policy.stats.reset()
        requests, session, sampling = episodes.first(), policy.session(), Sampling()
        if served:
            policy.serve(requests, sampling, session, episodes.answer)
        else:
            while requests:
                samples = policy.act(requests, sampling, session)
                requests = episodes.answer(list(zip(requests, samples, strict=True)), False)
        passes[served] = policy.stats.forward_passes
        assert any(done and busy for done, busy in episodes.calls) == served
    assert passes[True] < 0.8 * passes[False]


class Arrivals:
    """Requests of slots of their own, each of which comes after a number of calls."""

    def __init__(self, requests, after):
        self.coming = sorted(zip(after, range(len(requests)), requests, strict=True))
        self.calls, self.samples, self.ended = 0, {}, []

    def answer(self, done, busy):
        self.calls += 1
        for request, sample in done:
            self.samples[request.slot] = sample
            self.ended.append(request.slot)
        if self.coming and not busy:
            self.calls = max(self.calls, self.coming[0][0])
        due = [request for after, _, request in self.coming if after <= self.calls]
        self.coming = self.coming[len(due) :]
        return due


def of_its_own(slot, **options):
    """Returns a request whose prompt depends on its slot."""
    prompt = np.arange(5, 20 + 3 * (slot % 4), dtype=np.int32)
    return Request(prompt, np.random.default_rng(slot), slot=slot, **options)


@settings(deadline=None, max_examples=15, phases=[Phase.generate])
@given(data=st.data())
def test_requests_that_arrive_late_give_the_actions_of_acting(policies, data):
    """Each with a limit and stop strings of its own, in caches of any size."""
    policy, sampling = data.draw(st.sampled_from(policies)), Sampling(max_new_tokens=20)
    limits = st.none() | st.integers(1, 20)
    stops = st.sampled_from([(), ("e",), ("a", "t")])
    drawn = data.draw(
        st.lists(st.tuples(limits, stops, st.integers(0, 40)), min_size=1, max_size=9)
    )
    requests = [
        of_its_own(slot, max_new_tokens=limit, stop=stop)
        for slot, (limit, stop, _) in enumerate(drawn)
    ]
    arrivals, session = Arrivals(requests, [after for *_, after in drawn]), None
    if policy.blocks:
        per_token = sum(shape.bytes for shape in policy.layer_shapes)
        session = PrefixCache(max_bytes=data.draw(st.integers(1, 9)) * 128 * per_token)
    policy.serve(arrivals.answer([], False), sampling, session, arrivals.answer, eager=True)
    for slot, (limit, stop, _) in enumerate(drawn):
        alone = of_its_own(slot)
        own = Sampling(max_new_tokens=min(20, limit or 20), stop=stop)
        [expected] = policy.act([alone], own)
        found = arrivals.samples[slot]
        assert found.tokens.tolist() == expected.tokens.tolist()
        assert (found.text, found.finished) == (expected.text, expected.finished)
        np.testing.assert_allclose(found.logprobs, expected.logprobs, atol=1e-5)


def test_a_late_short_request_ends_before_a_long_one(make_policy):
    policy = make_policy()
    for eager, order in ((True, [1, 0]), (False, [0, 1])):
        long, short = of_its_own(0), of_its_own(1, max_new_tokens=2)
        arrivals = Arrivals([long, short], [0, 3])
        sampling = Sampling(max_new_tokens=60)
        policy.serve(
            arrivals.answer([], False), sampling, policy.session(), arrivals.answer, eager=eager
        )
        assert len(arrivals.samples[0].tokens) > 10
        assert arrivals.ended == order


def test_a_cancelled_request_ends_at_its_next_token(make_policy):
    policy, sampling = make_policy(), Sampling(max_new_tokens=60)
    requests = [of_its_own(slot) for slot in range(3)]
    requests.append(of_its_own(3, candidates=["go north", "go south"]))
    [*whole] = policy.act([of_its_own(slot) for slot in range(3)], sampling)
    arrivals = Arrivals(requests, [0, 0, 0, 0])

    def answer(done, busy):
        for request in requests[1:]:
            request.cancelled = arrivals.calls >= 3
        return arrivals.answer(done, busy)

    policy.serve(arrivals.answer([], False), sampling, policy.session(), answer, eager=True)
    assert arrivals.samples[0].tokens.tolist() == whole[0].tokens.tolist()
    for slot in (1, 2):
        tokens = arrivals.samples[slot].tokens.tolist()
        assert tokens == whole[slot].tokens.tolist()[: len(tokens)] and len(tokens) < 8
    assert len(arrivals.samples[3].tokens) < 8


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_token_is_refused(make_policy, limit):
    with pytest.raises(ValueError, match="max_new_tokens must be at least 1"):
        make_policy().act([of_its_own(0, max_new_tokens=limit)], Sampling())


class Renewed(Episodes):
    """Episodes during which the policy takes over newer weights, as in a rollout worker."""

    def __init__(self, count, turns, policy, newer, late):
        super().__init__(count, turns, late)
        self.policy, self.newer, self.samples = policy, newer, []

    def answer(self, done, busy):
        self.samples += done
        if (version := len(self.calls) // 4) in self.newer and version != self.policy.version:
            self.newer[version].load_into(self.policy)
        return super().answer(done, busy)


@settings(deadline=None, max_examples=10, phases=[Phase.generate])
@given(data=st.data())
def test_tokens_have_the_log_probabilities_of_the_version_that_they_record(
    make_policy, as_batch, data
):
    """Also of an action during which the weights changed, whose context was read by older ones."""
    policies = [make_policy(seed=version) for version in range(3)]
    for version, each in enumerate(policies):
        each.version = version
    acting = policies[0].clone()
    newer = {version: Weights.of(policies[version], version) for version in (1, 2)}
    count, turns = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 3))
    episodes = Renewed(count, turns, acting, newer, data.draw(st.integers(0, 3)))
    session = acting.session() if data.draw(st.booleans()) else None
    sampling, eager = Sampling(max_new_tokens=12), data.draw(st.booleans())
    acting.serve(episodes.first(), sampling, session, episodes.answer, eager=eager)

    requests, samples = zip(*episodes.samples, strict=True)
    assert len(samples) == count * turns
    batch = as_batch([request.prompt for request in requests], samples)
    collated = collate(batch, segment_rows(batch), acting.pad_token, 1.0)
    found = staleness(batch, 0) * -1
    for version, policy in enumerate(policies):
        with torch.no_grad():
            scored = policy(collated).logprobs[torch.argsort(torch.as_tensor(collated.index))]
        same = found == version
        np.testing.assert_allclose(batch.logprobs[same], scored.numpy()[same], atol=1e-5)
    if count * turns > 6:
        assert len(set(found)) > 1


def test_weights_change_within_an_action(make_policy):
    policy, newer = make_policy(), make_policy(seed=1)
    policy.version, newer.version = 0, 1
    episodes = Renewed(2, 1, policy, {1: Weights.of(newer, 1)}, 0)
    policy.serve(episodes.first(), Sampling(max_new_tokens=12), None, episodes.answer)
    mixed = [sample for _, sample in episodes.samples if sample.token_versions is not None]
    assert mixed
    for sample in mixed:
        versions = sample.token_versions.tolist()
        assert set(versions) == {0, 1} and versions == sorted(versions)
        assert len(versions) == len(sample.tokens) and sample.version == 1


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 3])
def test_continuous_collection_plays_the_same_episodes(make_policy, workers):
    policy = make_policy()
    context = make_context(policy, ContextSettings(max_tokens=400))
    episodes = [EpisodeSpec(f"train/{i}", i, (5, i)) for i in range(9)]

    def play(**options):
        with EnvPool(lambda: NumberLine(max_turns=4), 4, options.pop("workers", 0)) as pool:
            found = collect(policy, pool, episodes, context, Sampling(max_new_tokens=9), **options)
        return [
            [(turn.action, turn.reward, turn.start, turn.stop) for turn in t.turns] for t in found
        ]

    assert play(continuous=True, workers=workers) == play()
    assert play(continuous=True, constrain=True, workers=workers) == play(constrain=True)
