"""The mutual information of thoughts and prompts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.trainers.api import make_trainer
from agentgym.trainers.critics.transitions import one_turn
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sample, Sampling
from agentgym.trainers.run import iteration
from agentgym.trainers.run.metrics import log_iteration
from agentgym.trainers.run.thought_information import mutual_information, thought_information

from ...helpers.worlds import generators

HALF = Sampling(temperature=0.5)
ALONE: Any = SimpleNamespace(process_index=0, num_processes=1)


def test_golden():
    """Two prompts, two thoughts each."""
    apart = [[-1.0, -4.0], [-2.0, -5.0], [-4.0, -1.5], [-3.0, -2.0]]
    assert mutual_information(np.array(apart), [0, 0, 1, 1]) == pytest.approx(0.57082, abs=1e-5)
    template = np.array([[-2.0, -2.1]] * 4)
    assert mutual_information(template, [0, 0, 1, 1]) == pytest.approx(-0.00125, abs=1e-5)


@settings(deadline=None)
@given(generators, st.integers(2, 8), st.integers(1, 3))
def test_between_independent_and_identified(rng: np.random.Generator, prompts: int, each: int):
    own = np.repeat(np.arange(prompts), each)
    any_logprobs = rng.normal(scale=30, size=(len(own), prompts)) - 400
    found = mutual_information(any_logprobs, own)
    assert found <= math.log(prompts) + 1e-9
    shift = rng.normal(size=(len(own), 1))  # of thoughts, not of prompts
    assert mutual_information(any_logprobs + shift, own) == pytest.approx(found, abs=1e-9)
    independent = np.repeat(shift, prompts, 1)
    assert mutual_information(independent, own) == pytest.approx(0, abs=1e-12)
    identified = np.where(own[:, None] == np.arange(prompts), 0.0, -50.0)
    assert mutual_information(identified, own) == pytest.approx(math.log(prompts), abs=1e-9)


def episode(prompt: list[int], thought: list[int], after: int = 2) -> Trajectory:
    """A reply with a thought and an action."""
    tokens = np.array([*thought, *[5] * after], np.int32)
    sample = Sample(tokens, np.zeros(len(tokens), np.float32), None, "", True)
    found = one_turn(0, np.array(prompt, np.int32), (), sample)
    mask = np.arange(len(tokens)) < len(thought)
    return replace(found, turns=[replace(found.turns[0], thought=mask)])


EPISODES = [
    episode([7, 8, 9], [10, 11]),
    episode([7, 8, 9], [12, 13, 14]),  # of a prompt that has a thought already
    episode([9, 8], []),  # without a thought
    episode([9, 8], [15]),
    episode([20, 21, 22, 23], [16, 17, 18]),
]


def test_each_thought_is_scored_after_each_prompt(make_policy: Callable[..., Policy]):
    policy = make_policy().eval()
    pairs = [([7, 8, 9], [10, 11]), ([9, 8], [15]), ([20, 21, 22, 23], [16, 17, 18])]
    expected = np.zeros((3, 3))
    for i, (_, thought) in enumerate(pairs):
        for j, (prompt, _) in enumerate(pairs):
            logits = policy.model(torch.tensor([[*prompt, *thought]])).logits[0] / 0.5
            logprobs = logits.detach().log_softmax(-1)[len(prompt) - 1 :]
            expected[i, j] = sum(float(logprobs[k, t]) for k, t in enumerate(thought))
    found = thought_information({"": policy}, EPISODES, HALF, ALONE)
    information = found["rollout/thought_information"]
    assert information == pytest.approx(mutual_information(expected, range(3)), abs=1e-4)
    assert abs(information) > 1e-4
    torch.nn.init.zeros_(policy.model.get_input_embeddings().weight)  # which reads no prompt
    found = thought_information({"": policy}, EPISODES, HALF, ALONE)
    assert found["rollout/thought_information"] == pytest.approx(0, abs=1e-6)


def test_one_prompt_or_no_thoughts_have_no_information(make_policy: Callable[..., Policy]):
    policies = {"": make_policy()}
    for few in (EPISODES[:3], [replace(t, replayed=True) for t in EPISODES]):
        assert thought_information(policies, few, HALF, ALONE) == {}
    roles = [replace(t, role=str(n)) for n, t in enumerate(EPISODES)]
    assert thought_information(policies, roles, HALF, ALONE) == {}


def test_episodes_count_that_are_not_learned_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    seen: dict[str, list[int]] = {"played": [], "learned": []}

    def played(policies: Any, trajectories: list[Trajectory], *_: Any) -> dict[str, float]:
        seen["played"].append(len(trajectories))
        return {}

    def learned(trainer: Any, found: Any, batch: Batch, *others: Any) -> dict[str, float]:
        seen["learned"].append(len(batch.trajectories))
        return log_iteration(trainer, found, batch, *others)

    monkeypatch.setattr(iteration, "thought_information", played)
    monkeypatch.setattr(iteration, "log_iteration", learned)
    make_trainer(
        "agent_q", env_id="NumberLine-v0", env_kwargs={"size": 6, "max_turns": 3}, model="nano",
        context="current", instructions=False, constrain=True, eval_episodes=0, iterations=1,
        episodes_per_iteration=4, group_size=2, simulations=1, threshold=100.0, quiet=True,
        log_with=(), transcripts=0, device="cpu", threads=1, run_dir=str(tmp_path),
    ).run()  # fmt: skip
    assert seen == {"played": [4], "learned": [1]}


def test_processes_share_the_pairs(
    make_policy: Callable[..., Policy], monkeypatch: pytest.MonkeyPatch
):
    policy, shares, found = make_policy(), [], {}
    whole = thought_information({"": policy}, EPISODES, HALF, ALONE)
    for index in range(2):
        process: Any = SimpleNamespace(process_index=index, num_processes=2)

        def gather(mine: list[Any]) -> list[Any]:
            shares.extend(mine)
            return shares if len(shares) == 2 else [*mine, (None, [0.0] * 4)]

        monkeypatch.setattr("agentgym.trainers.system.processes.gather_object", gather)
        found = thought_information({"": policy}, EPISODES, HALF, process)
    assert [len(share) for _, share in shares] == [5, 4]
    assert found == pytest.approx(whole, abs=1e-5)


def test_the_cost_is_bounded(make_policy: Callable[..., Policy], monkeypatch: pytest.MonkeyPatch):
    policy, asked = make_policy(), []
    forward = policy.forward
    monkeypatch.setattr(policy, "forward", lambda c: asked.append(c.tokens.shape) or forward(c))
    long = [episode([7, n], [n] * 300) for n in range(10, 40)]
    thought_information({"": policy}, long, HALF, ALONE)
    assert sum(rows for rows, _ in asked) == 64 and max(length for _, length in asked) == 258
