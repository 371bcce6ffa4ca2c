from __future__ import annotations

import numpy as np
import torch

from agentgym.trainers.policy.engine import OwnEngine
from agentgym.trainers.policy.policy import Request, Sampling


class Recorder:
    """An engine that records its calls and leaves generation to the policy's own."""

    def __init__(self, policy):
        self.own, self.calls = OwnEngine(policy), []

    def session(self):
        return self.own.session()

    def sync(self, policy):
        self.calls.append("sync")

    def generate(self, requests, sampling, session=None):
        self.calls.append("generate" if session is None else "generate in a session")
        return self.own.generate(requests, sampling, session)


def requests():
    prompt = np.arange(5, 25, dtype=np.int32)
    return [Request(prompt, np.random.default_rng(i), slot=i) for i in range(3)]


def test_an_engine_is_synced_once_after_each_change_of_the_weights(make_policy):
    policy = make_policy()
    expected = policy.act(requests(), Sampling())
    engine = Recorder(policy)
    policy.use(engine)
    found = policy.act(requests(), Sampling())
    assert [s.tokens.tolist() for s in found] == [s.tokens.tolist() for s in expected]
    policy.act(requests(), Sampling(), policy.session())
    assert engine.calls == ["sync", "generate", "generate in a session"]
    engine.calls.clear()
    for _ in range(2):
        with torch.no_grad():
            next(policy.parameters()).add_(0.1)
        policy.act(requests(), Sampling())
        policy.act(requests(), Sampling())
    assert engine.calls == ["sync", "generate", "generate"] * 2
    policy.use(None)
    policy.act(requests(), Sampling())
    assert len(engine.calls) == 6


def test_a_copy_generates_with_its_own_weights(make_policy):
    policy = make_policy()
    policy.use(Recorder(policy))
    copied = policy.clone()
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.zero_()
    assert isinstance(copied.engine, OwnEngine)
    [sample] = copied.act(requests()[:1], Sampling(max_new_tokens=1))
    uniform = -np.log(copied.model.config.vocab_size)
    assert abs(sample.logprobs[0] - uniform) < 1e-4
